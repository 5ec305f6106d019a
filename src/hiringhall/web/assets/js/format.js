// Numbers, durations and times as a person reads them. A relative time keeps itself up to date.

import { h } from "./dom.js";

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const HOUR_MINUTE = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const WITH_YEAR = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

export function number(value) {
  return WHOLE.format(value ?? 0);
}

/** 1234567 -> "1.23M": for tiles and axes, where the exact number is elsewhere. */
export function compact(value) {
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= unit) {
      const base = letter === "k" ? 1e3 : unit;
      return `${(value / base).toFixed(size / base < 10 ? 2 : size / base < 100 ? 1 : 0)}${letter}`;
    }
  }
  return size >= 100 || Number.isInteger(value) ? WHOLE.format(value) : size >= 10 ? value.toFixed(1) : value.toFixed(size < 0.1 && size > 0 ? 2 : 1);
}

export function rate(value) {
  return `${compact(value ?? 0)}/s`;
}

/** Two units at most: "4 min 12 s". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size < 0.001) return `${Math.round(size * 1e6)} µs`;
  if (size < 1) return `${Math.round(size * 1e3)} ms`;
  if (size < 10) return `${size.toFixed(1)} s`;
  if (size < 60) return `${Math.floor(size)} s`;
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const index = units.findIndex(([length]) => size >= length);
  const [length, name] = units[index];
  const [next, nextName] = units[index + 1];
  const rest = Math.floor((size % length) / next);
  return `${Math.floor(size / length)} ${name}${rest ? ` ${rest} ${nextName}` : ""}`;
}

export function bytes(count) {
  if (count < 1000) return `${count} ${count === 1 ? "byte" : "bytes"}`;
  const units = ["kB", "MB", "GB", "TB"];
  let size = count / 1000;
  let unit = 0;
  while (size >= 1000 && unit < 3) {
    size /= 1000;
    unit += 1;
  }
  return `${size.toFixed(size < 10 ? 1 : 0)} ${units[unit]}`;
}

/** plural(1, "job") -> "1 job", plural(2, "job") -> "2 jobs" */
export function plural(count, word, words = `${word}s`) {
  return `${number(count)} ${count === 1 ? word : words}`;
}

export function clock(date) {
  return CLOCK.format(date);
}

export function hourMinute(date) {
  return HOUR_MINUTE.format(date);
}

export function day(date) {
  return DAY.format(date);
}

/** The time of day if it is today, otherwise with the date. */
export function moment(date, now = new Date()) {
  if (date.toDateString() === now.toDateString()) return clock(date);
  const shown = date.getFullYear() === now.getFullYear() ? DAY : WITH_YEAR;
  return `${shown.format(date)}, ${hourMinute(date)}`;
}

function precise(text) {
  const date = new Date(text);
  return `${WITH_YEAR.format(date)}, ${clock(date)}.${String(date.getMilliseconds()).padStart(3, "0")} (${text})`;
}

function relative(date, now = Date.now()) {
  const seconds = (date - now) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  // What lies back is told in one unit, so that long lists do not flicker; what is to come, in two.
  const text = duration(Math.floor(Math.abs(seconds))).replace(/(\d)\.0 s$/, "$1 s");
  return seconds < 0 ? `${text.split(" ").slice(0, 2).join(" ")} ago` : `in ${text}`;
}

/** How long ago, or in how long. It is updated each second while it is on the page. */
export function ago(text) {
  if (!text) return h("span", { class: "none" }, "–");
  return h("time", { datetime: text, title: precise(text), "data-relative": "" }, relative(new Date(text)));
}

/** In how long something is due; "now" if that should have been a moment ago. */
export function due(text) {
  return h("time", { datetime: text, title: precise(text), "data-relative": "due" }, untilDue(new Date(text)));
}

function untilDue(date) {
  return date < Date.now() ? "now" : relative(date);
}

/** A point in time, absolute. */
export function at(text) {
  if (!text) return h("span", { class: "none" }, "–");
  return h("time", { datetime: text, title: precise(text) }, moment(new Date(text)));
}

/** Seconds between two times; until now if the second is missing. */
export function between(from, to) {
  return from ? Math.max(0, ((to ? new Date(to) : new Date()) - new Date(from)) / 1000) : null;
}

/** A duration that grows until `to` is known. */
export function lasting(from, to) {
  if (!from) return h("span", { class: "none" }, "–");
  const node = h("span", null, duration(between(from, to)));
  if (!to) node.dataset.lastingSince = from;
  return node;
}

export function startTicking() {
  setInterval(() => {
    if (document.hidden) return;
    for (const one of document.querySelectorAll("time[data-relative]")) {
      const date = new Date(one.dateTime);
      const text = one.dataset.relative === "due" ? untilDue(date) : relative(date);
      if (one.textContent !== text) one.textContent = text;
    }
    for (const one of document.querySelectorAll("[data-lasting-since]")) {
      one.textContent = duration(Math.floor(between(one.dataset.lastingSince, null)));
    }
  }, 1000);
}
