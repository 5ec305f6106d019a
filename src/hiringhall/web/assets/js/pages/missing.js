// A path that no page has.

import { h } from "../dom.js";
import { emptyState, pageHead } from "../lists.js";

export function openMissing(view) {
  view.title("Not found");
  view.main.append(pageHead("Page not found"), h("div", { class: "card" }, emptyState("There is no page at this address", "Choose one at the side, or go to the overview.", h("a", { class: "button", href: "/" }, "Overview"))));
}
