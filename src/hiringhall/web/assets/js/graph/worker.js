// Computes in a thread of its own, so that the page stays fluent.

import { blockers, layout } from "./layout.js";

addEventListener("message", ({ data }) => {
  if (data.what === "layout") {
    const placed = layout(data.count, data.edges);
    postMessage({ what: "layout", ticket: data.ticket, ...placed }, [placed.x.buffer, placed.y.buffer]);
  } else {
    postMessage({ what: "blockers", ticket: data.ticket, found: blockers(data.states, data.edges) });
  }
});
