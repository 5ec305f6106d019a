// Charts as SVG: lines over time, bars over time, sparklines. A chart says in words what it shows (aria-label),
// and shows exact values under the pointer or, by arrow keys, at the marked point.

import { fill, h, svg } from "./dom.js";
import { clock, compact, day, hourMinute } from "./format.js";

const HEIGHT = 148;
const LEFT = 44;
const LETTER = 6.2;
const BOTTOM = 20;
const TOP = 8;
const RIGHT = 6;
const MINUTE = 60_000;
const STEPS_MS = [1, 2, 5, 10, 30, 60, 120, 360, 720, 1440, 2880, 7200, 14400].map((minutes) => minutes * MINUTE);

/** A round number at or above `value`: 1, 2, 2.5 or 5 times a power of ten. */
export function roundUp(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((one) => one >= value * 0.9999);
}

function timeTicks(from, to, width) {
  const wanted = Math.max(2, Math.floor(width / 110));
  const step = STEPS_MS.find((one) => (to - from) / one <= wanted) ?? STEPS_MS.at(-1);
  const zone = new Date(to).getTimezoneOffset() * MINUTE;
  const ticks = [];
  for (let t = Math.ceil((from - zone) / step) * step + zone; t <= to; t += step) ticks.push(t);
  return { ticks, label: (t) => (step >= 1440 * MINUTE ? day(new Date(t)) : hourMinute(new Date(t))) };
}

/** series: [{ name, tone, values }], aligned with times; null is a gap. */
export class Chart {
  constructor({ title, format = compact, kind = "line", from = null }) {
    Object.assign(this, { title, format, kind, from });
    this.svg = svg("svg", { class: "chart", role: "img", tabindex: "0" });
    this.tip = h("div", { class: "chart-tip", hidden: true });
    this.node = h("div", { class: "chart-box" }, this.svg, this.tip);
    this.data = { times: [], series: [], from: 0, to: 1 };
    this.width = 0;
    this.left = LEFT;
    this.marked = null;
    this.svg.addEventListener("pointermove", (event) => this.pointed(event));
    this.svg.addEventListener("pointerleave", () => this.mark(null));
    this.svg.addEventListener("blur", () => this.mark(null));
    this.svg.addEventListener("keydown", (event) => this.pressed(event));
    new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width);
      if (width && width !== this.width) {
        this.width = width;
        this.draw();
      }
    }).observe(this.node);
  }

  update(data) {
    this.data = data;
    if (this.width) this.draw();
  }

  x(t) {
    const { from, to } = this.data;
    return this.left + ((t - from) / (to - from || 1)) * (this.width - this.left - RIGHT);
  }

  y(value) {
    return TOP + (1 - value / this.top) * (HEIGHT - TOP - BOTTOM);
  }

  draw() {
    const { times, series, from, to } = this.data;
    let most = 0;
    if (this.kind === "bars") times.forEach((_, index) => (most = Math.max(most, series.reduce((sum, one) => sum + (one.values[index] ?? 0), 0))));
    else for (const one of series) for (const value of one.values) if (value > most) most = value;
    this.top = roundUp(most);
    // The widest label of the axis has room: "1 min 40 s" is wider than "0.5".
    this.left = Math.max(LEFT, 12 + LETTER * Math.max(...[0.5, 1].map((part) => this.format(this.top * part).length)));
    const { ticks, label } = timeTicks(from, to, this.width);
    const grid = [0, 0.5, 1].map((part) => {
      const y = this.y(this.top * part);
      return [svg("line", { class: "chart-grid", x1: this.left, x2: this.width - RIGHT, y1: y, y2: y }), svg("text", { class: "chart-label", x: this.left - 8, y: y + 3.5, "text-anchor": "end" }, this.format(this.top * part))];
    });
    const axis = ticks.map((t) => {
      const x = this.x(t);
      if (x < this.left + 12 || x > this.width - 16) return null;
      return svg("text", { class: "chart-label", x, y: HEIGHT - 4, "text-anchor": "middle" }, label(t));
    });
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.svg.setAttribute("height", HEIGHT);
    this.svg.setAttribute("aria-label", this.words());
    fill(this.svg, grid, axis, this.kind === "bars" ? this.bars() : series.map((one) => this.line(one)), svg("line", { class: "chart-cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" }));
    if (this.marked !== null) this.mark(Math.min(this.marked, times.length - 1));
  }

  line(one) {
    const { times } = this.data;
    const paths = [];
    let path = "";
    let start = null;
    const end = (last) => {
      if (path) paths.push([path, start, last]);
      path = "";
    };
    times.forEach((t, index) => {
      const value = one.values[index];
      if (value === null || value === undefined || (index && t - times[index - 1] > (this.data.gap ?? Infinity))) end(times[index - 1]);
      if (value === null || value === undefined) return;
      if (!path) start = t;
      path += `${path ? "L" : "M"}${this.x(t).toFixed(1)} ${this.y(value).toFixed(1)}`;
    });
    end(times.at(-1));
    const floor = this.y(0);
    return paths.map(([d, first, last]) => [
      svg("path", { class: `chart-area tone-${one.tone}`, d: `${d}L${this.x(last).toFixed(1)} ${floor}L${this.x(first).toFixed(1)} ${floor}Z` }),
      svg("path", { class: `chart-line tone-${one.tone}`, d }),
    ]);
  }

  bars() {
    const { times, series, from, to } = this.data;
    const slot = ((this.width - this.left - RIGHT) * (this.data.bucketMs ?? 1)) / (to - from || 1);
    const width = Math.max(1, Math.min(22, slot - (slot > 4 ? 2 : 0)));
    return times.map((t, index) => {
      let below = 0;
      return series.map((one) => {
        const value = one.values[index] ?? 0;
        if (!value) return null;
        const y = this.y(below + value);
        const height = this.y(below) - y;
        below += value;
        return svg("rect", { class: `chart-bar tone-${one.tone}`, x: this.x(t) + (slot - width) / 2, y, width, height: Math.max(height, 1), rx: Math.min(2, width / 3) });
      });
    });
  }

  /** What the chart shows, in one sentence. */
  words() {
    const { times, series } = this.data;
    if (!times.length) return `${this.title}: no values yet`;
    const parts = series.map((one) => {
      const known = one.values.filter((value) => value !== null && value !== undefined);
      if (!known.length) return `${one.name}: none`;
      return `${one.name}: last ${this.format(known.at(-1))}, most ${this.format(Math.max(...known))}`;
    });
    return `${this.title}. ${parts.join("; ")}. Arrow keys read single values.`;
  }

  pointed(event) {
    const { times, from, to } = this.data;
    if (!times.length) return;
    const box = this.svg.getBoundingClientRect();
    const t = from + ((event.clientX - box.left - this.left) / (this.width - this.left - RIGHT)) * (to - from) - (this.data.bucketMs ?? 0) / 2;
    let best = 0;
    times.forEach((one, index) => Math.abs(one - t) < Math.abs(times[best] - t) && (best = index));
    this.mark(best);
  }

  pressed(event) {
    const last = this.data.times.length - 1;
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (!(event.key in moves) || last < 0) return;
    event.preventDefault();
    this.mark(Math.min(last, Math.max(0, (this.marked ?? last) + moves[event.key])));
    this.svg.setAttribute("aria-label", this.tip.textContent);
  }

  mark(index) {
    this.marked = index;
    const cursor = this.svg.querySelector(".chart-cursor");
    this.tip.hidden = index === null || index < 0;
    cursor?.setAttribute("visibility", this.tip.hidden ? "hidden" : "visible");
    if (this.tip.hidden || !cursor) return;
    const { times, series, bucketMs = 0 } = this.data;
    const x = this.x(times[index] + bucketMs / 2);
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    const date = new Date(times[index]);
    const when = bucketMs >= MINUTE * 60 ? `${day(date)}, ${hourMinute(date)}` : bucketMs ? hourMinute(date) : clock(date);
    fill(this.tip, h("div", { class: "chart-tip-time" }, when), series.map((one) => h("div", { class: "chart-tip-line" }, h("span", { class: `dot tone-${one.tone}` }), `${one.name} `, h("b", null, one.values[index] === null || one.values[index] === undefined ? "–" : this.format(one.values[index])))));
    const right = x > this.width / 2;
    this.tip.style.setProperty("left", right ? "auto" : `${x + 10}px`);
    this.tip.style.setProperty("right", right ? `${this.width - x + 10}px` : "auto");
  }
}

export function legend(series) {
  return h("ul", { class: "legend" }, series.map(([name, tone]) => h("li", null, h("span", { class: `dot tone-${tone}` }), name)));
}

/** A small line without axes; the words beside it say the same. */
export function sparkline(values, label) {
  const width = 88;
  const height = 24;
  const most = Math.max(1, ...values);
  const step = width / Math.max(14, values.length - 1);
  const start = width - (values.length - 1) * step;
  const d = values.map((value, index) => `${index ? "L" : "M"}${(start + index * step).toFixed(1)} ${(height - 2 - (value / most) * (height - 5)).toFixed(1)}`).join("");
  const area = values.length > 1 ? `${d}L${width} ${height}L${start.toFixed(1)} ${height}Z` : "";
  return svg("svg", { class: "sparkline", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, area && svg("path", { class: "chart-area tone-live", d: area }), values.length > 1 ? svg("path", { class: "chart-line tone-live", d }) : svg("line", { class: "chart-grid", x1: 0, x2: width, y1: height - 2, y2: height - 2 }));
}

/** Parts of a whole as one bar: [[label, count, tone]...] */
export function partsBar(parts, label) {
  const whole = parts.reduce((sum, part) => sum + part[1], 0);
  const words = parts.filter((part) => part[1]).map((part) => `${part[1]} ${part[0]}`).join(", ");
  return h(
    "div",
    { class: "parts-bar", role: "img", "aria-label": `${label}: ${words || "none"}`, title: words },
    parts.map(([, count, tone]) => (count ? h("span", { class: `tone-${tone}`, style: { "flex-grow": String(Math.max(count, whole / 60)) } }) : null)),
  );
}
