// The icons of the dashboard, drawn here: lines in a square of 20.

import { svg } from "./dom.js";

const PATHS = {
  overview: "M3 11l4-4l3 3l6-6M3 16.5h14",
  queues: "M3 5h14M3 10h14M3 15h9",
  jobs: "M4 6.5h12v9H4zM7.5 6.5V4h5v2.5M4 10.5h12",
  flows: "M4 5.5h4v3H4zM12 3.5h4v3h-4zM12 12.5h4v3h-4zM8 7l4-2M8 7.5l4 6",
  workers: "M10 4a2.8 2.8 0 1 1 0 5.6a2.8 2.8 0 0 1 0-5.6zM4 16.5c.4-3.3 2.8-5 6-5s5.6 1.7 6 5",
  schedules: "M10 3.5a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13zM10 6.5V10l2.5 1.8",
  auctions: "M11 3.5l5 5M8.5 6l5 5M12.2 4.8l-2.5 2.5l3 3l2.5-2.5zM9.8 9.2L4 15M3.5 17h7",
  history: "M4 4v4h4M4.3 8a6.3 6.3 0 1 1-.6 3M10 7v3.5l2.3 1.3",
  settings: "M3 6h7M14 6h3M12 4a2 2 0 1 1 0 4a2 2 0 0 1 0-4zM3 14h3M10 14h7M8 12a2 2 0 1 1 0 4a2 2 0 0 1 0-4z",
  search: "M9 4a5 5 0 1 1 0 10a5 5 0 0 1 0-10zM12.8 12.8L16.5 16.5",
  menu: "M3 6h14M3 10h14M3 14h14",
  sun: "M10 6.8a3.2 3.2 0 1 1 0 6.4a3.2 3.2 0 0 1 0-6.4zM10 2.5v1.5M10 16v1.5M2.5 10H4M16 10h1.5M4.7 4.7l1 1M14.3 14.3l1 1M4.7 15.3l1-1M14.3 5.7l1-1",
  moon: "M16 11.8A6.5 6.5 0 0 1 8.2 4A6.5 6.5 0 1 0 16 11.8z",
  keyboard: "M2.5 6h15v8.5h-15zM5.5 9h.1M8.5 9h.1M11.5 9h.1M14.5 9h.1M6.5 12h7",
};

export function icon(name) {
  return svg("svg", { viewBox: "0 0 20 20", class: "icon", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}
