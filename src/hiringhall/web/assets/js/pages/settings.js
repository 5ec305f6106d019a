// Doors, settings with where each comes from, and what people changed.

import { get } from "../api.js";
import { h } from "../dom.js";
import { at, number } from "../format.js";
import { emptyState, filterBar, localDownloads, pageHead, tabs, textFilter } from "../lists.js";
import { may } from "../session.js";
import { Table } from "../table.js";

const DOORS = [
  { name: "dialect", label: "Dialect", first: true, cell: (door) => h("strong", null, door.dialect) },
  { name: "role", label: "For", cell: (door) => door.role || h("span", { class: "none" }, "all") },
  { name: "address", label: "Address", cell: (door) => h("span", { class: "mono data" }, door.address) },
  { name: "connections", label: "Connected", number: true, cell: (door) => number(door.connections) },
];

const SETTINGS = [
  { name: "name", label: "Setting", first: true, cell: (setting) => h("strong", { class: "mono data" }, setting.name) },
  { name: "value", label: "Value", cell: (setting) => h("span", { class: "mono data clip", title: setting.value }, setting.value) },
  { name: "source", label: "From", cell: (setting) => h("span", { class: setting.source === "default" ? "faint" : "tag" }, setting.source) },
  { name: "description", label: "What it does", wide: true, cell: (setting) => h("span", { class: "wrap soft" }, setting.description) },
];

const AUDIT = [
  { name: "at", label: "When", first: true, cell: (line) => at(line.at) },
  { name: "who", label: "Who", cell: (line) => h("span", { class: "data clip" }, line.who, line.role ? h("span", { class: "faint" }, ` ${line.role}`) : null) },
  { name: "what", label: "What", cell: (line) => h("strong", null, line.what) },
  { name: "of", label: "Of", cell: (line) => (line.job ? h("a", { class: "mono", href: `/jobs/${line.job}`, "data-key": "job" }, line.job) : h("span", { class: "data clip" }, line.queue || line.name)) },
  { name: "from", label: "From", cell: (line) => h("span", { class: "mono data faint" }, line.from) },
  { name: "outcome", label: "Outcome", cell: (line) => h("span", { class: `badge tone-${line.outcome === "ok" ? "good" : "bad"}` }, line.outcome) },
];

const PARTS = {
  doors: ["/doors", DOORS, "Doors", () => emptyState("No door is open", "Start the hall with hall serve --door gearman=127.0.0.1:4730."), (door) => `${door.dialect} ${door.role} ${door.address}`],
  settings: ["/settings", SETTINGS, "Settings", () => emptyState("No setting matches", "Change the search."), (setting) => setting.name],
  audit: ["/audit", AUDIT, "Audit log", () => emptyState("Nobody has changed anything yet", "Each change that a person makes here or with the hall command is noted: who, what, when."), (line) => JSON.stringify(line)],
};

export function openSettings(view) {
  view.title("Settings");
  const offered = [["", "Doors"], ...(may("admin") ? [["settings", "Settings"], ["audit", "Audit log"]] : [])];
  const part = tabs(view, "part", "Part", offered);
  const search = textFilter(view, "text", "Search", { search: true, width: "grow" });
  const place = h("div");
  const line = h("div", { class: "list-line" });
  view.main.append(pageHead("Settings", { lead: "How the hall is set up. Settings change in hall.toml, and count from its next start." }), part.node, filterBar(view, [search]), line, place);
  let shown = null;
  let table = null;
  const arrange = () => {
    const wanted = offered.some(([value]) => value === view.query.get("part")) ? view.query.get("part") || "doors" : "doors";
    if (wanted === shown) return;
    shown = wanted;
    const [, columns, caption, empty, key] = PARTS[shown];
    table = new Table({ caption, columns, key, empty });
    line.replaceChildren(h("span", null, caption), localDownloads(shown, () => table.items ?? []));
    place.replaceChildren(table.node);
  };
  arrange();
  const changed = view.queryChanged;
  view.queryChanged = (query) => {
    part.read(query);
    changed(query);
    arrange();
  };
  view.keepFresh(async () => {
    const asked = shown;
    const { items } = await get(PARTS[asked][0], asked === "audit" ? { limit: 1000 } : null, view.signal);
    if (asked !== shown) return;
    const text = (view.query.get("text") ?? "").toLowerCase();
    table.update(text ? items.filter((item) => JSON.stringify(item).toLowerCase().includes(text)) : items);
  });
}
