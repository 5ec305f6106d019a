// The overview: what needs attention first, then how the hall does now and did before, then who is connected.

import { get } from "../api.js";
import { Chart } from "../charts.js";
import { fill, fillKeepingFocus, h } from "../dom.js";
import { ago, compact, duration, number, plural, rate } from "../format.js";
import { code, emptyState, pageHead, tabs } from "../lists.js";
import * as live from "../live.js";
import { session } from "../session.js";
import { step } from "../steps.js";
import { Table } from "../table.js";
import { historyFailures, historyRate, historyTimes, SPANS } from "./chart-data.js";

const CHART_EVERY_MS = 10_000;
const GAP_MS = 6000;
const BUSIEST = 8;
const ATTENTION_SHOWN = 5;
const WORKERS_COUNTED = 10_000;
const WORKERS_EVERY_MS = 6000;

const ATTENTION = {
  dead_letters: ["bad", "Dead letters"],
  stuck_queue: ["warn", "Stuck"],
  store: ["bad", "Storage"],
  workers_lost: ["warn", "Workers lost"],
  paused: ["quiet", "Paused"],
};

/** A link of the server must lead into this dashboard. */
function inside(link) {
  return typeof link === "string" && /^\/(?!\/)/.test(link) ? link : "/jobs";
}

/** What needs attention. A long list is folded, so that the charts stay in view; `unfold` is null if all is shown. */
function attention(summary, unfold) {
  const items = summary.attention ?? [];
  if (!items.length) return h("p", { class: "all-well" }, h("span", { class: "dot tone-good" }), "Nothing needs attention: no dead letters, no stuck queue, storage works.");
  const shown = unfold && items.length > ATTENTION_SHOWN + 1 ? items.slice(0, ATTENTION_SHOWN) : items;
  const more = items.length - shown.length;
  return h(
    "ul",
    { class: "attention" },
    shown.map((item, index) => {
      const [tone, label] = ATTENTION[item.kind] ?? ["warn", item.kind];
      return h("li", null, h("a", { href: inside(item.link), class: `attention-line tone-${tone}`, "data-key": `attention-${index}` }, h("span", { class: "badge" }, label), h("span", { class: "data" }, item.text), h("span", { class: "go", "aria-hidden": "true" }, "›")));
    }),
    more ? h("li", null, h("button", { type: "button", class: "attention-line attention-more", "data-key": `attention-${ATTENTION_SHOWN}`, onclick: unfold }, `Show ${number(more)} more`)) : null,
  );
}

class Tile {
  constructor(title, format, kind = "line") {
    this.value = h("span", { class: "tile-value" }, "–");
    this.note = h("span", { class: "tile-note" });
    this.chart = new Chart({ title, format, kind });
    this.node = h("section", { class: "card tile" }, h("div", { class: "tile-head" }, h("h2", null, title), h("div", { class: "tile-figure" }, this.value, this.note)), this.chart.node);
  }

  say(value, note) {
    fill(this.value, value);
    fill(this.note, note);
  }
}

function livePoints(...lines) {
  const times = live.points.map((point) => point.t);
  const to = times.at(-1) ?? Date.now();
  // The window grows with what is known, from one minute to ten.
  const from = Math.max(to - live.MINUTES * 60_000, Math.min(times[0] ?? to, to - 60_000));
  return { times, from, to, gap: GAP_MS, series: lines.map(([name, tone, field]) => ({ name, tone, values: live.points.map((point) => point[field]) })) };
}

function drawLive(tiles, summary) {
  const { jobs, rates } = summary;
  tiles.throughput.say(rate(rates.done_s), "jobs done, over the last minute");
  tiles.throughput.chart.update(livePoints(["Done", "live", "done"]));
  const scope = summary.queues.length < live.SUMMARY_QUEUES ? "" : ` in the ${number(live.SUMMARY_QUEUES)} busiest queues`;
  tiles.depth.say(number(jobs.ready), `ready, ${number(jobs.running)} running, ${number(jobs.waiting)} waiting${scope}`);
  tiles.depth.chart.update(livePoints(["Ready", "quiet", "ready"], ["Running", "live", "running"], ["Waiting", "hold", "waiting"]));
  const oldest = live.oldestNow();
  tiles.wait.say(oldest ? duration(oldest) : "0 s", "is how long the oldest ready job waits");
  tiles.wait.chart.update(livePoints(["Oldest ready job", "hold", "oldest"]));
  tiles.failures.say(rate(rates.failed_s), `failing, over the last minute; ${plural(jobs.failed, "dead letter")}`);
  tiles.failures.chart.update(livePoints(["Failed", "bad", "failed"]));
}

function drawHistory(tiles, answer) {
  const sum = (name) => answer.items.reduce((total, item) => total + item[name], 0);
  const mean = (name) => {
    const known = answer.items.filter((item) => item[name] !== null && item[name] !== undefined && item.done);
    const weight = known.reduce((total, item) => total + item.done, 0);
    return weight ? known.reduce((total, item) => total + item[name] * item.done, 0) / weight : null;
  };
  tiles.throughput.say(number(sum("done")), "jobs done in this time");
  tiles.throughput.chart.update(historyRate(answer));
  tiles.depth.say(duration(mean("run_s")), "mean time that a job runs");
  tiles.depth.chart.update(historyTimes(answer, "run_s", "Run"));
  tiles.wait.say(duration(mean("wait_s")), "mean wait before a job starts");
  tiles.wait.chart.update(historyTimes(answer, "wait_s", "Wait"));
  tiles.failures.say(number(sum("failed")), "jobs failed in this time");
  tiles.failures.chart.update(historyFailures(answer));
}

function makeTiles(span) {
  const recent = span === "";
  return {
    throughput: new Tile("Throughput", rate),
    depth: recent ? new Tile("Depth", compact) : new Tile("Run time", duration),
    wait: new Tile("Wait", duration),
    failures: recent ? new Tile("Failures", rate) : new Tile("Failures", compact, "bars"),
  };
}

function busiest(summary) {
  const score = (queue) => queue.running * 2 + queue.ready + queue.failed;
  return [...summary.queues].sort((a, b) => score(b) - score(a) || (a.name < b.name ? -1 : 1)).slice(0, BUSIEST);
}

function queueTable() {
  const count = (name, label) => ({ name, label, number: true, cell: (queue) => (queue[name] ? number(queue[name]) : h("span", { class: "none" }, "0")) });
  const columns = [{ name: "name", label: "Queue", first: true, cell: (queue) => queue.name }, count("ready", "Ready"), count("running", "Running"), count("waiting", "Waiting"), count("failed", "Dead letters")];
  const empty = () => emptyState("No job has been submitted yet", "Submit one with any client. With Debian's gearman-tools:", code("gearman -w -f rev -- rev &\necho hello | gearman -f rev"));
  return new Table({ caption: "Busiest queues", columns, key: (queue) => step(queue, "name"), href: (queue) => `/queues/${step(queue, "name")}`, empty });
}

function doorTable() {
  const columns = [
    { name: "dialect", label: "Door", cell: (door) => h("span", { class: "tag" }, door.dialect) },
    { name: "address", label: "Address", cell: (door) => h("span", { class: "mono data" }, door.address) },
    { name: "role", label: "For", cell: (door) => door.role || h("span", { class: "none" }, "all") },
    { name: "connections", label: "Connected", number: true, cell: (door) => number(door.connections) },
  ];
  return new Table({ caption: "Doors", columns, key: (door) => `${door.dialect} ${door.role} ${door.address}`, empty: () => emptyState("No door is open", "Start the hall with hall serve --door gearman=127.0.0.1:4730.") });
}

/** How many workers of each dialect are connected, most first. */
async function countDialects(signal) {
  const counts = new Map();
  let cursor = null;
  let counted = 0;
  do {
    const page = await get("/workers", { limit: 1000, cursor }, signal);
    for (const worker of page.items) counts.set(worker.dialect, (counts.get(worker.dialect) ?? 0) + 1);
    counted += page.items.length;
    cursor = page.next;
  } while (cursor && counted < WORKERS_COUNTED);
  return [...counts].sort((a, b) => b[1] - a[1]);
}

function lead(summary) {
  const { workers, busy } = summary;
  const connected = workers ? `${plural(workers, "worker")} connected, ${number(busy)} busy` : "No worker connected";
  return h("span", null, connected, session.hall?.started ? [" · hall opened ", ago(session.hall.started)] : null);
}

export function openOverview(view) {
  view.title("Overview");
  const line = h("p", { class: "lead" });
  const attend = h("section", { "aria-label": "Needs attention", class: "attention-box" }, h("span", { class: "skeleton" }));
  const span = tabs(view, "span", "Time span of the charts", [["", "Live"], ...SPANS]);
  const grid = h("div", { class: "tiles" });
  const queues = queueTable();
  const doors = doorTable();
  const dialects = h("div", { class: "tags card-note" });
  const head = pageHead("Overview", { actions: span.node });
  head.firstElementChild.append(line);
  view.main.append(
    head,
    attend,
    grid,
    h("div", { class: "columns" }, h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", null, "Busiest queues"), h("a", { href: "/queues" }, "All queues")), queues.node), h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", null, "Doors"), h("a", { href: "/workers" }, "Workers")), dialects, doors.node)),
  );

  let tiles = {};
  let shown = null;
  const arrange = () => {
    shown = view.query.get("span") ?? "";
    tiles = makeTiles(shown);
    grid.replaceChildren(...Object.values(tiles).map((tile) => tile.node));
  };
  arrange();
  let unfold = () => {
    unfold = null;
    draw();
  };
  const draw = () => {
    const summary = live.state.summary;
    if (!summary) return;
    fill(line, lead(summary));
    fillKeepingFocus(attend, attention(summary, unfold));
    queues.update(busiest(summary));
    // The first point comes a second later; the figures need not wait for it.
    if (!live.points.length) drawCharts();
  };
  const drawCharts = () => shown === "" && live.state.summary && drawLive(tiles, live.state.summary);
  let countedAt = 0;
  let askedAt = 0;
  let complete = true;
  view.queryChanged = (query) => {
    span.read(query);
    askedAt = 0;
    arrange();
    drawCharts();
  };
  live.on("summary", draw, view.signal);
  live.on("point", drawCharts, view.signal);
  draw();
  drawCharts();
  view.keepFresh(async () => {
    doors.update((await get("/doors", null, view.signal)).items);
    if (Date.now() - countedAt >= WORKERS_EVERY_MS) {
      const counts = await countDialects(view.signal);
      countedAt = Date.now();
      fill(dialects, counts.length ? counts.map(([dialect, count]) => h("a", { class: "tag", href: `/workers?dialect=${encodeURIComponent(dialect)}` }, `${dialect} ${plural(count, "worker")}`)) : h("span", { class: "faint" }, "No worker is connected."));
    }
    if (shown === "" || Date.now() - askedAt < (complete ? CHART_EVERY_MS : 0)) return;
    const wanted = shown;
    const history = await get("/history/chart", { span: wanted }, view.signal);
    askedAt = Date.now();
    complete = history.complete !== false;
    if (wanted === shown) drawHistory(tiles, history);
  });
}
