// Actions on many jobs. Each says how many jobs it touches before it is done, and the server refuses another number.

import { Encoded, get, post, Problem } from "./api.js";
import { ask, confirmed, note } from "./dialogs.js";
import { h } from "./dom.js";
import { number, plural } from "./format.js";
import { base64, bytesOfEncoded, decoded, textOf } from "./text.js";

/** How long the server may count: what is confirmed must be the exact number. */
const COUNT_S = 20;
const WORDS = {
  cancel: { verb: "Cancel", done: "cancelled", tone: "bad", all: "Jobs that run are told to stop. A cancelled job does not run again unless somebody submits it anew." },
  retry: { verb: "Retry", done: "retried", tone: "accent", all: "Each of them becomes ready again, with all its attempts." },
};

function report(what, answer) {
  const failed = answer.failed_count;
  const text = `${plural(answer.changed ?? answer.retried, "job")} ${WORDS[what].done}`;
  if (!failed) note(`${text}.`);
  else note(`${text}; ${number(failed)} could not be: ${answer.failed[0].detail}`, "bad");
}

/** The filter of a query as the body of a request has it. */
function bodyOf(filter) {
  const body = {};
  for (const [name, value] of Object.entries(filter)) {
    if (value instanceof Encoded) {
      const bytes = bytesOfEncoded(value.text);
      const text = textOf(bytes);
      if (text === null) body[`${name}_base64`] = base64(bytes);
      else body[name] = text;
    } else body[name] = name === "worker" ? Number(value) : value;
  }
  return body;
}

/** What the filter means, in words. */
function scope(filter) {
  const parts = Object.entries(filter).map(([name, value]) => `${name} ${value instanceof Encoded ? decoded(value.text) : value}`);
  return parts.length ? `with ${parts.join(", ")}` : "of all queues";
}

async function count(list, filter) {
  const answer = await get(`${list}/count`, { ...filter, wait: COUNT_S });
  if (answer.complete === false) throw new Problem(409, "too_many", "Too many", `More than ${number(answer.count)} jobs match. Narrow the filter first.`);
  return answer.count;
}

/** Acts on all jobs that match, shown or not. `list` is the list that counts them: /jobs or /history. */
export async function actOnAll(what, list, filter) {
  const found = await count(list, filter);
  if (found === 0) {
    note("No job matches any more.", "quiet");
    return;
  }
  const words = WORDS[what];
  const title = `${words.verb} ${plural(found, "job")}?`;
  const text = `All ${number(found)} jobs ${scope(filter)} are ${words.done}, also those that this page does not show. ${words.all}`;
  const answer = await ask({
    title,
    body: h("p", null, text),
    confirm: `${words.verb} ${plural(found, "job")}`,
    tone: words.tone,
    submit: () => post(`/jobs/${what}`, { filter: bodyOf(filter), expected: found }),
  });
  if (answer) report(what, answer);
}

/** Acts on the jobs that were selected. */
export async function actOnSelected(what, ids) {
  const words = WORDS[what];
  const label = `${words.verb} ${plural(ids.length, "job")}`;
  const answer = await ask({
    title: `${label}?`,
    body: h("p", null, `The ${plural(ids.length, "selected job")} will be ${words.done}. ${words.all}`),
    confirm: label,
    tone: words.tone,
    submit: () => post(`/jobs/${what}`, { ids, expected: ids.length }),
  });
  if (answer) report(what, answer);
  return answer !== null;
}

/** Retries the dead letters of a queue. They are counted now: the button may be older than the last failure. */
export async function retryQueue(name, path) {
  const { failed } = await get(`/queues/${path}`);
  if (failed === 0) {
    note(`${name} has no dead letters any more.`, "quiet");
    return;
  }
  const yes = await confirmed(`Retry ${plural(failed, "dead letter")}?`, `All ${number(failed)} dead letters of ${name} become ready again, with all their attempts.`, `Retry ${plural(failed, "job")}`);
  if (!yes) return;
  report("retry", await post(`/queues/${path}/retry`, { expected: failed }));
}
