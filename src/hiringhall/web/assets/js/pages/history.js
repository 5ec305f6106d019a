// Jobs that ended, from the store. Search them, download them, retry dead letters.

import { get, getPage } from "../api.js";
import { actOnAll } from "../bulk.js";
import { actionButton } from "../dialogs.js";
import { fill, fillKeepingFocus, h } from "../dom.js";
import { number, plural } from "../format.js";
import { downloads, emptyState, filterBar, pageHead, Pager, parametersOf, spanFilter, tabs, textFilter } from "../lists.js";
import { may } from "../session.js";
import { Table } from "../table.js";
import { jobColumns } from "./job-columns.js";
import { selectionBar } from "./jobs.js";

const FILTERS = ["state", "queue", "key", "text"];
const TABS = [["", "All"], ["done", "Done"], ["failed", "Dead letters"], ["cancelled", "Cancelled"]];

function nothing(view) {
  if (view.query.get("state") === "failed" && !view.query.get("text") && !view.query.get("key")) return emptyState("No dead letters", "A job that fails for good is kept here with its reason, until somebody retries it.");
  if (FILTERS.some((name) => view.query.get(name)) || view.query.get("span")) return emptyState("Nothing in the history matches", "Only durable jobs are kept, and old ones are removed after the time that the settings name.", h("a", { class: "button", href: "/history" }, "Clear the filters"));
  return emptyState("The history is empty", "Each durable job leaves a line here when it ends: who did it, when, at which attempt, and with what result.");
}

export function openHistory(view) {
  view.title("History");
  let table = null;
  const parameters = () => parametersOf(view.query, FILTERS);
  const failedOnly = () => view.query.get("state") === "failed";
  const state = tabs(view, "state", "State", TABS);
  const filters = [textFilter(view, "text", "Text in key, payload or result", { search: true, width: "grow" }), textFilter(view, "queue", "Queue"), textFilter(view, "key", "Exact key"), spanFilter(view)];
  const files = downloads("/history", parameters);
  const count = h("span", { role: "status" }, "…");
  const actions = h("span", { class: "list-line-actions" });
  const pager = new Pager(view);
  const bar = selectionBar(() => table, "retry", view);
  const place = h("div");
  let selectable = false;
  const build = () => {
    selectable = failedOnly();
    table = new Table({
      caption: "Jobs that ended", columns: jobColumns(["queue", "situation", "key", "attempts", "ended", "took", "worker", "result"]), key: (job) => job.id, href: (job) => `/jobs/${job.id}`,
      empty: () => nothing(view), selectable: may("operator") && selectable ? (selected) => bar.draw(selected) : null,
    });
    bar.node.hidden = true;
    place.replaceChildren(table.node);
  };
  build();
  view.main.append(pageHead("History", { lead: "Durable jobs that ended. It is kept across restarts." }), state.node, filterBar(view, filters), h("div", { class: "list-line" }, count, h("span", { class: "list-line-actions" }, actions, files.node)), place, bar.node, pager.node);
  const filtersChanged = view.queryChanged;
  view.queryChanged = (query) => {
    state.read(query);
    filtersChanged(query);
    if (failedOnly() !== selectable) build();
    table.stale();
  };
  view.keepFresh(async () => {
    const asked = location.search;
    const [list, total] = await Promise.all([getPage("/history", { ...parameters(), cursor: view.query.get("cursor"), limit: 50 }, view.signal), get("/history/count", parameters(), view.signal)]);
    if (asked !== location.search) return;
    table.update(list.items);
    pager.update(list.next);
    files.draw();
    fill(count, `${total.complete === false ? "More than " : ""}${plural(total.count, "job")} ${Object.keys(parameters()).length ? (total.count === 1 ? "matches" : "match") : "in the history"}`);
    const all = actionButton(`Retry all ${number(total.count)}…`, async () => (await actOnAll("retry", "/history", parameters()), view.refresh()), { class: "button button-small", "data-key": "retry-all" });
    fillKeepingFocus(actions, may("operator") && failedOnly() && total.count ? all : null);
  });
}
