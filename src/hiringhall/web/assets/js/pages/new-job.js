// A form that submits one job.

import { post } from "../api.js";
import { ask, field, note } from "../dialogs.js";
import { h } from "../dom.js";
import { go } from "../router.js";

function input(name, attributes = {}) {
  return h("input", { name, class: "input", autocomplete: "off", spellcheck: "false", ...attributes });
}

function jobOf(form) {
  const job = { queue: form.get("queue"), payload: form.get("payload") };
  for (const name of ["key", "priority"]) if (form.get(name)) job[name] = form.get(name);
  for (const name of ["retries", "delay_s"]) if (form.get(name)) job[name] = Number(form.get(name));
  return job;
}

export async function newJob(queue) {
  const body = h(
    "div",
    null,
    field("Queue", input("queue", { required: true, value: queue }), "What kind of work it is, for example the name of the Gearman function."),
    field("Payload", h("textarea", { name: "payload", class: "input", spellcheck: "false" }), "Text as the worker gets it; job functions of Python expect JSON: [\"Anna\"]"),
    field("Key", input("key"), "A job with the same key that has not ended is joined, not doubled."),
    h("div", { class: "field-row" }, field("Priority", h("select", { name: "priority", class: "input" }, ["normal", "high", "low"].map((word) => h("option", { value: word }, word)))), field("Retries", input("retries", { type: "number", min: "0", max: "1000", placeholder: "0" }))),
    field("Delay in seconds", input("delay_s", { type: "number", min: "0", step: "any", placeholder: "0" })),
  );
  const answer = await ask({ title: "New job", body, confirm: "Submit", submit: (form) => post("/jobs", jobOf(form)) });
  if (!answer) return;
  note(`Job ${answer.ids[0]} was submitted.`);
  go(`/jobs/${answer.ids[0]}`);
}
