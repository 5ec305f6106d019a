// What every list has: filters that live in the address, sorting, pages, and a download of the whole list.

import { address, encodedParameter } from "./api.js";
import { fillKeepingFocus, h } from "./dom.js";
import { number } from "./format.js";

const TYPING_MS = 300;

/** The head of a page: title, a line below it, and buttons. */
export function pageHead(title, { lead, actions = [], back } = {}) {
  return h(
    "header",
    { class: "page-head" },
    h("div", { class: "page-head-text" }, back && h("a", { class: "back", href: back[0] }, `‹ ${back[1]}`), h("h1", { tabindex: "-1" }, title), lead && h("p", { class: "lead" }, lead)),
    h("div", { class: "page-actions" }, actions),
  );
}

export function emptyState(title, text, ...more) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), h("p", null, text), more);
}

export function code(text) {
  return h("pre", { class: "command" }, h("code", null, text));
}

/** A text input that writes to a parameter of the address while somebody types. */
export function textFilter(view, name, label, { search = false, width = "" } = {}) {
  let timer = 0;
  const input = h("input", {
    type: "search", name, class: `input ${width}`, placeholder: label, "aria-label": label, autocomplete: "off", spellcheck: "false",
    value: view.query.get(name) ?? "", "data-search": search || null,
  });
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => view.setQuery({ [name]: input.value }, { replace: true }), TYPING_MS);
  });
  return { node: input, read: (query) => document.activeElement !== input && (input.value = query.get(name) ?? "") };
}

/** options: [[value, label]...] */
export function choiceFilter(view, name, label, options) {
  const select = h("select", { name, class: "input", "aria-label": label }, options.map(([value, text]) => h("option", { value }, text)));
  select.value = view.query.get(name) ?? "";
  select.addEventListener("change", () => view.setQuery({ [name]: select.value }));
  return { node: select, read: (query) => (select.value = query.get(name) ?? "") };
}

/** Choices as a row of links; each has its own address. */
export function tabs(view, name, label, options) {
  const nav = h("div", { class: "tabs", role: "group", "aria-label": label });
  const read = (query) => {
    const now = query.get(name) ?? "";
    const buttons = options.map(([value, text]) =>
      h("button", { type: "button", class: "tab", "aria-pressed": String(value === now), "data-key": value || "all", onclick: () => view.setQuery({ [name]: value }) }, text),
    );
    fillKeepingFocus(nav, buttons);
  };
  read(view.query);
  return { node: nav, read };
}

const SPANS = [["", "Any time"], ["1h", "Last hour"], ["1d", "Last day"], ["7d", "Last 7 days"], ["30d", "Last 30 days"]];
const SPAN_S = { "1h": 3600, "1d": 86400, "7d": 604800, "30d": 2592000 };

export function spanFilter(view) {
  return choiceFilter(view, "span", "Time", SPANS);
}

/** The parameters of the API for a list: those of the address that it knows, and the span as `from`. */
export function parametersOf(query, names) {
  const parameters = {};
  for (const name of names) if (query.get(name)) parameters[name] = name === "queue" ? encodedParameter(location.search, name) : query.get(name);
  const seconds = SPAN_S[query.get("span")];
  // Whole minutes: the same question within a minute is the same address, and its answer is shared.
  if (seconds) parameters.from = new Date(Math.floor((Date.now() - seconds * 1000) / 60000) * 60000).toISOString();
  return parameters;
}

/** Joins filters; `changed` is called with the query when the address changes, also by the back button. */
export function filterBar(view, filters, ...more) {
  const heard = view.queryChanged;
  view.queryChanged = (query) => {
    heard(query);
    for (const filter of filters) filter.read(query);
  };
  return h("div", { class: "filters", role: "search" }, filters.map((filter) => filter.node), more);
}

/** Sorting that lives in the address: sort=name or sort=-name. */
export function urlSort(view, start) {
  return {
    now() {
      const text = view.query.get("sort") ?? start;
      return { by: text.replace(/^-/, ""), down: text.startsWith("-") };
    },
    change(by, down) {
      const text = `${down ? "-" : ""}${by}`;
      view.setQuery({ sort: text === start ? "" : text }, { replace: true });
    },
  };
}

export function sorted(items, columns, { by, down }) {
  const column = columns.find((one) => one.name === by);
  if (!column?.sort) return items;
  const sign = down ? -1 : 1;
  const keyed = items.map((item, index) => [column.sort(item), index, item]);
  keyed.sort((a, b) => (a[0] < b[0] ? -sign : a[0] > b[0] ? sign : a[1] - b[1]));
  return keyed.map((one) => one[2]);
}

/** Links that download the whole list, as it is filtered. */
export function downloads(path, parameters) {
  const link = (format, label) => h("a", { class: "quiet-link", href: address(path, { ...parameters(), format }), download: "", "data-key": `download-${format}` }, label);
  const node = h("span", { class: "downloads" });
  const draw = () => fillKeepingFocus(node, "Download ", link("csv", "CSV"), " ", link("json", "JSON"));
  draw();
  return { node, draw };
}

const FORMULA = /^[=+\-@\t\r]/;

function csvCell(value) {
  const text = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  // A spreadsheet must take what begins like a formula as text.
  return `"${(FORMULA.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}

/** Links that download a list that is here as a whole. */
export function localDownloads(name, items) {
  const save = (type, ending, text) => {
    const address = URL.createObjectURL(new Blob([text], { type }));
    h("a", { href: address, download: `${name}.${ending}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  };
  const csv = () => {
    const names = Object.keys(items()[0] ?? {});
    const lines = items().map((item) => names.map((one) => csvCell(item[one])).join(","));
    save("text/csv", "csv", [names.join(","), ...lines, ""].join("\r\n"));
  };
  const json = () => save("application/json", "json", JSON.stringify(items(), null, 2));
  const button = (label, action) => h("button", { type: "button", class: "quiet-link", onclick: action }, label);
  return h("span", { class: "downloads" }, "Download ", button("CSV", csv), " ", button("JSON", json));
}

/** The foot of a list whose pages the server cuts. */
export class Pager {
  constructor(view) {
    this.view = view;
    this.node = h("div", { class: "pager" });
  }

  update(next) {
    const cursor = this.view.query.get("cursor");
    const first = h("button", { type: "button", class: "button", disabled: !cursor, "data-key": "first", onclick: () => this.view.setQuery({ cursor: "" }) }, "First page");
    const more = h("button", { type: "button", class: "button", disabled: !next, "data-key": "next", onclick: () => this.turn() }, "Next page");
    fillKeepingFocus(this.node, cursor || next ? [first, more] : null);
    // The buttons may stay as they are although the next page is another one: so it is kept here.
    this.next = next;
  }

  turn() {
    this.view.setQuery({ cursor: this.next }, { keepCursor: true });
    scrollTo(0, 0);
  }
}

/** Pages of a list that is here as a whole. */
export function pageOf(items, view, size = 100) {
  const pages = Math.max(1, Math.ceil(items.length / size));
  const page = Math.min(pages, Math.max(1, Number(view.query.get("page")) || 1));
  const turn = (to) => () => view.setQuery({ page: to === 1 ? "" : to });
  const foot =
    pages === 1
      ? null
      : [
          h("button", { type: "button", class: "button", disabled: page === 1, "data-key": "previous", onclick: turn(page - 1) }, "Previous"),
          h("span", { class: "pager-text" }, `${number((page - 1) * size + 1)}–${number(Math.min(items.length, page * size))} of ${number(items.length)}`),
          h("button", { type: "button", class: "button", disabled: page === pages, "data-key": "next", onclick: turn(page + 1) }, "Next"),
        ];
  return { shown: items.slice((page - 1) * size, page * size), foot };
}
