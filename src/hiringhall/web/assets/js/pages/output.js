// What a job writes while it runs: chunks of data, warnings and log lines, live and from the store.

import { address, get } from "../api.js";
import { h } from "../dom.js";
import { clock, number } from "../format.js";

const LINES_MAX = 2000;
const KINDS = { data: "data", warning: "warning", log: "log" };

export class Output {
  constructor() {
    this.lines = h("ol", { class: "output-lines", tabindex: "0", "aria-label": "Output", role: "log" });
    this.note = h("span", { class: "faint head-note" });
    this.node = h("section", { class: "card", hidden: true }, h("div", { class: "card-head" }, h("h2", null, "Output", this.note)), this.lines);
    this.count = 0;
  }

  add(line) {
    const follows = this.lines.scrollHeight - this.lines.scrollTop - this.lines.clientHeight < 24;
    this.node.hidden = false;
    this.count += 1;
    this.lines.append(h("li", { class: `output-line output-${KINDS[line.kind] ?? "data"}` }, h("time", { datetime: line.at }, line.at ? clock(new Date(line.at)) : ""), h("span", { class: "output-kind" }, line.kind), h("span", { class: "data lines output-text" }, line.text)));
    if (this.lines.childElementCount > LINES_MAX) this.lines.firstElementChild.remove();
    this.note.textContent = this.count > LINES_MAX ? `the last ${number(LINES_MAX)} of ${number(this.count)} lines` : "";
    if (follows) this.lines.scrollTop = this.lines.scrollHeight;
  }

  addAll(lines) {
    for (const line of lines) this.add(line);
  }

  clear() {
    this.lines.replaceChildren();
    this.count = 0;
  }

  /** Reads what the store has. */
  async load(id, signal) {
    let position = "";
    do {
      const page = await get(`/jobs/${id}/output`, { position }, signal);
      this.addAll(page.lines);
      if (!page.lines.length || page.next === position) return;
      position = page.next;
    } while (this.count < LINES_MAX * 2);
  }
}

/** Follows a job that has not ended; `heard` gets ("state" | "progress" | "output" | "ended" | "gone", value).
 * The browser resumes a broken stream by itself; `closed` is called when the stream is over for good. */
export function follow(id, heard, closed, signal) {
  const stream = new EventSource(address(`/jobs/${id}/events`));
  let over = false;
  const stop = () => {
    if (over) return;
    over = true;
    document.removeEventListener("visibilitychange", hidden);
    signal.removeEventListener("abort", stop);
    stream.close();
    closed();
  };
  for (const kind of ["state", "progress", "output", "ended", "gone"]) {
    stream.addEventListener(kind, (event) => {
      heard(kind, JSON.parse(event.data));
      if (kind === "ended" || kind === "gone") stop();
    });
  }
  stream.addEventListener("error", () => stream.readyState === EventSource.CLOSED && stop());
  const hidden = () => document.hidden && stop();
  document.addEventListener("visibilitychange", hidden);
  signal.addEventListener("abort", stop);
}
