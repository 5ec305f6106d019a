// The life of a job as a line of time: submitted, each attempt with its worker, and how it ended.

import { h } from "../dom.js";
import { ago, at, between, duration, lasting } from "../format.js";
import { stateBadge } from "../situations.js";

function step(tone, title, when, ...more) {
  return h("li", { class: `step tone-${tone}` }, h("div", { class: "step-head" }, h("span", { class: "step-title" }, title), h("span", { class: "step-time" }, when)), more);
}

function outcome(attempt, last, job) {
  if (!attempt.ended && last && job.state === "running") return { tone: "live", word: "running" };
  // The hall stopped meanwhile: nobody knows how long the worker went on.
  if (!attempt.ended) return { tone: "warn", word: "was lost with the hall" };
  if (last && job.state === "done") return { tone: "good", word: "succeeded" };
  if (last && job.state === "cancelled") return { tone: "quiet", word: "was cancelled" };
  if (attempt.code) return { tone: "bad", word: `failed with code ${attempt.code}` };
  return { tone: "warn", word: last && job.state === "failed" ? "failed" : "was lost or given back" };
}

function worker(attempt) {
  return h("p", { class: "step-text" }, h("span", { class: "data" }, attempt.worker || "a worker"), attempt.dialect ? [" ", h("span", { class: "tag" }, attempt.dialect)] : null);
}

/** The share of each attempt in the time since the job was submitted, as bars above each other. */
function bars(job) {
  const from = Date.parse(job.created);
  const to = job.ended ? Date.parse(job.ended) : Date.now();
  if (!(to > from)) return null;
  const percent = (time) => Math.min(100, Math.max(0, ((Date.parse(time) - from) / (to - from)) * 100));
  const spans = job.tries.filter((attempt) => attempt.started).map((attempt, index) => {
    const left = percent(attempt.started);
    const { tone } = outcome(attempt, index === job.tries.length - 1, job);
    const right = attempt.ended ? percent(attempt.ended) : tone === "live" ? 100 : left;
    return h("span", { class: `span tone-${tone}`, style: { left: `${left}%`, width: `${Math.max(0.7, right - left)}%` } });
  });
  return h("div", { class: "span-line", "aria-hidden": "true" }, spans);
}

/** All attempts: those that did not end the job, and the one that runs or ended it. */
function attemptsOf(job) {
  const last = { started: job.started, ended: job.ended, worker: job.worker, dialect: job.dialect, code: job.code };
  const counts = job.started && (job.state === "running" || job.ended) && job.tries.at(-1)?.started !== job.started;
  return counts ? [...job.tries, last] : job.tries;
}

export function attempts(described) {
  const job = { ...described, tries: attemptsOf(described) };
  const steps = [step("quiet", "Submitted", at(job.created))];
  let before = job.created;
  job.tries.forEach((attempt, index) => {
    const last = index === job.tries.length - 1;
    const { tone, word } = outcome(attempt, last, job);
    const waited = attempt.started ? between(before, attempt.started) : null;
    if (waited !== null && waited >= 0.0005) steps.push(h("li", { class: "step-gap" }, `waited ${duration(waited)}`));
    const title = job.tries.length > 1 ? `Attempt ${index + 1} ${word}` : `${word[0].toUpperCase()}${word.slice(1)}`;
    steps.push(step(tone, title, at(attempt.started), worker(attempt), h("p", { class: "step-text faint" }, attempt.ended ? `ran ${duration(between(attempt.started, attempt.ended))}` : tone === "live" ? ["runs for ", lasting(attempt.started)] : "its end is not known"), attempt.text ? h("p", { class: "step-text data" }, attempt.text) : null));
    before = attempt.ended ?? attempt.started;
  });
  if (job.due && !job.ended) steps.push(step("warn", job.situation === "backoff" ? "Next attempt" : "Due", ago(job.due)));
  else if (job.ended) steps.push(step(job.state === "done" ? "good" : job.state === "failed" ? "bad" : "quiet", stateBadge(job.state), at(job.ended)));
  return h("div", null, bars(job), h("ol", { class: "steps" }, steps));
}
