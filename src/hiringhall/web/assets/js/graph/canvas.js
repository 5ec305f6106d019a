// Draws a graph on a canvas, with zoom and pan. Only what is in view is drawn, and lines and boxes of one colour go
// to the canvas as one path: so 5,000 nodes are drawn within a frame. Each state has a colour and a shape.

import { visible } from "../text.js";
import { NODE_HEIGHT, NODE_WIDTH } from "./layout.js";

const ZOOM_MIN = 0.01;
const ZOOM_MAX = 2.5;
const LABELS_FROM = 0.42;
const SHAPES_FROM = 0.16;
const MARGIN = 36;
const READABLE = 0.8;
const READABLE_MAX = 300;

// What only waits stands back, so that what runs or failed is seen.
const FAINT = ["hold", "quiet"];
const TONES = ["live", "good", "bad", "warn", "hold", "quiet"];

/** Colours as the theme has them now: custom properties are resolved by an element that uses them. */
export function palette(element) {
  const probe = document.createElement("span");
  // A transition would make the probe answer with the colour that it had before.
  probe.style.setProperty("transition", "none", "important");
  element.append(probe);
  const read = (name) => {
    probe.style.setProperty("color", `var(--${name})`);
    return getComputedStyle(probe).color;
  };
  const colours = { ink: read("ink"), soft: read("ink-soft"), line: read("line-strong"), surface: read("surface"), accent: read("accent") };
  for (const tone of TONES) colours[tone] = { ink: read(tone), wash: read(`wash-${tone}`) };
  probe.remove();
  return colours;
}

export class GraphCanvas {
  /** nodes: [{ label, tone, mark }], edges: [[parent, child]...], placed: { x, y, width, height } */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.nodes = [];
    this.edges = [];
    this.placed = null;
    this.scale = 1;
    this.left = 0;
    this.top = 0;
    this.chosen = -1;
    this.near = null;
    this.frame = 0;
    this.labels = new Map();
    this.drawMs = 0;
    /** Somebody chose what is in view. */
    this.moved = false;
  }

  setColours() {
    this.colours = palette(this.canvas.parentElement);
    this.ask();
  }

  size(width, height) {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.ask();
  }

  /** Draws in the next frame, however often it is asked. */
  ask() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      const start = performance.now();
      this.draw();
      this.drawMs = performance.now() - start;
    });
  }

  fit() {
    if (!this.placed || !this.width) return;
    const { width, height } = this.placed;
    this.scale = Math.min(1.1, Math.max(ZOOM_MIN, Math.min((this.width - 2 * MARGIN) / width, (this.height - 2 * MARGIN) / height)));
    this.left = (this.width - width * this.scale) / 2;
    this.top = (this.height - height * this.scale) / 2;
    this.moved = false;
    this.ask();
  }

  /** A graph that would be too small to read is shown at a readable size, around `node`; a large one as a whole. */
  begin(node) {
    this.fit();
    if (this.nodes.length <= READABLE_MAX && this.scale < READABLE) {
      this.scale = READABLE;
      this.left = this.width / 2 - (this.placed.x[node] + NODE_WIDTH / 2) * this.scale;
      this.left = Math.min(MARGIN, Math.max(this.width - MARGIN - this.placed.width * this.scale, this.left));
      this.top = Math.max(MARGIN, (this.height - this.placed.height * this.scale) / 2);
      if (this.placed.height * this.scale > this.height) this.top = this.height / 2 - this.placed.y[node] * this.scale;
    }
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(ZOOM_MAX, Math.max(ZOOM_MIN, this.scale * factor));
    this.left = x - ((x - this.left) * scale) / this.scale;
    this.top = y - ((y - this.top) * scale) / this.scale;
    this.scale = scale;
    this.moved = true;
    this.ask();
  }

  pan(x, y) {
    this.left += x;
    this.top += y;
    this.moved = true;
    this.ask();
  }

  centre(node) {
    this.scale = Math.max(this.scale, 0.8);
    this.left = this.width / 2 - (this.placed.x[node] + NODE_WIDTH / 2) * this.scale;
    this.top = this.height / 2 - (this.placed.y[node] + NODE_HEIGHT / 2) * this.scale;
    this.moved = true;
    this.ask();
  }

  /** Where a node is on the canvas. */
  spot(node) {
    return [this.left + this.placed.x[node] * this.scale, this.top + this.placed.y[node] * this.scale];
  }

  choose(node) {
    this.chosen = node;
    this.near = node < 0 ? null : new Set(this.edges.flatMap(([parent, child]) => (parent === node ? [child] : child === node ? [parent] : [])));
    this.ask();
  }

  /** The node at a point of the canvas, or -1. */
  at(x, y) {
    if (!this.placed) return -1;
    const worldX = (x - this.left) / this.scale;
    const worldY = (y - this.top) / this.scale;
    const slack = Math.max(0, 6 / this.scale - 6);
    for (let node = this.nodes.length - 1; node >= 0; node -= 1) {
      const left = this.placed.x[node];
      const top = this.placed.y[node];
      if (worldX >= left - slack && worldX <= left + NODE_WIDTH + slack && worldY >= top - slack && worldY <= top + NODE_HEIGHT + slack) return node;
    }
    return -1;
  }

  draw() {
    const { context, placed } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    if (!placed || !this.colours) return;
    context.setTransform(this.ratio * this.scale, 0, 0, this.ratio * this.scale, this.ratio * this.left, this.ratio * this.top);
    const view = { x0: -this.left / this.scale, y0: -this.top / this.scale, x1: (this.width - this.left) / this.scale, y1: (this.height - this.top) / this.scale };
    this.drawEdges(view);
    this.drawNodes(view);
  }

  drawEdges(view) {
    const { context, colours } = this;
    context.lineWidth = Math.max(1, 0.8 / this.scale);
    context.strokeStyle = colours.line;
    context.globalAlpha = this.edges.length > 4000 && this.scale < 0.3 ? 0.35 : 0.9;
    context.beginPath();
    for (const edge of this.edges) this.edgePath(edge, view);
    context.stroke();
    context.globalAlpha = 1;
    if (this.chosen < 0) return;
    context.strokeStyle = colours.accent;
    context.lineWidth = Math.max(1.8, 1.4 / this.scale);
    context.beginPath();
    for (const edge of this.edges) if (edge[0] === this.chosen || edge[1] === this.chosen) this.edgePath(edge, view);
    context.stroke();
  }

  edgePath([parent, child], view) {
    const { x, y } = this.placed;
    const x0 = x[parent] + NODE_WIDTH;
    const y0 = y[parent] + NODE_HEIGHT / 2;
    const x1 = x[child];
    const y1 = y[child] + NODE_HEIGHT / 2;
    if (Math.max(x0, x1) < view.x0 || Math.min(x0, x1) > view.x1 || Math.max(y0, y1) < view.y0 || Math.min(y0, y1) > view.y1) return;
    this.context.moveTo(x0, y0);
    if (this.scale < SHAPES_FROM) this.context.lineTo(x1, y1);
    else {
      const bend = Math.max(20, (x1 - x0) / 2);
      this.context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    }
  }

  drawNodes(view) {
    const { context, placed, colours } = this;
    const groups = Object.fromEntries(TONES.map((tone) => [tone, []]));
    for (let node = 0; node < this.nodes.length; node += 1) {
      if (placed.x[node] > view.x1 || placed.x[node] + NODE_WIDTH < view.x0 || placed.y[node] > view.y1 || placed.y[node] + NODE_HEIGHT < view.y0) continue;
      groups[this.nodes[node].tone].push(node);
    }
    const detailed = this.scale >= SHAPES_FROM;
    for (const [tone, nodes] of Object.entries(groups)) {
      if (!nodes.length) continue;
      context.beginPath();
      for (const node of nodes) {
        if (detailed) context.roundRect(placed.x[node], placed.y[node], NODE_WIDTH, NODE_HEIGHT, 6);
        else context.rect(placed.x[node], placed.y[node], NODE_WIDTH, NODE_HEIGHT);
      }
      // From far away a wash is too pale to tell states apart.
      context.fillStyle = detailed ? colours[tone].wash : colours[tone].ink;
      context.globalAlpha = detailed || !FAINT.includes(tone) ? 1 : 0.45;
      context.fill();
      context.globalAlpha = 1;
      if (!detailed) continue;
      context.strokeStyle = colours[tone].ink;
      context.lineWidth = Math.max(1, 0.7 / this.scale);
      context.stroke();
      this.drawMarks(nodes, tone);
    }
    if (this.scale >= LABELS_FROM) this.drawLabels(groups);
    this.drawChosen();
  }

  drawMarks(nodes, tone) {
    const { context, placed } = this;
    context.strokeStyle = this.colours[tone].ink;
    context.lineWidth = 2;
    context.lineCap = "round";
    context.beginPath();
    for (const node of nodes) markPath(context, this.nodes[node].mark, placed.x[node] + 15, placed.y[node] + NODE_HEIGHT / 2);
    context.stroke();
  }

  drawLabels(groups) {
    const { context, placed, colours } = this;
    context.font = `500 12px ${getComputedStyle(this.canvas).fontFamily}`;
    context.textBaseline = "middle";
    context.fillStyle = colours.ink;
    for (const nodes of Object.values(groups)) {
      for (const node of nodes) context.fillText(this.label(this.nodes[node].label), placed.x[node] + 28, placed.y[node] + NODE_HEIGHT / 2 + 0.5);
    }
  }

  /** The label, cut to the width of a node. */
  label(text) {
    let short = this.labels.get(text);
    if (short !== undefined) return short;
    const room = NODE_WIDTH - 38;
    short = visible(text).slice(0, 40);
    if (this.context.measureText(short).width > room) {
      while (short && this.context.measureText(`${short}…`).width > room) short = short.slice(0, -1);
      short += "…";
    }
    this.labels.set(text, short);
    return short;
  }

  drawChosen() {
    if (this.chosen < 0) return;
    const { context, placed, colours } = this;
    const pad = 3 + 1 / this.scale;
    context.strokeStyle = colours.accent;
    context.lineWidth = Math.max(2.5, 2.5 / this.scale);
    context.beginPath();
    context.roundRect(placed.x[this.chosen] - pad, placed.y[this.chosen] - pad, NODE_WIDTH + 2 * pad, NODE_HEIGHT + 2 * pad, 8);
    context.stroke();
  }
}

/** The shape of a state, 10 wide. */
export function markPath(context, mark, x, y) {
  if (mark === "check") {
    context.moveTo(x - 4, y);
    context.lineTo(x - 1, y + 3.5);
    context.lineTo(x + 4.5, y - 4);
  } else if (mark === "cross") {
    context.moveTo(x - 4, y - 4);
    context.lineTo(x + 4, y + 4);
    context.moveTo(x + 4, y - 4);
    context.lineTo(x - 4, y + 4);
  } else if (mark === "play") {
    context.moveTo(x - 3, y - 4.5);
    context.lineTo(x + 4, y);
    context.lineTo(x - 3, y + 4.5);
    context.closePath();
  } else if (mark === "dash") {
    context.moveTo(x - 4, y);
    context.lineTo(x + 4, y);
  } else if (mark === "clock") {
    context.moveTo(x + 4.5, y);
    context.arc(x, y, 4.5, 0, 7);
    context.moveTo(x, y - 2.5);
    context.lineTo(x, y);
    context.lineTo(x + 2, y + 1.5);
  } else {
    context.moveTo(x + 4, y);
    context.arc(x, y, 4, 0, 7);
  }
}
