// How many jobs the hall has, on every page: in the side bar, and on a narrow screen at its top.

import { fill, h } from "./dom.js";
import { compact, number } from "./format.js";
import * as live from "./live.js";

// Each leads to where these jobs are: jobs that are ready or wait have several situations, so that no filter has them all.
const TOTALS = [
  ["ready", "Ready", "/queues?sort=-ready"],
  ["running", "Running", "/jobs?situation=running"],
  ["waiting", "Waiting", "/queues?sort=-waiting"],
  ["failed", "Dead letters", "/history?state=failed"],
];

/** A list of totals that follows the live summary. `short`: of a large number only the first digits are shown. */
export function totals({ short = false } = {}) {
  const items = TOTALS.map(([name, label, href]) => {
    const count = h("span", { class: "total-count" }, "–");
    return { name, count, line: h("li", { class: `total total-${name}` }, h("a", { class: "total-link", href }, h("span", { class: "total-label" }, label), count)) };
  });
  const list = h("ul", { class: "totals", "aria-label": "Jobs in all queues" }, items.map((item) => item.line));
  live.on("summary", ({ summary }) => {
    for (const { name, count, line } of items) {
      const value = summary.jobs[name];
      fill(count, short ? compact(value) : number(value));
      line.classList.toggle("total-zero", value === 0);
    }
    const all = summary.queues.length < live.SUMMARY_QUEUES;
    list.setAttribute("aria-label", all ? "Jobs in all queues" : `Jobs in the ${number(live.SUMMARY_QUEUES)} busiest queues`);
  });
  return list;
}
