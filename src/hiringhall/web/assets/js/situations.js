// What the situation of a job, a flow or a worker is called, and how it looks: a tone and a shape, never colour alone.

import { h, svg } from "./dom.js";

// word -> [label, tone, shape, explanation]
const JOBS = {
  ready: ["Ready", "quiet", "ring", "A worker can take it now"],
  running: ["Running", "live", "play", "A worker has it"],
  held: ["Waits for parents", "hold", "link", "It starts when all its parents have succeeded"],
  delayed: ["Due later", "hold", "clock", "It was submitted for a later time"],
  backoff: ["Backing off", "warn", "again", "An attempt failed; it is tried again"],
  paused: ["Queue paused", "warn", "pause", "Its queue is paused"],
  promised: ["Promised", "live", "ring", "A worker was hired and has not begun"],
  announced: ["Announced", "live", "ring", "Workers are bidding for it"],
  no_workers: ["No worker", "warn", "alert", "No connected worker can do its queue"],
  parked: ["Parked by its key", "hold", "pause", "As many jobs of its limit key run as may; it goes on when one of them ends"],
  limited: ["Queue at its limit", "hold", "pause", "Its queue has as many jobs running, or starts as many a second, as it may"],
  done: ["Done", "good", "check", "It succeeded"],
  failed: ["Failed", "bad", "cross", "A dead letter: it can be retried"],
  cancelled: ["Cancelled", "quiet", "slash", "Somebody cancelled it"],
  queued: ["Ready", "quiet", "ring", "A worker can take it now"],
  expected: ["Not known yet", "quiet", "link", "The hall does not know this job yet"],
  waiting: ["Waiting", "hold", "clock", "It waits for parents or for its time"],
};

const FLOWS = {
  running: ["Running", "live", "play"],
  done: ["Done", "good", "check"],
  failed: ["Failed", "bad", "cross"],
  cancelled: ["Cancelled", "quiet", "slash"],
  stuck: ["Stuck", "warn", "alert"],
};

const WORKERS = {
  working: ["Working", "live", "play"],
  hired: ["Hired", "live", "ring", "It was promised a job and has not begun"],
  waiting: ["Waiting", "quiet", "ring", "It is told when there is a job"],
  idle: ["Idle", "quiet", "ring", "It has not asked for a job"],
  draining: ["Draining", "warn", "pause", "It gets no further jobs"],
};

const SHAPES = {
  ring: "M8 3.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 0 1 0-9z",
  play: "M5.5 3.8l6.5 4.2l-6.5 4.2z",
  link: "M3 8h10M9.5 4.5L13 8l-3.5 3.5",
  clock: "M8 3a5 5 0 1 1 0 10a5 5 0 0 1 0-10zM8 5.5V8l2 1.5",
  again: "M12.5 6.5A5 5 0 1 0 13 9M13 3.5v3h-3",
  pause: "M5.5 4v8M10.5 4v8",
  alert: "M8 3v6M8 11.800v.4",
  check: "M3.5 8.5l3 3l6-7",
  cross: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  slash: "M8 3a5 5 0 1 1 0 10a5 5 0 0 1 0-10zM4.6 11.4l6.8-6.8",
};

function shape(name) {
  return svg("svg", { viewBox: "0 0 16 16", class: `shape shape-${name}`, "aria-hidden": "true" }, svg("path", { d: SHAPES[name] }));
}

function badge(table, word, title) {
  const [label, tone, form, explanation] = table[word] ?? [word, "quiet", "ring", ""];
  return h("span", { class: `badge tone-${tone}`, title: title ?? explanation }, shape(form), label);
}

export function jobBadge(job) {
  return badge(JOBS, job.situation || job.state, job.why);
}

export function stateBadge(word) {
  return badge(JOBS, word);
}

export function flowBadge(flow) {
  return badge(FLOWS, flow.state);
}

export function workerBadge(worker) {
  return badge(WORKERS, worker.draining ? "draining" : worker.state);
}

export function pausedBadge() {
  return h("span", { class: "badge tone-warn" }, shape("pause"), "Paused");
}

export function noWorkerBadge() {
  return h("span", { class: "badge tone-warn", title: "Jobs are ready, and no connected worker can do them" }, shape("alert"), "No worker");
}

export function jobLabel(word) {
  return JOBS[word]?.[0] ?? word;
}

export function jobTone(word) {
  return JOBS[word]?.[1] ?? "quiet";
}

/** The situations that a filter offers, of jobs that have not ended. */
export const LIVE = ["ready", "running", "held", "delayed", "backoff", "no_workers", "promised", "announced", "paused", "parked", "limited"];
export const ENDED = ["done", "failed", "cancelled"];
