// Jobs that have not ended. Filters are in the address; cancel one, some, or all that match.

import { get, getPage } from "../api.js";
import { actOnAll, actOnSelected } from "../bulk.js";
import { act, actionButton } from "../dialogs.js";
import { fill, fillKeepingFocus, h } from "../dom.js";
import { number, plural } from "../format.js";
import { choiceFilter, code, downloads, emptyState, filterBar, pageHead, Pager, parametersOf, spanFilter, tabs, textFilter } from "../lists.js";
import { may } from "../session.js";
import { jobLabel, LIVE } from "../situations.js";
import { Table } from "../table.js";
import { jobColumns } from "./job-columns.js";
import { newJob } from "./new-job.js";

const FILTERS = ["situation", "queue", "key", "text", "worker"];
const TABS = [["", "All"], ["ready", "Ready"], ["running", "Running"], ["backoff", "Backing off"], ["held", "Waits for parents"], ["delayed", "Due later"], ["no_workers", "No worker"]];

function nothing(view) {
  const filtered = FILTERS.some((name) => view.query.get(name)) || view.query.get("span");
  if (filtered) {
    const past = new URLSearchParams(view.query);
    for (const name of ["situation", "worker", "cursor"]) past.delete(name);
    return emptyState("No job that waits or runs matches", "It may have ended.", h("div", { class: "empty-actions" }, h("a", { class: "button", href: `/history?${past}` }, "Look in the history"), h("a", { class: "button", href: "/jobs" }, "Clear the filters")));
  }
  return emptyState("No job waits or runs", "All that was submitted has ended; the history has it. Submit a job with any client, for example:", code("echo hello | gearman -f rev"));
}

/** The bar that is shown while rows are selected. */
export function selectionBar(table, what, view) {
  const bar = h("div", { class: "selection", hidden: true, role: "region", "aria-label": "Selected jobs" });
  const verb = what === "cancel" ? "Cancel" : "Retry";
  return {
    node: bar,
    draw(selected) {
      bar.hidden = selected.size === 0;
      if (!selected.size) return;
      const run = async () => {
        if (await actOnSelected(what, [...table().selected.keys()])) table().clearSelection();
        view.refresh();
      };
      fillKeepingFocus(
        bar,
        h("span", null, `${number(selected.size)} selected`),
        actionButton(`${verb} ${plural(selected.size, "job")}`, run, { "data-key": "act", class: "button button-small" }),
        h("button", { type: "button", class: "button button-small", "data-key": "clear", onclick: () => table().clearSelection() }, "Clear"),
      );
    },
  };
}

export function openJobs(view) {
  view.title("Jobs");
  let table = null;
  const parameters = () => parametersOf(view.query, FILTERS);
  const situation = tabs(view, "situation", "Situation", TABS);
  const rare = choiceFilter(view, "situation", "Every situation", [["", "Any situation"], ...LIVE.map((word) => [word, jobLabel(word)])]);
  const filters = [textFilter(view, "text", "Text in key or payload", { search: true, width: "grow" }), textFilter(view, "queue", "Queue"), textFilter(view, "key", "Exact key"), rare, spanFilter(view)];
  const files = downloads("/jobs", parameters);
  const count = h("span", { role: "status" }, "…");
  const actions = h("span", { class: "list-line-actions" });
  const pager = new Pager(view);
  const bar = selectionBar(() => table, "cancel", view);
  table = new Table({
    caption: "Jobs that have not ended", columns: jobColumns(["queue", "situation", "key", "payload", "attempts", "created", "started", "worker"]), key: (job) => job.id, href: (job) => `/jobs/${job.id}`,
    empty: () => nothing(view), selectable: may("operator") ? (selected) => bar.draw(selected) : null,
  });
  const add = h("button", { type: "button", class: "button button-accent" }, "New job");
  add.addEventListener("click", () => act(add, () => newJob(view.query.get("queue") ?? "")));
  view.main.append(
    pageHead("Jobs", { lead: h("span", null, "Jobs that wait or run. What ended is in the ", h("a", { href: "/history" }, "history"), ", dead letters too."), actions: may("operator") ? add : [] }),
    situation.node,
    filterBar(view, filters),
    h("div", { class: "list-line" }, count, h("span", { class: "list-line-actions" }, actions, files.node)),
    table.node,
    bar.node,
    pager.node,
  );
  const filtersChanged = view.queryChanged;
  view.queryChanged = (query) => {
    situation.read(query);
    filtersChanged(query);
    if (may("operator")) table.clearSelection();
    table.stale();
  };
  view.keepFresh(async () => {
    const asked = location.search;
    const [list, total] = await Promise.all([getPage("/jobs", { ...parameters(), cursor: view.query.get("cursor"), limit: 50 }, view.signal), get("/jobs/count", parameters(), view.signal)]);
    if (asked !== location.search) return;
    table.update(list.items);
    pager.update(list.next);
    files.draw();
    const filtered = Object.keys(parameters()).length > 0;
    fill(count, `${total.complete === false ? "More than " : ""}${plural(total.count, "job")} ${filtered ? (total.count === 1 ? "matches" : "match") : "in all queues"}`);
    const all = actionButton(`Cancel all ${number(total.count)}…`, async () => (await actOnAll("cancel", "/jobs", parameters()), view.refresh()), { class: "button button-small", "data-key": "cancel-all" });
    fillKeepingFocus(actions, may("operator") && filtered && total.count ? all : null);
  });
}
