// Keyboard shortcuts: "g" and a letter for a page, "/" to search, "j" and "k" along a list, "?" for help.

import { h } from "./dom.js";
import { go } from "./router.js";

const TWO_KEYS_MS = 1500;

export const PLACES = [
  ["o", "/", "Overview"],
  ["q", "/queues", "Queues"],
  ["j", "/jobs", "Jobs"],
  ["f", "/flows", "Flows"],
  ["w", "/workers", "Workers"],
  ["s", "/schedules", "Schedules"],
  ["a", "/auctions", "Auctions"],
  ["h", "/history", "History"],
  ["e", "/settings", "Settings"],
];

const OTHERS = [
  ["/", "Search jobs, or filter the list"],
  ["j, k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["x", "Select the row, where rows can be selected"],
  ["t", "Light or dark"],
  ["?", "This help"],
];

let first = -Infinity;

function typing(target) {
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

function line(keys, text) {
  return h("div", { class: "key-line" }, h("dt", null, keys.map((key, index) => [index ? " " : null, h("kbd", null, key)])), h("dd", null, text));
}

export function showHelp() {
  if (document.querySelector("dialog[open]")) return;
  const close = h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Close");
  const dialog = h(
    "dialog",
    { class: "dialog", "aria-labelledby": "keys-title" },
    h("h2", { id: "keys-title" }, "Keyboard shortcuts"),
    h("dl", { class: "key-list" }, PLACES.map(([key, , name]) => line(["g", key], name)), OTHERS.map(([key, text]) => line(key.split(", "), text))),
    h("div", { class: "dialog-buttons" }, close),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
}

function moveRow(step) {
  const links = [...document.querySelectorAll("main .row-link")];
  if (!links.length) return;
  const row = document.activeElement?.closest("tr");
  const here = links.findIndex((link) => link.closest("tr") === row);
  links[Math.min(links.length - 1, Math.max(0, here < 0 ? 0 : here + step))].focus();
}

function search() {
  const box = document.querySelector("main [data-search]") ?? document.getElementById("search");
  box.focus();
  box.select();
}

function pressed(event, toggleTheme) {
  if (event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (typing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const second = performance.now() - first < TWO_KEYS_MS;
  first = -Infinity;
  if (second) {
    const place = PLACES.find(([key]) => key === event.key);
    if (place) {
      event.preventDefault();
      go(place[1]);
    }
    return;
  }
  const actions = {
    g: () => (first = performance.now()),
    "/": search,
    "?": showHelp,
    t: toggleTheme,
    j: () => moveRow(1),
    k: () => moveRow(-1),
    x: () => document.activeElement?.closest("tr")?.querySelector(".row-check")?.click(),
  };
  if (actions[event.key]) {
    event.preventDefault();
    actions[event.key]();
  }
}

export function start(toggleTheme) {
  document.addEventListener("keydown", (event) => pressed(event, toggleTheme));
}
