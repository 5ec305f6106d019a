// Shows bytes: as text, JSON, hex, or a picture. Pictures are known by their first bytes only, and are shown from a
// blob of exactly that type, so that no bytes can become a document.

import { getBytes } from "./api.js";
import { act, note } from "./dialogs.js";
import { fill, h } from "./dom.js";
import { bytes as sizeOf, number } from "./format.js";

const TEXT_SHOWN = 200_000;
const HEX_SHOWN = 16_384;
const CHILDREN_SHOWN = 200;
const OPEN_DEPTH = 2;

const PICTURES = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", [0x52, 0x49, 0x46, 0x46, null, null, null, null, 0x57, 0x45, 0x42, 0x50]],
];

export function pictureType(bytes) {
  const found = PICTURES.find(([, magic]) => bytes.length > magic.length && magic.every((byte, index) => byte === null || byte === bytes[index]));
  return found ? found[0] : null;
}

/** The text, or null if it is none. What is only the beginning may end within a character. */
function textOf(bytes, beginning = false) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes, { stream: beginning });
  } catch {
    return null;
  }
}

function jsonOf(text) {
  if (text === null || !/^\s*[[{"\d\-tfn]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function leaf(value) {
  const kind = value === null ? "null" : typeof value;
  return h("span", { class: `json-${kind}` }, kind === "string" ? JSON.stringify(value) : String(value));
}

/** A tree whose branches are drawn when they are opened first: a large document costs what is looked at. */
function tree(value, label, depth) {
  const name = label === null ? null : h("span", { class: "json-name" }, `${label}: `);
  if (value === null || typeof value !== "object") return h("div", { class: "json-line" }, name, leaf(value));
  const entries = Array.isArray(value) ? value.map((one, index) => [String(index), one]) : Object.entries(value);
  const words = Array.isArray(value) ? `[${number(entries.length)}]` : `{${number(entries.length)}}`;
  if (!entries.length) return h("div", { class: "json-line" }, name, Array.isArray(value) ? "[]" : "{}");
  const inside = h("div", { class: "json-inside" });
  const details = h("details", { class: "json" }, h("summary", null, name, h("span", { class: "faint" }, words)), inside);
  const draw = () => {
    if (inside.firstChild) return;
    inside.append(...entries.slice(0, CHILDREN_SHOWN).map(([key, one]) => tree(one, key, depth + 1)));
    if (entries.length > CHILDREN_SHOWN) inside.append(h("div", { class: "faint" }, `and ${number(entries.length - CHILDREN_SHOWN)} more: see Text`));
  };
  details.addEventListener("toggle", draw);
  if (depth < OPEN_DEPTH && entries.length <= CHILDREN_SHOWN) {
    details.open = true;
    draw();
  }
  return details;
}

function cut(text) {
  if (text.length <= TEXT_SHOWN) return h("pre", { class: "bytes data", tabindex: "0" }, text);
  return [h("pre", { class: "bytes data", tabindex: "0" }, text.slice(0, TEXT_SHOWN)), h("p", { class: "faint" }, `The first ${number(TEXT_SHOWN)} characters are shown. Download has all.`)];
}

export function hexLines(bytes) {
  const lines = [];
  for (let start = 0; start < bytes.length; start += 16) {
    const row = Array.from(bytes.subarray(start, start + 16));
    const codes = row.map((byte) => byte.toString(16).padStart(2, "0"));
    const left = codes.slice(0, 8).join(" ").padEnd(23);
    const right = codes.slice(8).join(" ").padEnd(23);
    const characters = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${start.toString(16).padStart(8, "0")}  ${left}  ${right}  ${characters}`);
  }
  return lines.join("\n");
}

function hex(bytes) {
  const shown = h("pre", { class: "bytes hex", tabindex: "0" }, hexLines(bytes.subarray(0, HEX_SHOWN)));
  return bytes.length > HEX_SHOWN ? [shown, h("p", { class: "faint" }, `The first ${number(HEX_SHOWN)} bytes are shown. Download has all.`)] : shown;
}

function picture(bytes, type) {
  const address = URL.createObjectURL(new Blob([bytes], { type }));
  const image = h("img", { class: "picture", alt: `Picture of ${sizeOf(bytes.length)}, ${type}`, src: address });
  for (const event of ["load", "error"]) image.addEventListener(event, () => URL.revokeObjectURL(address));
  image.addEventListener("error", () => image.replaceWith(h("p", { class: "faint" }, "These bytes begin like a picture, but are none.")));
  return image;
}

/** The ways to show these bytes, best first: [[name, draw]...] */
export function waysOf(bytes, beginning = false) {
  const ways = [];
  const type = pictureType(bytes);
  const text = textOf(bytes, beginning);
  const value = jsonOf(text);
  if (type) ways.push(["Picture", () => picture(bytes, type)]);
  if (value !== undefined && value !== null && typeof value === "object") ways.push(["JSON", () => h("div", { class: "json-tree data" }, tree(value, null, 0))]);
  if (text !== null) ways.push(["Text", () => cut(text)]);
  ways.push(["Hex", () => hex(bytes)]);
  return ways;
}

export class Viewer {
  /** `path`: where all bytes are, under the API. */
  constructor(title, path) {
    this.title = title;
    this.path = path;
    this.chosen = null;
    this.shown = null;
    this.head = h("div", { class: "card-head" });
    this.body = h("div", { class: "card-body" });
    this.node = h("section", { class: "card viewer", "aria-label": title }, this.head, this.body);
  }

  /** `whole` is the number of all bytes; `bytes` may be their beginning. */
  update(bytes, whole) {
    if (this.shown && this.whole === whole && this.shown.length >= bytes.length && this.shown.every((byte, index) => index >= bytes.length || byte === bytes[index])) return;
    this.shown = bytes;
    this.whole = whole;
    this.draw();
  }

  draw() {
    const bytes = this.shown;
    const beginning = bytes.length < this.whole;
    const ways = waysOf(bytes, beginning);
    const way = ways.find(([name]) => name === this.chosen) ?? ways[0];
    const choose = (name) => () => {
      this.chosen = name;
      this.draw();
      this.head.querySelector("[aria-pressed=true]")?.focus();
    };
    const buttons = h("div", { class: "tabs", role: "group", "aria-label": `${this.title} as` }, ways.map(([name]) => h("button", { type: "button", class: "tab", "aria-pressed": String(name === way[0]), onclick: choose(name) }, name)));
    const copy = async () => {
      try {
        await navigator.clipboard.writeText(textOf(bytes, beginning) ?? hexLines(bytes));
        note(beginning ? `The first ${sizeOf(bytes.length)} copied.` : `${this.title} copied.`);
      } catch {
        note("The browser does not allow the page to copy.", "bad");
      }
    };
    const whole = this.whole ? h("span", { class: "viewer-tools" }, navigator.clipboard ? h("button", { type: "button", class: "quiet-link", onclick: copy }, "Copy") : null, h("a", { class: "quiet-link", href: `/api/v1${this.path}`, download: "" }, "Download")) : null;
    fill(this.head, h("h2", null, this.title, h("span", { class: "faint head-note" }, this.whole ? sizeOf(this.whole) : "empty")), whole, bytes.length ? buttons : null);
    const rest = beginning ? this.loadButton() : null;
    this.body.replaceChildren();
    fill(this.body, bytes.length ? way[1]() : h("p", { class: "faint" }, "No bytes."), rest);
  }

  loadButton() {
    const button = h("button", { type: "button", class: "button button-small" }, `Load all ${sizeOf(this.whole)}`);
    button.addEventListener("click", () =>
      act(button, async () => {
        this.shown = await getBytes(this.path);
        this.whole = this.shown.length;
        this.draw();
      }),
    );
    return h("p", { class: "viewer-rest" }, h("span", { class: "faint" }, `The first ${sizeOf(this.shown.length)} are shown. `), button);
  }
}
