// Light or dark: as the system says, until somebody chooses. theme-first.js reads the choice before the first frame.

const STORED = "hall.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
const changed = new EventTarget();

export function theme() {
  return document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
}

export function toggle() {
  document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
  localStorage.setItem(STORED, theme());
  changed.dispatchEvent(new Event("change"));
}

/** Calls when colours change, for what is drawn on a canvas. */
export function onTheme(listener, signal) {
  changed.addEventListener("change", listener, { signal });
  dark.addEventListener("change", listener, { signal });
}
