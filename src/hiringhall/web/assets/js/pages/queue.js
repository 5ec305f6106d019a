// One queue: its figures, its history as bars, and its jobs.

import { Encoded, get, getPage } from "../api.js";
import { Chart, legend, partsBar } from "../charts.js";
import { fill, fillKeepingFocus, h } from "../dom.js";
import { ago, duration, number, rate } from "../format.js";
import { emptyState, pageHead, tabs } from "../lists.js";
import { pausedBadge } from "../situations.js";
import { nameOf, queryOf } from "../steps.js";
import { Table } from "../table.js";
import { historyBars, SERIES, SPANS } from "./chart-data.js";
import { jobColumns } from "./job-columns.js";
import { queueActions, queueParts } from "./queues.js";

const CHART_EVERY_MS = 15_000;

function limits(rules) {
  const texts = [];
  if (rules.running_max) texts.push(`at most ${number(rules.running_max)} running`);
  if (rules.key_running_max) texts.push(`at most ${number(rules.key_running_max)} running for each key`);
  if (rules.starts_per_second) texts.push(`${rules.starts_per_second} starts a second${rules.burst > 1 ? `, burst ${number(rules.burst)}` : ""}`);
  if (rules.fair) texts.push("tenants take turns");
  for (const [tenant, weight] of Object.entries(rules.tenant_weights || {})) texts.push(`${tenant} has ${weight} in a turn`);
  if (rules.age_max_s) texts.push(`cancelled after ${duration(rules.age_max_s)}`);
  return texts.join("; ");
}

function figures(queue) {
  const one = (label, value, hint) => h("div", { class: "figure" }, h("dt", null, label), h("dd", null, value, hint && h("span", { class: "figure-hint" }, hint)));
  return h(
    "dl",
    { class: "figures card" },
    one("Ready", number(queue.ready), queue.oldest ? h("span", null, "the oldest since ", ago(queue.oldest)) : "nobody waits"),
    one("Running", number(queue.running), `${number(queue.workers)} ${queue.workers === 1 ? "worker" : "workers"} can do it`),
    one("Waiting", number(queue.held + queue.delayed), `${number(queue.held)} for parents, ${number(queue.delayed)} due later`),
    one("Dead letters", number(queue.failed), `${number(queue.failed_total)} failed since the hall opened`),
    one("Rate", rate(queue.done_s), `over the last minute; ${number(queue.done_total)} done since the hall opened`),
    one("Typical run", queue.average_run_s ? duration(queue.average_run_s) : "–", "average of the last runs"),
    limits(queue.rules) || queue.rules_set ? one("Limits", limits(queue.rules) || "none", queue.rules_set ? "set at run time" : "of the settings") : null,
  );
}

export function openQueue(view) {
  const segment = view.names.name;
  const name = nameOf(segment);
  const queried = queryOf(segment);
  view.title(name);
  const actions = h("div", { class: "page-actions" });
  const state = h("span", { class: "head-badge" });
  const top = h("div", { class: "stack" });
  const span = tabs(view, "span", "Time span", SPANS.map(([value, label]) => [value === "1d" ? "" : value, label]));
  view.queryChanged = span.read;
  const chart = new Chart({ title: `Jobs of ${name} that ended`, kind: "bars" });
  const live = new Table({ caption: `Jobs of ${name} that have not ended`, columns: jobColumns(["situation", "key", "payload", "attempts", "created", "started", "worker"]), key: (job) => job.id, href: (job) => `/jobs/${job.id}`, empty: () => emptyState("Nothing to do", "Every job of this queue has ended.") });
  const ended = new Table({ caption: `Jobs of ${name} that ended last`, columns: jobColumns(["situation", "key", "attempts", "ended", "took", "worker", "result"]), key: (job) => job.id, href: (job) => `/jobs/${job.id}`, empty: () => emptyState("Nothing has ended yet", "Durable jobs appear here with their results.") });
  const section = (title, node, link) => h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", null, title), h("a", { href: link }, "All")), node);
  view.main.append(
    pageHead(name, { back: ["/queues", "Queues"], actions }),
    top,
    h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", null, "Ended jobs"), span.node), h("div", { class: "card-body" }, chart.node, legend(SERIES))),
    section("Not ended", live.node, `/jobs?queue=${queried}`),
    section("Ended last", ended.node, `/history?queue=${queried}`),
  );
  view.main.querySelector("h1").append(state);
  view.keepFresh(
    async () => {
      const queue = await get(`/queues/${segment}`, null, view.signal);
      fill(top, figures(queue), h("div", { class: "queue-bar" }, partsBar(queueParts(queue), name)));
      fill(state, queue.paused ? pausedBadge() : null);
      fillKeepingFocus(actions, queueActions(queue, () => view.refresh()));
    },
    (error) => (error.status === 404 ? fill(top, h("div", { class: "card" }, emptyState("The hall knows no such queue now", `Nobody has used ${name} since the hall opened, or it is spelt differently. What ended before is below.`))) : view.say(error)),
  );
  view.keepFresh(async () => {
    const [jobs, past] = await Promise.all([getPage("/jobs", { queue: new Encoded(queried), limit: 8 }, view.signal), getPage("/history", { queue: new Encoded(queried), limit: 8 }, view.signal)]);
    live.update(jobs.items);
    ended.update(past.items);
  });
  let asked = "";
  let askedAt = 0;
  view.keepFresh(async () => {
    const wanted = view.query.get("span") || "1d";
    if (wanted === asked && Date.now() - askedAt < CHART_EVERY_MS) return;
    chart.update(historyBars(await get("/history/chart", { span: wanted, queue: new Encoded(queried) }, view.signal)));
    asked = wanted;
    askedAt = Date.now();
  });
}
