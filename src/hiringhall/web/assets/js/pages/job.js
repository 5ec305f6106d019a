// One job: why it is not running, what happened to it, its bytes, its family.

import { get, post } from "../api.js";
import { actionButton, confirmed, note } from "../dialogs.js";
import { fill, fillKeepingFocus, h } from "../dom.js";
import { at, duration, number, plural } from "../format.js";
import { emptyState, pageHead } from "../lists.js";
import { may } from "../session.js";
import { jobBadge, jobTone, stateBadge } from "../situations.js";
import { step } from "../steps.js";
import { bytesOf } from "../text.js";
import { Viewer } from "../viewer.js";
import { attempts } from "./attempts.js";
import { follow, Output } from "./output.js";

const CHILDREN_SHOWN = 50;

function ended(job) {
  return Boolean(job.ended) || ["done", "failed", "cancelled"].includes(job.state);
}

function sentence(job) {
  if (job.why) return `${job.why[0].toUpperCase()}${job.why.slice(1)}${/[.!?]$/.test(job.why) ? "" : "."}`;
  return job.state === "running" ? `${job.worker || "A worker"} runs it.` : "It waits for a worker.";
}

/** The one sentence that a person looks for first. */
function why(job) {
  if (ended(job)) return null;
  return h("div", { class: `callout tone-${jobTone(job.situation || job.state)}` }, jobBadge(job), h("p", { class: "data" }, sentence(job)));
}

function progress(job) {
  if (!job.progress || ended(job)) return null;
  const [part, whole] = job.progress;
  const percent = whole ? Math.round((part / whole) * 100) : 0;
  return h(
    "div",
    { class: "progress-box" },
    h("div", { class: "progress", role: "progressbar", "aria-label": "Progress", "aria-valuenow": percent, "aria-valuemin": 0, "aria-valuemax": 100 }, h("span", { style: { width: `${Math.min(100, percent)}%` } })),
    h("span", { class: "faint" }, `${number(part)} of ${number(whole)} (${percent} %)${job.remaining_s ? `, about ${duration(job.remaining_s)} left` : ""}`),
  );
}

const TERMS = { retries: "Retries", backoff_s: "Backoff", timeout_s: "Time limit", expire_s: "Expires after", skill: "Skill asked", takes_s: "Takes", keep_s: "Kept for", resources: "Needs", delay_s: "Delay" };

function term(name, value) {
  if (name.endsWith("_s")) return duration(value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function facts(job) {
  const line = (label, value) => (value === null || value === undefined || value === "" ? null : [h("dt", null, label), h("dd", null, value)]);
  return h(
    "dl",
    { class: "facts" },
    line("Queue", h("a", { href: `/queues/${step(job, "queue")}` }, job.queue)),
    line("Key", job.key),
    line("Flow", job.flow ? h("a", { href: `/flows/${step(job, "flow")}` }, job.flow) : null),
    line("Submitted", at(job.created)),
    line("Started", job.started ? at(job.started) : null),
    line("Ended", job.ended ? at(job.ended) : null),
    line("Attempts", `${job.attempts}${job.attempts_max >= job.attempts ? ` of ${job.attempts_max}` : ""}${job.failures ? `, ${plural(job.failures, "failure")}` : ""}${job.losses ? `, ${job.losses} lost with a worker` : ""}`),
    line("Worker", job.worker ? h("span", null, job.worker, job.dialect ? [" ", h("span", { class: "tag" }, job.dialect)] : null) : null),
    line("Priority", job.priority === "normal" ? null : job.priority),
    line("Durable", job.durable ? "yes" : "no, in memory only"),
    Object.entries(job.terms ?? {}).map(([name, value]) => (name in TERMS ? line(TERMS[name], term(name, value)) : null)),
  );
}

function relation(one) {
  const name = one.key || one.id || "not known yet";
  const target = one.id ? h("a", { href: `/jobs/${one.id}`, class: "data" }, name) : h("span", { class: "data" }, name);
  return h("li", { class: "relation" }, target, one.queue ? h("span", { class: "faint data" }, one.queue) : null, one.state ? stateBadge(one.state) : null);
}

function family(job) {
  const parents = job.parents ?? [];
  const children = job.children ?? [];
  const count = job.children_count ?? children.length;
  if (!parents.length && !count) return null;
  const list = (title, items) => (items.length ? [h("h3", null, title), h("ul", { class: "relations" }, items)] : null);
  const more = count > CHILDREN_SHOWN ? h("li", { class: "faint" }, `and ${number(count - CHILDREN_SHOWN)} more`) : null;
  return h(
    "section",
    { class: "card" },
    h("div", { class: "card-head" }, h("h2", null, "Parents and children"), ended(job) ? null : h("a", { href: `/graph?job=${job.id}` }, "Graph")),
    h("div", { class: "card-body" }, list(`Waits for ${plural(parents.length, "parent")}`, parents.map(relation)), list(`${plural(count, "child", "children")} ${count === 1 ? "waits" : "wait"} for it`, [...children.slice(0, CHILDREN_SHOWN).map((id) => relation({ id })), more].filter(Boolean))),
  );
}

function failure(job) {
  if (!job.error) return null;
  return h(
    "section",
    { class: "card tone-bad", "aria-label": "Error" },
    h("div", { class: "card-head" }, h("h2", { class: "error-title data" }, job.error.type || "Error")),
    h("div", { class: "card-body" }, h("p", { class: "data lines" }, job.error.text), job.error.traceback ? h("pre", { class: "bytes data traceback", tabindex: "0", "aria-label": "Traceback" }, job.error.traceback) : null),
  );
}

function actions(job, changed) {
  if (!may("operator")) return [];
  const cancel = async () => {
    const text = job.situation === "running" ? "Its worker is told to stop. What it did so far may remain done." : "It will not run.";
    if (!(await confirmed("Cancel this job?", text, "Cancel the job", "bad"))) return;
    await post(`/jobs/${job.id}/cancel`);
    note(`Job ${job.id} is cancelled.`);
    changed();
  };
  const retry = async () => {
    await post(`/jobs/${job.id}/retry`);
    note(`Job ${job.id} is ready again, with all its attempts.`);
    changed();
  };
  if (job.state === "failed") return [actionButton("Retry", retry, { class: "button button-accent", "data-key": "retry" })];
  return ended(job) ? [] : [actionButton("Cancel", cancel, { "data-key": "cancel" })];
}

export function openJob(view) {
  const id = view.names.id;
  view.title(`Job ${id}`);
  const title = h("span", null, "Job ", h("span", { class: "mono" }, id));
  const lead = h("p", { class: "lead" }, h("span", { class: "skeleton" }));
  const buttons = h("div", { class: "page-actions" });
  const top = h("div", { class: "stack" });
  const error = h("div");
  const life = h("div", { class: "card-body" }, h("span", { class: "skeleton" }));
  const what = h("div", { class: "card-body" }, h("span", { class: "skeleton" }));
  const relatives = h("div");
  const payload = new Viewer("Payload", `/jobs/${id}/payload`);
  const result = new Viewer("Result", `/jobs/${id}/result`);
  const output = new Output();
  const head = pageHead(title, { back: ["/jobs", "Jobs"], actions: buttons });
  head.firstElementChild.append(lead);
  result.node.hidden = true;
  const body = h(
    "div",
    { class: "job-columns" },
    h("div", { class: "stack" }, error, output.node, result.node, payload.node),
    h("div", { class: "stack" }, h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", null, "What happened")), life), h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", null, "Details")), what), relatives),
  );
  view.main.append(head, top, body);

  let last = null;
  let following = false;
  const draw = (job) => {
    last = job;
    fill(lead, h("span", null, ended(job) ? [jobBadge(job), " "] : null, h("a", { href: `/queues/${step(job, "queue")}` }, job.queue), job.key ? [" · ", h("span", { class: "data" }, job.key)] : null));
    fillKeepingFocus(buttons, actions(job, () => view.refresh()));
    fillKeepingFocus(top, why(job), progress(job));
    fill(error, failure(job));
    fill(life, attempts(job));
    fillKeepingFocus(what, facts(job));
    fillKeepingFocus(relatives, family(job));
    payload.update(bytesOf(job, "payload"), job.payload_bytes ?? 0);
    result.node.hidden = !ended(job) || Boolean(job.error) || !job.result_bytes;
    if (!result.node.hidden) result.update(bytesOf(job, "result"), job.result_bytes);
  };
  const heard = (kind, value) => {
    if (kind === "output") output.addAll(value.lines);
    else if (kind === "progress" && last) {
      last = { ...last, progress: [value.numerator, value.denominator] };
      fillKeepingFocus(top, why(last), progress(last));
    } else if (kind === "state") draw(value);
    else view.refresh();
  };
  let loaded = false;
  view.keepFresh(
    async () => {
      // An ended job changes no more, but for a retry, which shows itself by the state.
      const job = await get(`/jobs/${id}`, null, view.signal);
      draw(job);
      if (!ended(job) && !following) {
        following = true;
        loaded = false;
        output.clear();
        follow(id, heard, () => (following = false), view.signal);
      } else if (ended(job) && !loaded) {
        loaded = true;
        if (!output.count) await output.load(id, view.signal);
      }
    },
    (problem) => {
      if (![400, 404, 410].includes(problem.status)) {
        view.say(problem);
        return;
      }
      fill(lead);
      body.hidden = true;
      fill(top, h("div", { class: "card" }, emptyState("The hall does not know this job", "It may have been removed from the history, or it was not durable and nobody waits for it any more.", h("a", { class: "button", href: "/history" }, "Search the history"))));
    },
  );
}
