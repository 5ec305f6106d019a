// Paths to pages. A page gets a `View`: its place on the screen, its address, and a loop that keeps it fresh.
// What a page started ends with it (view.signal).

import { Problem, query as queryOf } from "./api.js";
import { fill, h } from "./dom.js";
import * as live from "./live.js";
import { visible } from "./text.js";

const REFRESH_MS = 2000;
const RETRY_MS = 3000;

const routes = [];
let current = null;
let place = null;
let opened = () => {};

/** A query with changes. The rest keeps its bytes: names need not be UTF-8, and URLSearchParams would replace them. */
function changed(search, changes) {
  const parts = new Map();
  for (const part of search.slice(1).split("&")) if (part) parts.set(part.split("=", 1)[0], part);
  for (const [name, value] of Object.entries(changes)) {
    const part = queryOf({ [name]: value }).slice(1);
    if (part) parts.set(name, part);
    else parts.delete(name);
  }
  return parts.size ? `?${[...parts.values()].join("&")}` : "";
}

export class View {
  constructor(main, names, parameters) {
    this.main = main;
    this.names = names;
    this.query = parameters;
    this.ending = new AbortController();
    this.signal = this.ending.signal;
    this.loops = [];
    this.queryChanged = () => {};
    this.scroll = 0;
    this.trouble = h("p", { class: "page-trouble", role: "alert", hidden: true });
  }

  /** Says what is wrong, if it does not pass by itself: for that there is the banner. */
  say(error) {
    if (error.passing) return;
    this.trouble.hidden = false;
    fill(this.trouble, error.message);
    if (!this.trouble.isConnected) this.main.firstElementChild?.after(this.trouble);
  }

  title(text) {
    document.title = `${visible(text)} · hiringhall`;
  }

  /** Calls `load` now, every two seconds while the page is looked at, and on `refresh()`. Never twice at once. */
  keepFresh(load, failed = (error) => this.say(error)) {
    const loop = { running: false, again: false, timer: 0 };
    loop.run = async () => {
      clearTimeout(loop.timer);
      if (this.signal.aborted) return;
      if (loop.running) {
        loop.again = true;
        return;
      }
      loop.running = true;
      let wait = REFRESH_MS;
      try {
        if (!document.hidden) {
          await load();
          this.trouble.hidden = true;
          this.restoreScroll();
        }
      } catch (error) {
        if (this.signal.aborted || error.name === "AbortError") return;
        if (!(error instanceof Problem)) throw error;
        if (error.passing) live.setLink(error.status === 0 ? { web: false } : { hall: error.status !== 502 && live.state.hall });
        wait = RETRY_MS;
        failed(error);
      } finally {
        loop.running = false;
      }
      if (this.signal.aborted) return;
      loop.timer = setTimeout(loop.run, loop.again ? 0 : wait);
      loop.again = false;
    };
    this.loops.push(loop);
    loop.run();
  }

  /** Who comes back to a page finds it where it was left, as soon as its content is there. */
  restoreScroll() {
    if (!this.scroll || this.signal.aborted) return;
    scrollTo(0, this.scroll);
    if (Math.abs(scrollY - this.scroll) < 2) this.scroll = 0;
  }

  refresh() {
    for (const loop of this.loops) loop.run();
  }

  /** Changes the query of the address; "" and null remove a parameter. The cursor of a list begins anew. */
  setQuery(changes, { keepCursor = false, replace = false } = {}) {
    // Somebody may leave the page before what was typed is taken over.
    if (this.signal.aborted) return;
    const next = changed(location.search, keepCursor ? changes : { cursor: "", ...changes });
    if (next === location.search) return;
    history[replace ? "replaceState" : "pushState"](null, "", location.pathname + next);
    this.query = new URLSearchParams(next);
    this.queryChanged(this.query);
    this.refresh();
  }

  end() {
    this.ending.abort();
    for (const loop of this.loops) clearTimeout(loop.timer);
  }
}

/** route("/jobs/:id", open): open(view) builds the page in view.main. */
export function route(pattern, open) {
  routes.push({ pattern, segments: pattern.split("/"), open });
}

function match(path) {
  const segments = (path.length > 1 ? path.replace(/\/+$/, "") : path).split("/");
  for (const one of routes) {
    if (one.segments.length !== segments.length) continue;
    const names = {};
    const fits = one.segments.every((segment, index) => {
      if (!segment.startsWith(":")) return segment === segments[index];
      names[segment.slice(1)] = segments[index];
      return segments[index] !== "";
    });
    if (fits) return { open: one.open, names, pattern: one.pattern };
  }
  return null;
}

/** Goes to another address; the one that is left remembers how far it was scrolled. */
function leaveFor(target) {
  history.replaceState({ scroll: scrollY }, "");
  history.pushState(null, "", target);
}

function show({ restored = false } = {}) {
  const found = match(location.pathname) ?? match("/*");
  const samePage = current && current.path === location.pathname;
  if (samePage) {
    current.view.query = new URLSearchParams(location.search);
    current.view.queryChanged(current.view.query);
    current.view.refresh();
    return;
  }
  current?.view.end();
  place.replaceChildren();
  const view = new View(place, found.names, new URLSearchParams(location.search));
  const first = current === null;
  current = { path: location.pathname, view };
  opened(location.pathname);
  found.open(view);
  if (restored) view.scroll = history.state?.scroll ?? 0;
  else scrollTo(0, 0);
  // A screen reader hears that another page is there; the first page is announced by the browser.
  if (!first) (place.querySelector("h1") ?? place).focus({ preventScroll: true });
}

export function go(target) {
  leaveFor(target);
  show();
}

function clicked(event) {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest?.("a[href]");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (link.pathname.startsWith("/api/") || link.pathname.startsWith("/assets/") || link.pathname === "/metrics") return;
  if (link.hash && link.pathname === location.pathname) return;
  event.preventDefault();
  if (link.href !== location.href) leaveFor(link.href);
  show();
}

export function start(main, whenOpened) {
  place = main;
  opened = whenOpened;
  document.addEventListener("click", clicked);
  addEventListener("popstate", () => show({ restored: true }));
  document.addEventListener("visibilitychange", () => !document.hidden && current?.view.refresh());
  // What was away is back: show it at once.
  live.on("link", (link) => link.web && link.hall && current?.view.refresh());
  show();
}
