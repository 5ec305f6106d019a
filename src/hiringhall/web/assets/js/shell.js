// The frame around the pages: navigation, search, theme, who is logged in, and the banner when somebody is away.

import { fill, fillKeepingFocus, h } from "./dom.js";
import { icon } from "./icons.js";
import { PLACES, showHelp } from "./keys.js";
import * as live from "./live.js";
import { go } from "./router.js";
import { session } from "./session.js";
import { onTheme, theme, toggle } from "./theme.js";
import { totals } from "./totals.js";

const AWAY_MS = 1200;

let awayTimer = 0;

function navigation() {
  return h(
    "nav",
    { class: "nav", id: "nav", "aria-label": "Pages" },
    h("ul", null, PLACES.map(([key, path, name]) => h("li", null, h("a", { href: path, class: "nav-link", title: `g ${key}`, "data-place": path }, icon(name.toLowerCase()), name)))),
  );
}

function searchForm() {
  const input = h("input", { id: "search", type: "search", class: "input search-input", placeholder: "Job id, key or text", "aria-label": "Search jobs by id, key or text", autocomplete: "off", spellcheck: "false" });
  const submit = (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!text) return;
    input.value = "";
    input.blur();
    go(/^\d{6,}$/.test(text) ? `/jobs/${text}` : `/jobs?text=${encodeURIComponent(text)}`);
  };
  return h("form", { class: "search", role: "search", onsubmit: submit }, icon("search"), input, h("kbd", { "aria-hidden": "true" }, "/"));
}

function themeButton() {
  const button = h("button", { type: "button", class: "icon-button", onclick: toggle });
  const draw = () => {
    const other = theme() === "dark" ? "light" : "dark";
    button.setAttribute("aria-label", `Use the ${other} theme`);
    button.title = `Use the ${other} theme (t)`;
    fill(button, icon(other === "dark" ? "moon" : "sun"));
  };
  draw();
  onTheme(draw);
  return button;
}

async function logOut() {
  await fetch("/logout", { method: "POST", headers: { "X-Requested-By": "dashboard" } });
  location.assign("/login");
}

function footer() {
  const who = h("div", { class: "who" });
  const keys = h("button", { type: "button", class: "icon-button", "aria-label": "Keyboard shortcuts", title: "Keyboard shortcuts (?)", onclick: showHelp }, icon("keyboard"));
  return { who, node: h("div", { class: "side-foot" }, who, h("div", { class: "side-tools" }, themeButton(), keys)) };
}

export function drawWho(place) {
  const hall = session.hall;
  if (!hall) return;
  const local = session.name === "local";
  fillKeepingFocus(
    place,
    h("div", { class: "who-hall", title: hall.name }, hall.name || "hiringhall"),
    h("div", { class: "who-person" }, `${session.name}, ${session.role} · ${hall.version}`),
    local ? null : h("button", { type: "button", class: "quiet-link", "data-key": "logout", onclick: logOut }, "Log out"),
  );
}

/** Says who is away, and that this mends itself. A short interruption is not worth a banner. */
function drawBanner(banner, link) {
  clearTimeout(awayTimer);
  const away = link.web === false || link.hall === false;
  if (!away) {
    if (banner.firstChild) fill(banner);
    document.body.classList.remove("away");
    return;
  }
  awayTimer = setTimeout(() => {
    document.body.classList.add("away");
    const text = link.web === false ? "The web process does not answer." : "The hall does not answer.";
    const rest = " What you see is what was known last. This page goes on by itself as soon as it is back.";
    fill(banner, h("div", { class: "banner-line" }, h("span", { class: "spinner", "aria-hidden": "true" }), h("span", null, h("strong", null, text), rest)));
  }, AWAY_MS);
}

/** On a narrow screen the navigation covers the content, which cannot be reached meanwhile. */
function openMenu(open) {
  document.body.classList.toggle("nav-open", open);
  document.querySelector(".menu-button").setAttribute("aria-expanded", String(open));
  document.querySelector(".content").inert = open;
}

export function markPlace(path) {
  for (const link of document.querySelectorAll(".nav-link")) {
    const place = link.dataset.place;
    const here = place === "/" ? path === "/" : path === place || path.startsWith(`${place}/`) || (place === "/flows" && path === "/graph");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  openMenu(false);
}

export function build() {
  const main = h("main", { id: "main", class: "main", tabindex: "-1" });
  const banner = h("div", { class: "banner", role: "status", "aria-live": "polite" });
  const foot = footer();
  const menu = h("button", { type: "button", class: "icon-button menu-button", "aria-label": "Pages", "aria-expanded": "false", "aria-controls": "side" }, icon("menu"));
  menu.addEventListener("click", () => openMenu(!document.body.classList.contains("nav-open")));
  const brand = () => h("a", { class: "brand", href: "/", "aria-label": "hiringhall, overview" }, h("span", { class: "brand-mark", "aria-hidden": "true" }), h("span", { class: "brand-name" }, "hiringhall"));
  document.body.append(
    h("a", { class: "skip", href: "#main" }, "Skip to content"),
    h("header", { class: "top" }, menu, brand(), totals({ short: true })),
    h("aside", { class: "side", id: "side", "aria-label": "Navigation" }, brand(), searchForm(), navigation(), totals(), foot.node),
    h("div", { class: "content" }, banner, main),
    h("div", { id: "notes", class: "notes", role: "status", "aria-live": "polite" }),
  );
  live.on("link", (link) => drawBanner(banner, link));
  return { main, who: foot.who };
}
