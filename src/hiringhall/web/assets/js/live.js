// The live summary of the hall: one stream for the whole page, and the points of the last minutes for the charts.
// The stream is closed while nobody looks at the page, and mends itself when hall or web were away.

import { address } from "./api.js";

export const MINUTES = 10;
const POINTS_MAX = MINUTES * 60;
const QUEUE_POINTS = 90;
const STORED = "hall.points";
const RETRY_MIN_MS = 500;
const RETRY_MAX_MS = 5000;

/** What is known now. `web` and `hall` say who answers; null: not known yet. */
export const state = { summary: null, web: null, hall: null };
/** A point for each second: { t, done, failed, ready, running, waiting, oldest }. */
export const points = [];
/** Name of a queue -> its last depths, one for each two seconds. */
export const depths = new Map();

const listeners = { summary: new Set(), link: new Set() };
let stream = null;
let retryMs = RETRY_MIN_MS;
let timer = 0;
let previous = null;
let depthsAt = 0;

export function on(kind, listener, signal) {
  listeners[kind].add(listener);
  signal?.addEventListener("abort", () => listeners[kind].delete(listener));
}

function tell(kind) {
  for (const listener of [...listeners[kind]]) listener(state);
}

export function setLink(changes) {
  const before = `${state.web} ${state.hall}`;
  Object.assign(state, changes);
  if (`${state.web} ${state.hall}` !== before) tell("link");
}

function totals(summary) {
  let done = 0;
  let failed = 0;
  for (const queue of summary.queues) {
    done += queue.done_total;
    failed += queue.failed_total;
  }
  return { t: Date.parse(summary.at), done, failed };
}

/** A rate from the totals of two summaries; a hall that restarted begins at 0 again. */
function rates(now) {
  const seconds = previous ? (now.t - previous.t) / 1000 : 0;
  if (seconds <= 0 || now.done < previous.done || now.failed < previous.failed) return null;
  return { done: (now.done - previous.done) / seconds, failed: (now.failed - previous.failed) / seconds };
}

function note(summary) {
  const now = totals(summary);
  if (previous && now.t - previous.t < 900 && now.t >= previous.t) return;
  const measured = rates(now);
  previous = now;
  points.push({
    t: now.t,
    done: measured ? measured.done : summary.rates.done_s,
    failed: measured ? measured.failed : summary.rates.failed_s,
    ready: summary.jobs.ready,
    running: summary.jobs.running,
    waiting: summary.jobs.waiting,
    oldest: summary.oldest_s ?? null,
  });
  if (points.length > POINTS_MAX) points.splice(0, points.length - POINTS_MAX);
  if (now.t - depthsAt < 1900) return;
  depthsAt = now.t;
  for (const queue of summary.queues) {
    const line = depths.get(queue.name) ?? [];
    line.push(queue.ready + queue.running);
    if (line.length > QUEUE_POINTS) line.shift();
    depths.set(queue.name, line);
  }
}

function received(event) {
  retryMs = RETRY_MIN_MS;
  state.summary = JSON.parse(event.data);
  note(state.summary);
  setLink({ web: true, hall: true });
  tell("summary");
}

function lost() {
  close();
  setLink({ web: false });
  if (document.hidden) return;
  timer = setTimeout(open, retryMs);
  retryMs = Math.min(retryMs * 1.6, RETRY_MAX_MS);
}

function close() {
  clearTimeout(timer);
  stream?.close();
  stream = null;
}

function open() {
  close();
  stream = new EventSource(address("/events"));
  stream.addEventListener("open", () => {
    retryMs = RETRY_MIN_MS;
    setLink({ web: true });
  });
  stream.addEventListener("summary", received);
  stream.addEventListener("hall", (event) => setLink({ web: true, hall: JSON.parse(event.data).connected }));
  // An EventSource gives up after an error status; so it is made anew, always.
  stream.addEventListener("error", lost);
}

/** The points of the last minutes survive a reload of the page. */
function restore() {
  try {
    const stored = JSON.parse(sessionStorage.getItem(STORED) ?? "[]");
    const oldest = Date.now() - MINUTES * 60_000;
    points.push(...stored.filter((point) => point.t > oldest));
  } catch {
    sessionStorage.removeItem(STORED);
  }
}

export function start() {
  restore();
  open();
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", () => {
    close();
    sessionStorage.setItem(STORED, JSON.stringify(points));
  });
  addEventListener("pageshow", (event) => event.persisted && open());
}
