// The columns that lists of jobs choose from.

import { h } from "../dom.js";
import { ago, at, between, duration, lasting } from "../format.js";
import { jobBadge } from "../situations.js";
import { step } from "../steps.js";
import { shorten } from "../text.js";

function situation(job) {
  const badge = jobBadge(job);
  let more = "";
  if (job.situation === "backoff" || job.situation === "delayed") more = job.due ? ago(job.due) : "";
  else if (job.state === "failed" && job.code) more = `code ${job.code}`;
  return h("span", { class: "situation" }, badge, more && h("span", { class: "faint" }, more));
}

// A list has the beginning of a result, so the text of an exception may be cut.
const FAILURE = /^\{"type":("(?:[^"\\]|\\.)+"),"text":("(?:[^"\\]|\\.)*)/;

/** A result in one line: of an exception, its type and text. */
function resultLine(job) {
  const found = job.state === "failed" && FAILURE.exec(job.result);
  if (!found) return job.result;
  try {
    return `${JSON.parse(found[1])}: ${JSON.parse(`${found[2]}"`)}`;
  } catch {
    return job.result;
  }
}

const COLUMNS = {
  id: { label: "Job", first: true, cell: (job) => h("span", { class: "mono" }, job.id) },
  queue: { label: "Queue", cell: (job) => h("a", { href: `/queues/${step(job, "queue")}`, class: "plain-link data clip", "data-key": "queue", title: job.queue }, job.queue) },
  situation: { label: "Situation", cell: situation },
  key: { label: "Key", cell: (job) => (job.key ? h("span", { class: "data clip", title: job.key }, shorten(job.key, 60)) : "") },
  payload: { label: "Payload", spare: true, cell: (job) => (job.payload ? h("span", { class: "mono data clip faint", title: job.payload }, shorten(job.payload, 60)) : "") },
  attempts: { label: "Attempts", number: true, cell: (job) => (job.attempts ? `${job.attempts}${job.losses ? ` (${job.losses} lost)` : ""}` : h("span", { class: "none" }, "0")) },
  created: { label: "Submitted", number: true, cell: (job) => ago(job.created) },
  started: { label: "Runs for", number: true, cell: (job) => (job.situation === "running" ? lasting(job.started) : "") },
  ended: { label: "Ended", number: true, cell: (job) => at(job.ended) },
  took: { label: "Took", number: true, cell: (job) => (job.started && job.ended ? duration(between(job.started, job.ended)) : h("span", { class: "none" }, "–")) },
  priority: { label: "Priority", number: true, cell: (job) => (job.priority === "normal" ? "" : job.priority) },
  worker: { label: "Worker", cell: (job) => (job.worker ? h("span", { class: "data clip", title: job.dialect ? `${job.worker}, ${job.dialect}` : job.worker }, job.worker) : "") },
  result: { label: "Result", wide: true, cell: (job) => (job.result ? h("span", { class: "mono data clip faint", title: shorten(resultLine(job), 200) }, shorten(resultLine(job), 80)) : "") },
};

export function jobColumns(names) {
  return ["id", ...names].map((name) => ({ name, ...COLUMNS[name] }));
}
