// The live summary of the hall: one stream for the whole page, and the points of the last minutes for the charts.
// The stream is closed while nobody looks at the page, and mends itself when hall or web were away.

import { address } from "./api.js";

export const MINUTES = 10;
/** A summary, and its sums, are of at most so many queues: the busiest ones. */
export const SUMMARY_QUEUES = 1000;
const POINTS_MAX = MINUTES * 60;
const POINT_MS = 1000;
const QUEUE_POINTS = 90;
const QUEUES_MAX = 1000;
const STORED = "hall.points";
const STORED_QUEUES = 200;
const RETRY_MIN_MS = 500;
const RETRY_MAX_MS = 5000;

/** What is known now. `web` and `hall` say who answers; null: not known yet. */
export const state = { summary: null, web: null, hall: null };
/** A point for each second: { t, done, failed, ready, running, waiting, oldest }; `oldest` is null if not known. */
export const points = [];
/** Name of a queue -> its last depths, one for each two seconds. */
export const depths = new Map();

const listeners = { summary: new Set(), link: new Set(), point: new Set() };
let stream = null;
let retryMs = RETRY_MIN_MS;
let timer = 0;
let previous = null;
let depthsAt = 0;
let receivedAt = 0;

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

/** Ends a second since the last point. Only queues that both summaries name are compared, since a summary has the
 * most active ones; a hall that restarted begins at 0 again. */
function rates(summary, now) {
  const before = previous;
  previous = { t: now, totals: new Map(summary.queues.map((queue) => [queue.name, queue])) };
  if (!before || now <= before.t) return { done: null, failed: null };
  let done = 0;
  let failed = 0;
  for (const queue of summary.queues) {
    const old = before.totals.get(queue.name);
    if (!old) continue;
    done += Math.max(0, queue.done_total - old.done_total);
    failed += Math.max(0, queue.failed_total - old.failed_total);
  }
  const seconds = (now - before.t) / 1000;
  return { done: done / seconds, failed: failed / seconds };
}

/** How long the oldest ready job waits now, in seconds; no summary comes while only time passes. */
export function oldestNow() {
  const oldest = state.summary?.oldest_s ?? null;
  return oldest ? oldest + (Date.now() - receivedAt) / 1000 : oldest;
}

/** A point each second, also while nothing changes and no summary comes. */
function note() {
  const summary = state.summary;
  if (!summary || !state.web || !state.hall || document.hidden) return;
  const now = Date.now();
  const { done, failed } = rates(summary, now);
  const { ready, running, waiting } = summary.jobs;
  points.push({ t: now, done, failed, ready, running, waiting, oldest: oldestNow() });
  if (points.length > POINTS_MAX) points.splice(0, points.length - POINTS_MAX);
  if (now - depthsAt > 1900) {
    depthsAt = now;
    for (const queue of summary.queues) {
      const line = depths.get(queue.name) ?? [];
      line.push(queue.ready + queue.running);
      if (line.length > QUEUE_POINTS) line.shift();
      // Set anew, a name is the last of the map: so the first ones are those that nobody has used for longest.
      depths.delete(queue.name);
      depths.set(queue.name, line);
    }
    for (const name of depths.keys()) {
      if (depths.size <= QUEUES_MAX) break;
      depths.delete(name);
    }
  }
  tell("point");
}

function received(event) {
  retryMs = RETRY_MIN_MS;
  state.summary = JSON.parse(event.data);
  receivedAt = Date.now();
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
    const stored = JSON.parse(sessionStorage.getItem(STORED) ?? '{"points": [], "depths": []}');
    const oldest = Date.now() - MINUTES * 60_000;
    points.push(...stored.points.filter((point) => point.t > oldest));
    if (points.length) for (const [name, line] of stored.depths) depths.set(name, line);
  } catch {
    sessionStorage.removeItem(STORED);
  }
}

export function start() {
  restore();
  open();
  setInterval(note, POINT_MS);
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", () => {
    close();
    sessionStorage.setItem(STORED, JSON.stringify({ points, depths: [...depths].slice(-STORED_QUEUES) }));
  });
  addEventListener("pageshow", (event) => event.persisted && open());
}
