// The workers that are connected, of every dialect; drain one.

import { get, post } from "../api.js";
import { actionButton, confirmed, note } from "../dialogs.js";
import { fill, fillKeepingFocus, h } from "../dom.js";
import { ago, number, plural } from "../format.js";
import { choiceFilter, code, downloads, emptyState, filterBar, pageHead, pageOf, parametersOf, sorted, textFilter, urlSort } from "../lists.js";
import { may } from "../session.js";
import { workerBadge } from "../situations.js";
import { Table } from "../table.js";

const FILTERS = ["text", "queue", "dialect"];
const DIALECTS = ["native", "gearman", "gearman_draft", "dwork", "pingpong", "wmp", "hire", "beanstalkd"];
const TAGS_MAX = 2;

export function workerActions(worker, changed, { small = false } = {}) {
  if (!may("operator")) return [];
  const run = async () => {
    if (!worker.draining) {
      const running = worker.jobs.length ? `It finishes ${plural(worker.jobs.length, "job")} that it has.` : "It runs nothing now.";
      if (!(await confirmed(`Drain ${worker.name}?`, `The worker gets no further jobs. ${running}`, "Drain this worker"))) return;
    }
    await post(`/workers/${worker.number}/${worker.draining ? "undrain" : "drain"}`);
    note(worker.draining ? `${worker.name} gets jobs again.` : `${worker.name} gets no further jobs.`);
    changed();
  };
  const label = worker.draining ? "Undrain" : "Drain";
  return [actionButton(label, run, { class: small ? "button button-small" : "button", "data-key": "drain", "aria-label": `${label} ${worker.name}` })];
}

export function queueTags(worker) {
  const names = worker.queues.map((name) => (typeof name === "string" ? name : name.name));
  const tags = names.slice(0, TAGS_MAX).map((name) => h("span", { class: "tag", title: worker.skills?.[name] ? `${name}, skill ${worker.skills[name]}` : name }, worker.skills?.[name] ? `${name} · ${worker.skills[name]}` : name));
  if (names.length > TAGS_MAX) tags.push(h("span", { class: "faint", title: names.join(", ") }, `+${names.length - TAGS_MAX}`));
  return h("span", { class: "tags tags-line" }, tags);
}

function columns(view) {
  return [
    { name: "name", label: "Worker", first: true, sort: (worker) => worker.name, cell: (worker) => worker.name || `worker ${worker.number}` },
    { name: "state", label: "State", sort: (worker) => worker.state, cell: workerBadge },
    { name: "dialect", label: "Dialect", sort: (worker) => worker.dialect, cell: (worker) => h("span", { class: "tag" }, worker.dialect || "unknown") },
    { name: "address", label: "Address", sort: (worker) => worker.address, cell: (worker) => (worker.address ? h("span", { class: "mono data" }, worker.address) : h("span", { class: "none" }, worker.resident ? "in the hall" : "–")) },
    { name: "queues", label: "Can do", cell: queueTags },
    { name: "jobs", label: "Runs", sort: (worker) => worker.jobs.length, cell: (worker) => h("span", { class: "tags tags-line" }, h("span", { class: worker.jobs.length ? "" : "faint" }, worker.slots ? `${number(worker.jobs.length)} of ${number(worker.slots)}` : number(worker.jobs.length)), worker.jobs.length ? h("a", { class: "mono", href: `/jobs/${worker.jobs[0]}`, "data-key": "job" }, worker.jobs[0]) : null) },
    { name: "until", label: "Time left", number: true, sort: (worker) => worker.until ?? "", cell: (worker) => (worker.until ? ago(worker.until) : h("span", { class: "none" }, "–")) },
    { name: "heard", label: "Last heard", number: true, sort: (worker) => worker.heard ?? "", cell: (worker) => ago(worker.heard) },
    { name: "actions", label: "", cell: (worker) => h("div", { class: "row-actions" }, workerActions(worker, () => view.refresh(), { small: true })) },
  ];
}

function nothing(view) {
  if (FILTERS.some((name) => view.query.get(name))) return emptyState("No connected worker matches", "Change or clear the filters.", h("a", { class: "button", href: "/workers" }, "Clear the filters"));
  return emptyState("No worker is connected", "Start one of any protocol. For job functions in Python:", code("hall work app"), h("p", null, "or, with Debian's gearman-tools:"), code("gearman -w -f rev -- rev"));
}

export function openWorkers(view) {
  view.title("Workers");
  const sort = urlSort(view, "name");
  const shape = columns(view);
  const parameters = () => parametersOf(view.query, FILTERS);
  const filters = [textFilter(view, "text", "Name or address", { search: true, width: "grow" }), textFilter(view, "queue", "Can do queue"), choiceFilter(view, "dialect", "Dialect", [["", "Any dialect"], ...DIALECTS.map((name) => [name, name])])];
  const files = downloads("/workers", parameters);
  const count = h("span");
  const pager = h("div", { class: "pager" });
  const table = new Table({ caption: "Workers", columns: shape, key: (worker) => String(worker.number), href: (worker) => `/workers/${worker.number}`, empty: () => nothing(view), sort });
  view.main.append(pageHead("Workers", { lead: "Who is connected now, at any door." }), filterBar(view, filters), h("div", { class: "list-line" }, count, files.node), table.node, pager);
  view.keepFresh(async () => {
    const items = [];
    let cursor = null;
    do {
      const page = await get("/workers", { ...parameters(), limit: 1000, cursor }, view.signal);
      items.push(...page.items);
      cursor = page.next;
    } while (cursor && items.length < 5000);
    const busy = items.filter((worker) => worker.jobs.length).length;
    const { shown, foot } = pageOf(sorted(items, shape, sort.now()), view);
    fill(count, `${plural(items.length, "worker")}, ${number(busy)} busy`);
    table.drawHead();
    table.update(shown);
    fillKeepingFocus(pager, foot);
    files.draw();
  });
}
