// Logs in with a token. The token goes to the server only; the browser keeps a cookie that scripts cannot read.

import { h } from "../dom.js";
import { field } from "../dialogs.js";

/** Where to go afterwards: a path of this dashboard, nothing else. */
export function safeNext(text) {
  const target = new URL(text || "/", location.origin);
  return target.origin === location.origin && target.pathname !== "/login" ? target.pathname + target.search : "/";
}

export function openLogin(body) {
  document.title = "Log in · hiringhall";
  body.classList.add("login");
  const token = h("input", { type: "password", name: "token", class: "input", autocomplete: "current-password", required: true, spellcheck: "false" });
  const trouble = h("p", { class: "form-trouble", role: "alert" });
  const button = h("button", { type: "submit", class: "button button-accent" }, "Log in");
  const submit = async (event) => {
    event.preventDefault();
    trouble.replaceChildren();
    button.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch("/login", {
        method: "POST",
        headers: { "Content-Type": "application/json", Accept: "application/json", "X-Requested-By": "dashboard" },
        body: JSON.stringify({ token: token.value.trim() }),
      });
      if (answer.ok) {
        location.assign(safeNext(new URLSearchParams(location.search).get("next")));
        return;
      }
      const problem = await answer.json().catch(() => ({}));
      const text = answer.status === 401 ? "This token is not valid. It may be mistyped, expired or revoked." : problem.detail || problem.title || `The server answered ${answer.status}.`;
      trouble.append(h("span", null, text));
      token.select();
    } catch {
      trouble.append(h("span", null, "The web process does not answer. Try again in a moment."));
    } finally {
      button.removeAttribute("aria-busy");
    }
  };
  body.append(
    h(
      "main",
      { class: "login-box card" },
      h("div", { class: "brand" }, h("span", { class: "brand-mark", "aria-hidden": "true" }), "hiringhall"),
      h("h1", null, "Log in"),
      h("form", { onsubmit: submit }, field("Token", token, "It begins with hall_. Whoever runs the hall makes one with: hall token add NAME --role viewer"), trouble, h("div", { class: "dialog-buttons" }, button)),
    ),
  );
  token.focus();
}
