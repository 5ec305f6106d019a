// Places the nodes of a graph in layers, left to right. Pure: indices in, coordinates out; the same input gives the same picture.
// Layer: the longest path from a root. Order within a layer: barycentres, swept a few times. A layer that is much
// taller than the picture is wide is wrapped into several columns.

export const NODE_WIDTH = 148;
export const NODE_HEIGHT = 30;
const GAP_X = 52;
const GAP_Y = 12;
const WRAP_GAP = 14;
const SWEEPS = 6;

/** Children and parents of each node as arrays of indices. Edges that point outside are ignored. */
export function neighbours(count, edges) {
  const children = Array.from({ length: count }, () => []);
  const parents = Array.from({ length: count }, () => []);
  for (const [parent, child] of edges) {
    if (parent === child || !children[parent] || !children[child]) continue;
    children[parent].push(child);
    parents[child].push(parent);
  }
  return { children, parents };
}

/** The longest path to each node. The hall refuses cycles; a node of one would get what is known of it. */
export function layersOf(count, { children, parents }) {
  const layer = new Int32Array(count);
  const left = parents.map((list) => list.length);
  let ready = [];
  for (let node = 0; node < count; node += 1) if (left[node] === 0) ready.push(node);
  while (ready.length) {
    const next = [];
    for (const node of ready) {
      for (const child of children[node]) {
        if (layer[child] < layer[node] + 1) layer[child] = layer[node] + 1;
        left[child] -= 1;
        if (left[child] === 0) next.push(child);
      }
    }
    ready = next;
  }
  return layer;
}

function sweep(order, position, near) {
  for (const nodes of order) {
    const key = new Map();
    nodes.forEach((node, index) => {
      const list = near[node];
      let sum = 0;
      for (const other of list) sum += position[other];
      key.set(node, list.length ? sum / list.length : position[node] ?? index);
    });
    nodes.sort((a, b) => key.get(a) - key.get(b) || a - b);
    // Positions are relative to the size of the layer, so that layers of different size compare.
    nodes.forEach((node, index) => (position[node] = (index + 0.5) / nodes.length));
  }
}

/** { x, y: Float32Array, width, height } */
export function layout(count, edges) {
  const near = neighbours(count, edges);
  const layer = layersOf(count, near);
  const order = [];
  for (let node = 0; node < count; node += 1) (order[layer[node]] ??= []).push(node);
  const position = new Float64Array(count);
  for (const nodes of order) nodes.forEach((node, index) => (position[node] = (index + 0.5) / nodes.length));
  for (let round = 0; round < SWEEPS; round += 1) {
    sweep(order, position, near.parents);
    sweep([...order].reverse(), position, near.children);
  }
  sweep(order, position, near.parents);

  const rows = Math.max(12, Math.ceil(Math.sqrt(count) * 1.7));
  const x = new Float32Array(count);
  const y = new Float32Array(count);
  const tallest = Math.min(rows, Math.max(1, ...order.map((nodes) => nodes.length)));
  let left = 0;
  let width = 0;
  for (const nodes of order) {
    const columns = Math.ceil(nodes.length / rows);
    const tall = Math.ceil(nodes.length / columns);
    const top = ((tallest - tall) / 2) * (NODE_HEIGHT + GAP_Y);
    nodes.forEach((node, index) => {
      x[node] = left + (index % columns) * (NODE_WIDTH + WRAP_GAP);
      y[node] = top + Math.floor(index / columns) * (NODE_HEIGHT + GAP_Y);
    });
    width = left + columns * NODE_WIDTH + (columns - 1) * WRAP_GAP;
    left = width + GAP_X;
  }
  return { x, y, width, height: tallest * (NODE_HEIGHT + GAP_Y) - GAP_Y };
}

/** What holds up the rest: nodes that have not succeeded while all their parents have, with how many
 * unfinished nodes come after each. Most first. */
export function blockers(states, edges, most = 50) {
  const count = states.length;
  const { children, parents } = neighbours(count, edges);
  const open = (node) => states[node] !== "done";
  const found = [];
  for (let node = 0; node < count; node += 1) {
    if (open(node) && children[node].some(open) && !parents[node].some(open)) found.push(node);
  }
  const seen = new Int32Array(count).fill(-1);
  const counted = found.slice(0, 400).map((node) => {
    let after = 0;
    const stack = [node];
    seen[node] = node;
    while (stack.length) {
      for (const child of children[stack.pop()]) {
        if (seen[child] === node || !open(child)) continue;
        seen[child] = node;
        after += 1;
        stack.push(child);
      }
    }
    return { node, after };
  });
  const weight = { failed: 3, cancelled: 2, backoff: 1 };
  counted.sort((a, b) => (weight[states[b.node]] ?? 0) - (weight[states[a.node]] ?? 0) || b.after - a.after || a.node - b.node);
  return counted.slice(0, most);
}
