// Token: asks the person for the token of a server that does not hand it out (one that other machines
// can reach). Knows neither what the token is for nor where it is kept.

import { button, el, freshId } from "./dom.js";

/** The person closed the question without an answer. */
export class NoToken extends Error {
  constructor() {
    super("Nothing was sent, because this server needs its token.");
    this.fix = "Try again, and paste the token that the server printed when it started.";
  }
}

let open = null;
let answer = null;

/** Open the question; the same one for everybody who asks while it is open. */
export function askForToken() {
  open ??= ask().finally(() => {
    open = answer = null;
  });
  return open;
}

/** Answer the open question, if there is one; return whether there was. */
export function answerToken(token) {
  answer?.(token);
  return answer !== null;
}

function ask() {
  const id = freshId("token");
  const field = el("input", {
    id,
    type: "password",
    autocomplete: "off",
    required: true,
    "aria-describedby": `${id}-hint`,
  });
  const form = el(
    "form",
    { method: "dialog", class: "stack" },
    el("h2", { id: `${id}-title` }, "This server asks for its token"),
    el("label", { for: id }, "Token"),
    field,
    el(
      "p",
      { id: `${id}-hint`, class: "hint" },
      "Run onceward token show as the user who runs the server, or copy it from the server's terminal. Each tab asks again after the server is restarted.",
    ),
    el(
      "p",
      { class: "row" },
      el("button", { class: "main" }, "Use this token"),
      button("Not now", () => dialog.close()),
    ),
  );
  const dialog = el("dialog", { "aria-labelledby": `${id}-title` }, form);
  document.body.append(dialog);
  return new Promise((resolve, reject) => {
    let given = null;
    form.addEventListener("submit", () => {
      given = field.value.trim() || null;
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (given === null) reject(new NoToken());
      else resolve(given);
    });
    answer = (token) => {
      given = token;
      dialog.close();
    };
    dialog.showModal();
  });
}
