// Questions and short notes. A question is a modal dialog; the focus returns to where it was.

import { Problem } from "./api.js";
import { focusKey, h } from "./dom.js";

const NOTE_MS = 6000;

/** Shows a note at the edge of the page; a screen reader reads it. */
export function note(text, tone = "good") {
  const region = document.getElementById("notes");
  const one = h("div", { class: `note tone-${tone}` }, h("span", null, text));
  one.append(h("button", { type: "button", class: "icon-button", "aria-label": "Dismiss", onclick: () => one.remove() }, "×"));
  region.append(one);
  setTimeout(() => one.remove(), tone === "bad" ? NOTE_MS * 2 : NOTE_MS);
}

export function noteProblem(error) {
  if (!(error instanceof Problem)) throw error;
  note(error.message, "bad");
}

/** Runs an action of a button: the button is busy meanwhile, and what fails is said. */
export async function act(button, action) {
  if (button.getAttribute("aria-busy") === "true") return;
  button.setAttribute("aria-busy", "true");
  try {
    await action();
  } catch (error) {
    noteProblem(error);
  } finally {
    button.removeAttribute("aria-busy");
  }
}

/** A button that acts, or that is not there for whom it is not meant. */
export function actionButton(label, action, attributes = {}) {
  const button = h("button", { type: "button", class: "button", ...attributes }, label);
  button.addEventListener("click", () => act(button, action));
  return button;
}

/** Where the focus is now, as a function that brings it back. Its element may have been drawn anew meanwhile. */
function rememberFocus() {
  const focused = document.activeElement;
  const around = [];
  for (let one = focused?.parentElement; one; one = one.parentElement) around.push(one);
  return () => {
    if (focused?.isConnected) focused.focus({ preventScroll: true });
    else focusKey(around.find((one) => one.isConnected) ?? document.body, focused?.dataset.key);
  };
}

/** Opens a dialog; resolves with what `submit` answers, or null if it was closed. */
export function ask({ title, body, confirm, tone = "accent", submit = () => true }) {
  return new Promise((resolve) => {
    let answer = null;
    const restoreFocus = rememberFocus();
    const trouble = h("p", { class: "form-trouble", role: "alert" });
    const yes = h("button", { type: "submit", class: `button button-${tone}`, "data-key": "confirm" }, confirm);
    const no = h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Back");
    const form = h("form", { method: "dialog", class: "dialog-form" }, h("h2", { id: "dialog-title" }, title), body, trouble, h("div", { class: "dialog-buttons" }, no, yes));
    const dialog = h("dialog", { class: "dialog", "aria-labelledby": "dialog-title" }, form);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      yes.setAttribute("aria-busy", "true");
      try {
        answer = await submit(new FormData(form));
        dialog.close();
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        trouble.textContent = "";
        trouble.append(h("span", null, error.message));
      } finally {
        yes.removeAttribute("aria-busy");
      }
    });
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      restoreFocus();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
    (form.querySelector("input, textarea, select") ?? yes).focus();
  });
}

/** Asks for a yes. */
export function confirmed(title, text, confirm, tone = "accent") {
  return ask({ title, body: h("p", null, text), confirm, tone });
}

/** A labelled input of a form. */
export function field(label, input, hint) {
  const id = `field-${input.name}`;
  input.id = id;
  if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
  return h("div", { class: "field" }, h("label", { for: id }, label), input, hint && h("p", { class: "hint", id: `${id}-hint` }, hint));
}
