// One flow as a graph, live; and the graph of jobs that are connected with one job.

import { get, post } from "../api.js";
import { partsBar } from "../charts.js";
import { actionButton, confirmed, note } from "../dialogs.js";
import { fill, fillKeepingFocus, h } from "../dom.js";
import { ago, number, plural } from "../format.js";
import { GraphView } from "../graph/view.js";
import { emptyState, pageHead } from "../lists.js";
import { may } from "../session.js";
import { flowBadge } from "../situations.js";
import { nameOf } from "../steps.js";
import { flowParts } from "./flows.js";

function openJobs(flow) {
  return flow.held + flow.delayed + flow.ready + flow.running;
}

function actions(flow, segment, changed) {
  if (!may("operator")) return [];
  // The button may be older than the last change, so what it touches is counted when it is pressed.
  const now = () => get(`/flows/${segment}`);
  const cancel = async () => {
    const open = openJobs(await now());
    if (!(await confirmed(`Cancel ${plural(open, "job")}?`, `The ${plural(open, "job")} of ${flow.name} that ${open === 1 ? "has" : "have"} not ended ${open === 1 ? "is" : "are"} cancelled.`, `Cancel ${plural(open, "job")}`, "bad"))) return;
    await post(`/flows/${segment}/cancel`);
    note(`${flow.name} is cancelled.`);
    changed();
  };
  const retry = async () => {
    const { failed } = await now();
    if (!(await confirmed(`Retry ${plural(failed, "job")}?`, `The ${plural(failed, "failed job")} of ${flow.name} ${failed === 1 ? "becomes" : "become"} ready again, with all ${failed === 1 ? "its" : "their"} attempts.`, `Retry ${plural(failed, "job")}`))) return;
    await post(`/flows/${segment}/retry`);
    note(`The failed jobs of ${flow.name} are retried.`);
    changed();
  };
  return [flow.failed ? actionButton(`Retry ${number(flow.failed)} failed`, retry, { "data-key": "retry" }) : null, openJobs(flow) ? actionButton("Cancel", cancel, { "data-key": "cancel" }) : null].filter(Boolean);
}

export function openFlow(view) {
  const segment = view.names.name;
  const name = nameOf(segment);
  view.title(name);
  const lead = h("p", { class: "lead" }, h("span", { class: "skeleton" }));
  const bar = h("div", { class: "queue-bar" });
  const buttons = h("div", { class: "page-actions" });
  const graph = new GraphView(view.signal);
  const head = pageHead(name, { back: ["/flows", "Flows"], actions: buttons });
  head.firstElementChild.append(lead);
  const part = h("div");
  view.main.append(head, bar, part, graph.node);
  let seen = "";
  view.keepFresh(
    async () => {
      const flow = await get(`/flows/${segment}`, null, view.signal);
      fill(lead, flowBadge(flow), ` ${number(flow.done)} of ${plural(flow.jobs, "job")} done · begun `, ago(flow.created), flow.ended ? [" · ended ", ago(flow.ended)] : null);
      fill(bar, partsBar(flowParts(flow), name));
      fillKeepingFocus(buttons, actions(flow, segment, () => view.refresh()));
      // Nodes are asked for when the counts have changed: a flow at rest costs one small request.
      const state = JSON.stringify(flow);
      if (state === seen) return;
      const answer = await get(`/flows/${segment}/graph`, null, view.signal);
      graph.update(answer);
      fill(part, answer.complete === false ? h("p", { class: "faint" }, `The graph is not complete: it shows ${number(answer.nodes.length)} jobs of this flow, the newest ones.`) : null);
      seen = state;
    },
    (error) => {
      if (error.status !== 404) return;
      fill(lead);
      graph.node.hidden = true;
      fill(bar, h("div", { class: "card" }, emptyState("The hall does not know this flow", "It may have been removed with the history of its jobs.", h("a", { class: "button", href: "/flows" }, "All flows"))));
    },
  );
}

export function openGraph(view) {
  const id = view.query.get("job") ?? "";
  view.title("Graph");
  const graph = new GraphView(view.signal);
  const note_ = h("div");
  view.main.append(pageHead("Graph", { lead: h("span", null, "Jobs that have not ended and are connected with ", h("a", { class: "mono", href: `/jobs/${encodeURIComponent(id)}` }, id), "."), back: [`/jobs/${encodeURIComponent(id)}`, "Job"] }), note_, graph.node);
  view.keepFresh(
    async () => {
      const answer = await get("/graph", { job: id }, view.signal);
      graph.update(answer);
      graph.node.hidden = answer.nodes.length === 0;
      fill(note_, answer.nodes.length ? (answer.complete === false ? h("p", { class: "faint" }, `The graph is not complete: it shows ${number(answer.nodes.length)} jobs, and more are connected with this one.`) : null) : h("div", { class: "card" }, emptyState("No graph", "This job has no parents or children that have not ended.")));
    },
    (error) => error.status < 500 && error.status >= 400 && ((graph.node.hidden = true), fill(note_, h("div", { class: "card" }, emptyState("No graph", error.message)))),
  );
}
