// Builds elements. Every text and every attribute goes through `visible`, so hostile text can neither
// become markup nor hide behind control characters. No other module writes text to the page.

import { visible, visibleLine } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

/** Where a line feed is shown as one. Elsewhere a browser shows a space, so a name could pretend to be another. */
function keepsLines(element) {
  return element.tagName === "PRE" || element.tagName === "CODE" || element.classList.contains("lines");
}

/** `place` is where the children will be in the end. */
function append(parent, children, place = parent) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(parent, child, place);
    else if (child instanceof Node) parent.append(child);
    else parent.append((keepsLines(place) ? visible : visibleLine)(String(child)));
  }
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
  else if (name === "value") element.value = value;
  else if (name === "checked") element.checked = value;
  else element.setAttribute(name, value === true ? "" : visible(String(value)));
}

/** h("a", { href: "/", class: "link", onclick: f }, "text", node, [more]) */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  append(element, children);
  return element;
}

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  append(element, children);
  return element;
}

/** Replaces the children of `parent`, unless they look the same already. */
export function fill(parent, ...children) {
  const fresh = document.createDocumentFragment();
  append(fresh, children, parent);
  const before = parent.childNodes;
  const after = fresh.childNodes;
  if (before.length === after.length && Array.prototype.every.call(before, (one, index) => one.isEqualNode(after[index]))) return false;
  parent.replaceChildren(fresh);
  return true;
}

/** Gives the focus to the element with this data-key; if it is gone, to the title of the page, never to nothing. */
export function focusKey(parent, key) {
  const same = [...parent.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
  (same ?? document.querySelector("main h1"))?.focus({ preventScroll: true });
}

/** As `fill`, and the focus stays on the element with the same data-key. */
export function fillKeepingFocus(parent, ...children) {
  const focused = parent !== document.activeElement && parent.contains(document.activeElement) ? document.activeElement : null;
  if (fill(parent, ...children) && focused) focusKey(parent, focused.dataset.key);
}
