// One worker: who it is, what it can do, what it runs.

import { get } from "../api.js";
import { fill, fillKeepingFocus, h } from "../dom.js";
import { ago, number } from "../format.js";
import { emptyState, pageHead } from "../lists.js";
import { workerBadge } from "../situations.js";
import { step } from "../steps.js";
import { Table } from "../table.js";
import { jobColumns } from "./job-columns.js";
import { workerActions } from "./workers.js";

function facts(worker) {
  const line = (label, value) => [h("dt", null, label), h("dd", null, value)];
  return h(
    "dl",
    { class: "facts" },
    line("Dialect", h("span", { class: "tag" }, worker.dialect || "unknown")),
    line("Door", worker.door || "–"),
    line("Address", worker.address || (worker.resident ? "in the hall" : "–")),
    line("Connected since", ago(worker.since)),
    line("Last heard", ago(worker.heard)),
    line("Time left", worker.until ? ago(worker.until) : "no limit"),
    line("Slots", worker.slots ? `${number(worker.jobs.length)} of ${number(worker.slots)} busy` : `${number(worker.jobs.length)} busy; it asks for one job at a time`),
    Object.entries(worker.resources ?? {}).map(([name, { used, total }]) => line(`Used ${name}`, `${used} of ${total}`)),
  );
}

function abilities(worker) {
  if (!worker.queues.length) return h("p", { class: "faint" }, "It has named no queue.");
  return h("ul", { class: "tags" }, worker.queues.map((name) => h("li", null, h("a", { class: "tag", href: `/queues/${step({ name }, "name")}` }, worker.skills?.[name] ? `${name} · skill ${worker.skills[name]}` : name))));
}

export function openWorker(view) {
  const number_ = view.names.number;
  view.title(`Worker ${number_}`);
  const title = h("span", null, `Worker ${number_}`);
  const state = h("span", { class: "head-badge" });
  const actions = h("div", { class: "page-actions" });
  const body = h("div", { class: "stack" }, h("div", { class: "card card-body" }, h("span", { class: "skeleton" })));
  const jobs = new Table({ caption: "Jobs that it runs", columns: jobColumns(["queue", "situation", "key", "payload", "attempts", "started"]), key: (job) => job.id, href: (job) => `/jobs/${job.id}`, empty: () => emptyState("It runs nothing now", "Jobs that it is given appear here.") });
  const head = pageHead(title, { back: ["/workers", "Workers"], actions });
  view.main.append(head, body, h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", null, "Runs now")), jobs.node));
  head.querySelector("h1").append(state);
  view.keepFresh(
    async () => {
      const worker = await get(`/workers/${number_}`, null, view.signal);
      fill(title, worker.name || `Worker ${number_}`);
      view.title(worker.name || `Worker ${number_}`);
      fill(state, workerBadge(worker));
      fillKeepingFocus(actions, workerActions(worker, () => view.refresh()));
      fillKeepingFocus(body, h("div", { class: "columns" }, h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", null, "Who")), h("div", { class: "card-body" }, facts(worker))), h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", null, "Can do")), h("div", { class: "card-body" }, abilities(worker)))));
      jobs.update((await get("/jobs", { worker: number_, limit: 100 }, view.signal)).items);
    },
    (error) => {
      if (error.status !== 404) return;
      fill(state);
      fill(actions);
      fill(body, h("div", { class: "card" }, emptyState("This worker is not connected", "A worker that comes back has a new number.", h("a", { class: "button", href: "/workers" }, "All workers"))));
      jobs.update([]);
    },
  );
}
