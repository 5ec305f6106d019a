// A graph on the page: canvas, buttons, legend, search, and the same nodes as a list for keyboard and screen reader.

import { fill, fillKeepingFocus, h } from "../dom.js";
import { number, plural } from "../format.js";
import { jobTone, stateBadge } from "../situations.js";
import { onTheme } from "../theme.js";
import { GraphCanvas } from "./canvas.js";

const LIST_MAX = 200;
const MADE_KEY = /^[0-9a-f]{12}-[0-9a-f]+$/;
const DRAG_MIN = 4;
const MARKS = { done: "check", failed: "cross", cancelled: "dash", running: "play", promised: "play", held: "dash", delayed: "clock", backoff: "clock", paused: "dash" };
const LEGEND = ["done", "running", "ready", "held", "backoff", "failed", "cancelled"];

function wordOf(node) {
  return node.situation || node.state;
}

/** The key of a job; keys that the SDK made say nothing, so there it is the end of the queue's name. */
function labelOf(node) {
  if (MADE_KEY.test(node.name) && node.queue) return node.queue.slice(node.queue.lastIndexOf(".") + 1);
  return node.name || node.id;
}

export class GraphView {
  constructor(signal) {
    this.signal = signal;
    this.graph = { nodes: [], edges: [] };
    this.latest = this.graph;
    this.shape = "";
    this.placing = false;
    this.ticket = 0;
    this.canvas = h("canvas", { class: "graph-canvas", tabindex: "0", role: "application", "aria-label": "Graph. Arrow keys move it, plus and minus zoom, 0 shows all. The list after it has the same jobs." });
    this.drawing = new GraphCanvas(this.canvas);
    this.info = h("div", { class: "graph-info", role: "status" });
    this.search = h("input", { type: "search", class: "input", placeholder: "Find a job", "aria-label": "Find a job in the graph", "data-search": true, autocomplete: "off", spellcheck: "false" });
    this.blocked = h("div", { class: "card-body" });
    this.list = h("ul", { class: "node-list" });
    this.listNote = h("p", { class: "faint" });
    this.box = h("div", { class: "graph-box" }, this.canvas, this.buttons(), this.info);
    this.node = h(
      "div",
      { class: "stack" },
      h("section", { class: "card graph-card", "aria-label": "Graph" }, h("div", { class: "graph-head" }, this.search, legend()), this.box),
      h("div", { class: "columns" }, h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", null, "What blocks the rest")), this.blocked), h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", null, "Jobs as a list")), h("div", { class: "card-body" }, this.listNote, this.list))),
    );
    this.worker = new Worker("/assets/js/graph/worker.js", { type: "module" });
    this.worker.addEventListener("message", ({ data }) => this.computed(data));
    signal.addEventListener("abort", () => this.worker.terminate());
    this.listen();
  }

  buttons() {
    const button = (label, text, action) => h("button", { type: "button", class: "button button-small", "aria-label": label, title: label, onclick: action }, text);
    return h("div", { class: "graph-buttons" }, button("Zoom in", "+", () => this.drawing.zoom(1.4)), button("Zoom out", "−", () => this.drawing.zoom(1 / 1.4)), button("Show all", "Fit", () => this.drawing.fit()));
  }

  listen() {
    const { canvas, drawing } = this;
    const observer = new ResizeObserver(([entry]) => {
      const first = !drawing.width;
      drawing.size(entry.contentRect.width, entry.contentRect.height);
      if (first) {
        drawing.setColours();
        this.begin();
      }
    });
    observer.observe(this.box);
    this.signal.addEventListener("abort", () => observer.disconnect());
    onTheme(() => drawing.setColours(), this.signal);
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.pressed(event));
    this.search.addEventListener("input", () => this.find());
    this.search.addEventListener("keydown", (event) => event.key === "Enter" && this.find(true));
    this.drag();
  }

  wheel(event) {
    event.preventDefault();
    const box = this.canvas.getBoundingClientRect();
    if (event.ctrlKey || Math.abs(event.deltaY) >= Math.abs(event.deltaX)) this.drawing.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), event.clientX - box.left, event.clientY - box.top);
    else this.drawing.pan(-event.deltaX, 0);
  }

  /** One pointer pans, two zoom; a press without a move chooses the node there. */
  drag() {
    const { canvas, drawing } = this;
    const pointers = new Map();
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
      moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const now = [event.clientX, event.clientY];
      moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
      if (pointers.size === 1) drawing.pan(now[0] - before[0], now[1] - before[1]);
      else {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
        const box = canvas.getBoundingClientRect();
        const distance = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]) || 1;
        drawing.zoom(distance(now) / distance(before), (now[0] + other[0]) / 2 - box.left, (now[1] + other[1]) / 2 - box.top);
      }
      pointers.set(event.pointerId, now);
    });
    for (const kind of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(kind, (event) => {
        if (pointers.delete(event.pointerId) && kind === "pointerup" && moved < DRAG_MIN) {
          const box = canvas.getBoundingClientRect();
          this.choose(drawing.at(event.clientX - box.left, event.clientY - box.top), false);
        }
      });
    }
  }

  pressed(event) {
    const { drawing } = this;
    const step = 60;
    const actions = {
      ArrowLeft: () => drawing.pan(step, 0), ArrowRight: () => drawing.pan(-step, 0), ArrowUp: () => drawing.pan(0, step), ArrowDown: () => drawing.pan(0, -step),
      "+": () => drawing.zoom(1.25), "=": () => drawing.zoom(1.25), "-": () => drawing.zoom(0.8), 0: () => drawing.fit(), Escape: () => this.choose(-1, false),
    };
    if (!actions[event.key] || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    actions[event.key]();
  }

  /** New states of the same graph recolour it; another graph is laid out anew, and what is shown stays until then. */
  update(graph) {
    const shape = `${graph.nodes.length} ${graph.nodes.map((node) => node.id).join(",")} ${graph.edges.length}`;
    this.latest = graph;
    if (shape !== this.shape) {
      this.shape = shape;
      this.ticket += 1;
      this.placing = true;
      this.worker.postMessage({ what: "layout", ticket: this.ticket, count: graph.nodes.length, edges: graph.edges });
    } else if (!this.placing) this.show(graph);
    this.worker.postMessage({ what: "blockers", ticket: this.ticket, states: graph.nodes.map(wordOf), edges: graph.edges });
  }

  show(graph) {
    this.graph = graph;
    this.drawing.nodes = graph.nodes.map((node) => ({ label: labelOf(node), tone: jobTone(wordOf(node)), mark: MARKS[wordOf(node)] ?? "ring" }));
    this.drawing.edges = graph.edges;
    this.drawing.ask();
    this.drawList();
    this.drawInfo();
  }

  computed(data) {
    if (data.ticket !== this.ticket) return;
    if (data.what === "layout") this.place(data);
    else this.drawBlockers(data.found);
  }

  /** A graph that grows keeps the chosen job, and the part of it that somebody has moved to. */
  place(placed) {
    const { drawing } = this;
    const first = !drawing.placed;
    const chosen = this.graph.nodes[drawing.chosen]?.id;
    const spot = chosen && drawing.spot(drawing.chosen);
    this.placing = false;
    drawing.placed = placed;
    drawing.chosen = -1;
    this.show(this.latest);
    this.choose(chosen ? this.graph.nodes.findIndex((node) => node.id === chosen) : -1, false);
    if (!drawing.moved) this.begin();
    else if (spot && drawing.chosen >= 0) {
      const [x, y] = drawing.spot(drawing.chosen);
      drawing.pan(spot[0] - x, spot[1] - y);
    }
    if (first) this.find(); // Somebody may have typed before there was a drawing.
  }

  /** The first view is around what happens now. */
  begin() {
    if (!this.drawing.placed || !this.drawing.width) return;
    const words = ["running", "failed", "ready", "backoff"];
    const node = words.map((word) => this.graph.nodes.findIndex((one) => wordOf(one) === word)).find((index) => index >= 0);
    this.drawing.begin(node ?? 0);
  }

  drawBlockers(found) {
    const line = ({ node, after }) => h("li", { class: "relation" }, this.nodeButton(node), stateBadge(wordOf(this.graph.nodes[node])), h("span", { class: "faint" }, `${plural(after, "job")} after it`));
    const none = h("p", { class: "faint" }, "Nothing: no job that has not succeeded has others waiting for it.");
    fillKeepingFocus(this.blocked, found.length ? h("ul", { class: "relations" }, found.slice(0, 12).map(line), found.length > 12 ? h("li", { class: "faint" }, `and ${number(found.length - 12)} more`) : null) : none);
  }

  nodeButton(index) {
    return h("button", { type: "button", class: "link-button data", "data-key": `node-${index}`, onclick: () => this.choose(index, true) }, labelOf(this.graph.nodes[index]));
  }

  matches() {
    const text = this.search.value.trim().toLowerCase();
    const found = [];
    this.graph.nodes.forEach((node, index) => {
      if (!text || labelOf(node).toLowerCase().includes(text) || (node.name ?? "").toLowerCase().includes(text) || node.id === text || (node.queue ?? "").toLowerCase().includes(text)) found.push(index);
    });
    return found;
  }

  drawList() {
    const found = this.matches();
    fill(this.listNote, `${plural(found.length, "job")}${this.search.value.trim() ? " found" : ""}${found.length > LIST_MAX ? `, the first ${LIST_MAX} are listed: find narrows them` : ""}`);
    fillKeepingFocus(this.list, found.slice(0, LIST_MAX).map((index) => h("li", { class: "relation" }, this.nodeButton(index), h("span", { class: "faint data" }, this.graph.nodes[index].queue ?? ""), stateBadge(wordOf(this.graph.nodes[index])))));
  }

  find(go = false) {
    this.drawList();
    const found = this.matches();
    if (!this.search.value.trim() || !found.length || !this.drawing.placed) return;
    this.choose(go ? found[(found.indexOf(this.drawing.chosen) + 1) % found.length] : found[0], true);
  }

  choose(index, centre) {
    this.drawing.choose(index);
    if (centre && index >= 0 && this.drawing.placed) this.drawing.centre(index);
    this.drawInfo();
  }

  drawInfo() {
    const node = this.graph.nodes[this.drawing.chosen];
    this.info.hidden = !node;
    if (!node) return;
    fillKeepingFocus(this.info, h("a", { class: "data", href: `/jobs/${node.id}`, "data-key": "open" }, labelOf(node)), h("span", { class: "faint data" }, node.queue ?? ""), stateBadge(wordOf(node)));
  }
}

function legend() {
  return h("ul", { class: "legend graph-legend", "aria-label": "Legend" }, LEGEND.map((word) => h("li", null, stateBadge(word))));
}
