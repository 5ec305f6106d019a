// Flows: jobs that belong together, with how far each flow is.

import { get } from "../api.js";
import { partsBar } from "../charts.js";
import { fill, h } from "../dom.js";
import { ago, number, plural } from "../format.js";
import { code, downloads, emptyState, filterBar, pageHead, Pager, parametersOf, tabs, textFilter } from "../lists.js";
import { flowBadge } from "../situations.js";
import { step } from "../steps.js";
import { Table } from "../table.js";

const TABS = [["", "All"], ["running", "Running"], ["stuck", "Stuck"], ["failed", "Failed"], ["done", "Done"], ["cancelled", "Cancelled"]];

export function flowParts(flow) {
  return [
    ["done", flow.done, "good"],
    ["running", flow.running, "live"],
    ["ready", flow.ready, "quiet"],
    ["waiting", flow.held + flow.delayed, "hold"],
    ["failed", flow.failed, "bad"],
    ["cancelled", flow.cancelled, "quiet"],
  ];
}

const COLUMNS = [
  { name: "name", label: "Flow", first: true, cell: (flow) => flow.name },
  { name: "state", label: "State", cell: flowBadge },
  { name: "progress", label: "Progress", wide: true, cell: (flow) => h("div", { class: "with-text" }, partsBar(flowParts(flow), flow.name), h("span", { class: "faint" }, `${number(flow.done)} of ${number(flow.jobs)}`)) },
  { name: "running", label: "Running", number: true, cell: (flow) => (flow.running ? number(flow.running) : h("span", { class: "none" }, "0")) },
  { name: "failed", label: "Failed", number: true, cell: (flow) => (flow.failed ? h("span", { class: "bad-text" }, number(flow.failed)) : h("span", { class: "none" }, "0")) },
  { name: "created", label: "Begun", number: true, cell: (flow) => ago(flow.created) },
  { name: "ended", label: "Ended", number: true, cell: (flow) => ago(flow.ended) },
];

function nothing(view) {
  if (view.query.get("text") || view.query.get("state")) return emptyState("No flow matches", "Change or clear the filters.", h("a", { class: "button", href: "/flows" }, "Clear the filters"));
  return emptyState("No flow yet", "Jobs that name the same flow when they are submitted are shown together, as a graph of parents and children. From Python:", code("with hall.flow(\"nightly\"):\n    photo = fetch.submit(url)\n    resize.submit(photo)"));
}

export function openFlows(view) {
  view.title("Flows");
  const parameters = () => parametersOf(view.query, ["text", "state"]);
  const state = tabs(view, "state", "State", TABS);
  const filters = [textFilter(view, "text", "Search flows", { search: true, width: "grow" })];
  const files = downloads("/flows", parameters);
  const count = h("span");
  const pager = new Pager(view);
  const table = new Table({ caption: "Flows", columns: COLUMNS, key: (flow) => step(flow, "name"), href: (flow) => `/flows/${step(flow, "name")}`, empty: () => nothing(view) });
  view.main.append(pageHead("Flows", { lead: "Jobs that depend on each other, by the name of their flow." }), state.node, filterBar(view, filters), h("div", { class: "list-line" }, count, files.node), table.node, pager.node);
  const changed = view.queryChanged;
  view.queryChanged = (query) => {
    state.read(query);
    changed(query);
    table.stale();
  };
  view.keepFresh(async () => {
    const asked = location.search;
    const list = await get("/flows", { ...parameters(), cursor: view.query.get("cursor"), limit: 100 }, view.signal);
    if (asked !== location.search) return;
    fill(count, list.next ? `${plural(list.items.length, "flow")} on this page` : plural(list.items.length, "flow"));
    table.update(list.items);
    pager.update(list.next);
    files.draw();
  });
}
