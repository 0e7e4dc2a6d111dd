// Keys: single keys that do what a control on the page does. Ignored in fields, with modifiers and
// under a dialog; can be switched off; `?` lists them. Knows no page: a page brings its own list.

import { keep, recall } from "./drafts.js";
import { button, el, keycap, toggle } from "./dom.js";

const TYPING =
  "textarea, select, [contenteditable], input:not([type=radio], [type=checkbox], [type=range], [type=button])";
/** Here the browser already has a meaning for Space and Enter. */
const ACTIVE = "a[href], button, summary, select, input[type=checkbox]";

export class Keys {
  #list;
  #on = recall("keys") !== "off";
  #taken = new Set();
  #dialog;

  /** `list` holds `{key, says, run, repeats?}`; key as in KeyboardEvent, letters in lower case. */
  constructor(list) {
    this.#list = list;
    document.addEventListener("keydown", (event) => this.#press(event));
    // A video that has the focus acts when the key comes up; what was done once is not undone then.
    const rise = (event) => this.#taken.delete(event.key) && event.preventDefault();
    document.addEventListener("keyup", rise, { capture: true });
    document.body.classList.toggle("no-keys", !this.#on);
    this.#dialog = this.#help();
    document.body.append(this.#dialog);
    this.node = el(
      "p",
      { class: "keys-line" },
      toggle("Keys", this.#on, (on) => this.#switch(on), { title: "Single-key shortcuts on or off" }),
      " ",
      button(["Which keys? ", keycap("?")], () => this.#dialog.showModal(), { "aria-keyshortcuts": "?" }),
    );
  }

  #switch(on) {
    this.#on = on;
    keep("keys", on ? "on" : "off");
    document.body.classList.toggle("no-keys", !on);
  }

  #press(event) {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return;
    if (document.querySelector("dialog[open]")) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (event.key === "Escape" && target.matches(TYPING)) {
      target.blur();
      return;
    }
    if (!this.#on || target.matches(TYPING)) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (event.shiftKey && key !== "?") return;
    if ((key === " " || key === "Enter") && target.closest(ACTIVE)) return;
    if (key === " " && target.matches("input[type=radio]")) return;
    const found =
      key === "?" ? { run: () => this.#dialog.showModal() } : this.#list.find((each) => each.key === key);
    if (!found || (event.repeat && !found.repeats)) return;
    event.preventDefault();
    this.#taken.add(event.key);
    found.run();
  }

  #help() {
    const rows = [
      ...this.#list,
      { key: "?", says: "This list" },
      { key: "Escape", says: "Leave a field; close this list" },
    ];
    const names = { " ": "Space", Escape: "Esc" };
    const table = el(
      "table",
      {},
      el(
        "thead",
        {},
        el("tr", {}, el("th", { scope: "col" }, "Key"), el("th", { scope: "col" }, "What it does")),
      ),
      el(
        "tbody",
        {},
        rows.map(({ key, says }) =>
          el(
            "tr",
            {},
            el(
              "th",
              { scope: "row" },
              el("kbd", {}, names[key] ?? (key.length === 1 ? key.toUpperCase() : key)),
            ),
            el("td", {}, says),
          ),
        ),
      ),
    );
    const close = button("Close", () => dialog.close(), { class: "main" });
    const dialog = el(
      "dialog",
      { "aria-labelledby": "keys-title" },
      el("h2", { id: "keys-title" }, "Keys"),
      el(
        "p",
        { class: "hint" },
        "They work outside of fields and without Ctrl, Alt or Shift. The button “Keys” switches them off.",
      ),
      table,
      close,
    );
    return dialog;
  }
}

/** The keys of videos, for a list of keys; none without a video. */
export function playingKeys(transport) {
  if (transport.isEmpty) return [];
  return [
    { key: " ", says: "Play or pause", run: () => transport.playOrPause() },
    { key: "k", says: "Pause", run: () => transport.pause() },
    { key: "j", says: "Back 5 seconds", run: () => transport.back(), repeats: true },
    { key: "l", says: "Forward 5 seconds", run: () => transport.forward(), repeats: true },
  ];
}
