// A table that is refreshed in place: rows keep their elements, so focus, selection and scroll stay where they are.
// On a narrow screen each row is a card; the roles are stated because CSS takes them from a table shown as blocks.

import { fillKeepingFocus, h } from "./dom.js";

const SKELETON_ROWS = 6;

/** columns: [{ name, label, cell(item), number?, sort?(item), wide?, spare?, first?, tile?, after?(item) }]
 * The first column is the link of the row; `after` stands beside it. On a card, numbers and what
 * is a `tile` stand in a grid. What is `spare` is left out where the others need the room.
 * A column named "actions" stays in view. */
export class Table {
  constructor({ caption, columns, key, href, empty, selectable = null, sort = null }) {
    Object.assign(this, { columns, key, href, empty, selectable, sort });
    this.rows = new Map();
    this.selected = new Map();
    this.body = h("tbody", { role: "rowgroup" });
    this.head = h("thead", { role: "rowgroup" });
    this.table = h("table", { role: "table", class: "table" }, h("caption", { class: "hidden" }, caption), this.head, this.body);
    this.rest = h("div", { class: "table-rest" });
    this.scroll = h("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": caption }, this.table);
    this.node = h("div", { class: "table-box" }, this.scroll, this.rest);
    this.drawHead();
    this.skeleton();
  }

  drawHead() {
    const cells = this.columns.map((column) => this.headCell(column));
    if (this.selectable) {
      const select = (event) => this.selectShown(event.target.checked);
      const all = h("input", { type: "checkbox", "aria-label": "Select all rows shown", "data-key": "all", onchange: select });
      cells.unshift(h("th", { role: "columnheader", class: "check-cell", scope: "col" }, all));
    }
    fillKeepingFocus(this.head, h("tr", { role: "row" }, cells));
    this.all = this.head.querySelector("[data-key=all]");
  }

  headCell(column) {
    const attributes = { role: "columnheader", scope: "col", class: [column.number && "number", column.spare && "spare"].filter(Boolean).join(" ") };
    if (column.name === "actions") return h("th", attributes, h("span", { class: "hidden" }, "Actions"));
    if (!column.sort || !this.sort) return h("th", attributes, column.label);
    const { by, down } = this.sort.now();
    const active = by === column.name;
    attributes["aria-sort"] = active ? (down ? "descending" : "ascending") : "none";
    const sort = () => this.sort.change(column.name, active ? !down : Boolean(column.number));
    return h("th", attributes, h("button", { type: "button", class: "sort", "data-key": `sort-${column.name}`, onclick: sort }, column.label, h("span", { class: "sort-mark", "aria-hidden": "true" }, active ? (down ? "↓" : "↑") : "")));
  }

  skeleton() {
    const width = this.columns.length + (this.selectable ? 1 : 0);
    const row = () => h("tr", { role: "row", class: "skeleton-row" }, Array.from({ length: width }, () => h("td", { role: "cell" }, h("span", { class: "skeleton" }))));
    this.body.replaceChildren(...Array.from({ length: SKELETON_ROWS }, row));
    this.body.setAttribute("aria-busy", "true");
    this.waiting = true;
  }

  /** What is shown belongs to another question: it is dimmed until the answer is there. */
  stale() {
    this.node.classList.add("stale");
  }

  /** Shows these items, in this order. */
  update(items) {
    this.node.classList.remove("stale");
    if (this.waiting) {
      this.body.replaceChildren();
      this.body.removeAttribute("aria-busy");
      this.waiting = false;
    }
    this.items = items;
    const wanted = new Set(items.map((item) => this.key(item)));
    for (const [key, row] of this.rows) {
      if (wanted.has(key)) continue;
      this.leave(row);
      this.rows.delete(key);
    }
    let next = this.body.firstElementChild;
    for (const item of items) {
      const row = this.draw(item);
      if (row === next) next = next.nextElementSibling;
      else this.body.insertBefore(row, next);
    }
    this.scroll.hidden = items.length === 0;
    fillKeepingFocus(this.rest, items.length === 0 ? this.empty() : null);
    if (this.selectable) this.drawSelection();
  }

  /** A row that goes away hands the focus to its neighbour. */
  leave(row) {
    if (row.contains(document.activeElement)) {
      const neighbour = row.nextElementSibling ?? row.previousElementSibling;
      neighbour?.querySelector(".row-link")?.focus({ preventScroll: true });
    }
    row.remove();
  }

  draw(item) {
    const key = this.key(item);
    let row = this.rows.get(key);
    if (!row) {
      row = h("tr", { role: "row" });
      if (this.selectable) row.append(this.checkCell(key));
      for (const column of this.columns) {
        const kinds = [column.number && "number", column.wide && "wide", column.first && "first", column.tile && "tile-cell", column.spare && "spare", column.name === "actions" && "actions"].filter(Boolean).join(" ");
        row.append(h("td", { role: "cell", class: kinds, "data-label": column.label }));
      }
      if (this.href) row.addEventListener("click", (event) => this.openRow(event, row));
      this.rows.set(key, row);
    }
    row.item = item;
    const offset = this.selectable ? 1 : 0;
    this.columns.forEach((column, index) => {
      const content = column.cell(item);
      const link = column.first && this.href ? h("a", { class: "row-link", href: this.href(item), title: typeof content === "string" ? content : null, "data-key": "open" }, content) : content;
      fillKeepingFocus(row.children[index + offset], column.first ? h("span", { class: "first-line" }, link, column.after?.(item)) : link);
    });
    // On a card, one number alone is a line like the others; several stand beside each other.
    const numbers = [...row.children].filter((cell) => cell.matches(".number:not(:empty):not(:has(> .none:only-child))"));
    row.classList.toggle("few-numbers", numbers.length < 2);
    if (this.selectable && this.selected.has(key)) this.selected.set(key, item);
    return row;
  }

  /** The whole row can be clicked, except for what has its own meaning and while text is selected. */
  openRow(event, row) {
    if (event.target.closest("a, button, input, label, summary") || String(getSelection())) return;
    row.querySelector(".row-link")?.click();
  }

  checkCell(key) {
    const box = h("input", { type: "checkbox", class: "row-check", "data-key": "check", "aria-label": "Select this row" });
    box.addEventListener("change", () => {
      if (box.checked) this.selected.set(key, this.rows.get(key).item);
      else this.selected.delete(key);
      this.drawSelection();
      this.selectable(this.selected);
    });
    return h("td", { role: "cell", class: "check-cell" }, box);
  }

  selectShown(checked) {
    for (const item of this.items ?? []) {
      if (checked) this.selected.set(this.key(item), item);
      else this.selected.delete(this.key(item));
    }
    this.drawSelection();
    this.selectable(this.selected);
  }

  clearSelection() {
    this.selected.clear();
    this.drawSelection();
    this.selectable(this.selected);
  }

  drawSelection() {
    let shown = 0;
    for (const [key, row] of this.rows) {
      const checked = this.selected.has(key);
      shown += checked ? 1 : 0;
      row.querySelector(".row-check").checked = checked;
      row.classList.toggle("selected", checked);
    }
    this.all.checked = shown > 0 && shown === this.rows.size;
    this.all.indeterminate = shown > 0 && shown < this.rows.size;
  }
}
