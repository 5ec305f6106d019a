// All queues: how deep, how old, how fast; pause, resume and retry.

import { get, post } from "../api.js";
import { retryQueue } from "../bulk.js";
import { sparkline } from "../charts.js";
import { actionButton, note } from "../dialogs.js";
import { fill, fillKeepingFocus, h } from "../dom.js";
import { duration, number, plural, rate } from "../format.js";
import { code, downloads, emptyState, filterBar, pageHead, pageOf, sorted, textFilter, urlSort } from "../lists.js";
import { depths } from "../live.js";
import { may } from "../session.js";
import { noWorkerBadge, pausedBadge } from "../situations.js";
import { step } from "../steps.js";
import { Table } from "../table.js";
import { encoded } from "../text.js";

export function queueParts(queue) {
  return [
    ["running", queue.running, "live"],
    ["ready", queue.ready, "quiet"],
    ["due later", queue.delayed, "hold"],
    ["waiting for parents", queue.held, "hold"],
    ["dead letters", queue.failed, "bad"],
  ];
}

/** The buttons of a queue; `changed` is called after each. */
export function queueActions(queue, changed, { small = false } = {}) {
  if (!may("operator")) return [];
  const path = step(queue, "name");
  const style = small ? "button button-small" : "button";
  const toggle = async () => {
    await post(`/queues/${path}/${queue.paused ? "resume" : "pause"}`);
    note(queue.paused ? `${queue.name} goes on.` : `${queue.name} is paused. Jobs that run go on; no other starts.`);
    changed();
  };
  const retry = async () => {
    await retryQueue(queue.name, path);
    changed();
  };
  const buttons = [];
  if (queue.failed) buttons.push(actionButton(small ? "Retry" : `Retry ${plural(queue.failed, "dead letter")}`, retry, { class: style, "data-key": "retry", "aria-label": `Retry all dead letters of ${queue.name}` }));
  buttons.push(actionButton(queue.paused ? "Resume" : "Pause", toggle, { class: style, "data-key": "pause", "aria-label": `${queue.paused ? "Resume" : "Pause"} ${queue.name}` }));
  return buttons;
}

function columns(view) {
  const count = (name, label, link) => ({
    name, label, number: true, sort: (queue) => queue[name],
    cell: (queue) => (queue[name] ? (link ? h("a", { href: link(queue), "data-key": name }, number(queue[name])) : number(queue[name])) : h("span", { class: "none" }, "0")),
  });
  const of = (queue) => encoded(queue, "name");
  return [
    { name: "name", label: "Queue", first: true, sort: (queue) => queue.name, cell: (queue) => queue.name, after: (queue) => (queue.paused ? pausedBadge() : queue.ready && !queue.workers ? noWorkerBadge() : null) },
    { name: "depths", label: "Last 3 minutes", tile: true, cell: (queue) => sparkline(depths.get(queue.name) ?? [], `Depth of ${queue.name} over the last minutes, now ${queue.ready + queue.running}`) },
    count("ready", "Ready", (queue) => `/jobs?situation=ready&queue=${of(queue)}`),
    count("running", "Running", (queue) => `/jobs?situation=running&queue=${of(queue)}`),
    { name: "waiting", label: "Waiting", number: true, sort: (queue) => queue.held + queue.delayed, cell: (queue) => (queue.held + queue.delayed ? number(queue.held + queue.delayed) : h("span", { class: "none" }, "0")) },
    { name: "failed", label: "Dead letters", number: true, sort: (queue) => queue.failed, cell: (queue) => (queue.failed ? h("a", { class: "bad-link", href: `/history?state=failed&queue=${of(queue)}`, "data-key": "failed" }, number(queue.failed)) : h("span", { class: "none" }, "0")) },
    { name: "oldest", label: "Oldest", number: true, sort: (queue) => queue.oldest_s ?? 0, cell: (queue) => (queue.oldest_s ? duration(queue.oldest_s) : h("span", { class: "none" }, "–")) },
    { name: "rate", label: "Rate", number: true, sort: (queue) => queue.done_s ?? 0, cell: (queue) => (queue.done_s ? rate(queue.done_s) : h("span", { class: "none" }, "0/s")) },
    { name: "run", label: "Typical run", number: true, sort: (queue) => queue.average_run_s ?? 0, cell: (queue) => (queue.average_run_s ? duration(queue.average_run_s) : h("span", { class: "none" }, "–")) },
    count("workers", "Workers", (queue) => `/workers?queue=${of(queue)}`),
    { name: "actions", label: "", cell: (queue) => h("div", { class: "row-actions" }, queueActions(queue, () => view.refresh(), { small: true })) },
  ];
}

function nothing(filtered) {
  if (filtered) return emptyState("No queue has this in its name", "Change or clear the search.");
  return emptyState("No queue yet", "A queue is there as soon as a job is submitted to it, or a worker says that it can do it. Try one with Debian's gearman-tools:", code("gearman -w -f rev -- rev &\necho hello | gearman -f rev"));
}

export function openQueues(view) {
  view.title("Queues");
  const sort = urlSort(view, "name");
  const shape = columns(view);
  const search = textFilter(view, "text", "Search queues", { search: true, width: "grow" });
  const parameters = () => ({ text: view.query.get("text") });
  const files = downloads("/queues", parameters);
  const count = h("span", { "aria-live": "off" });
  const pager = h("div", { class: "pager" });
  const table = new Table({ caption: "Queues", columns: shape, key: (queue) => encoded(queue, "name"), href: (queue) => `/queues/${step(queue, "name")}`, empty: () => nothing(view.query.get("text")), sort });
  view.main.append(pageHead("Queues", { lead: "What kinds of work there are, and how far behind each is." }), filterBar(view, [search]), h("div", { class: "list-line" }, count, files.node), table.node, pager);
  view.keepFresh(async () => {
    const { items, next } = await get("/queues", { ...parameters(), limit: 1000 }, view.signal);
    const { shown, foot } = pageOf(sorted(items, shape, sort.now()), view);
    fill(count, `${plural(items.length, "queue")}${next ? ", the first of more: search to narrow" : ""}`);
    table.drawHead();
    table.update(shown);
    fillKeepingFocus(pager, foot);
    files.draw();
  });
}
