// Composer: where a message is written. Enter sends it, Shift+Enter begins a new line. What is half written
// is kept in this tab. Knows no request.

import { el, freshId } from "./dom.js";

const BYTES_MAX = 128 * 1024;
const NAME_KEY = "onceward.chat.name";
const DRAFT_KEY = "onceward.chat.draft.";
const NAME_CHARACTERS_MAX = 200;

export class Composer {
  #group;
  #id = freshId("composer");
  #text = el("textarea", {
    id: this.#id,
    rows: "1",
    required: true,
    "aria-describedby": `${this.#id}-hint ${this.#id}-error`,
    on: { keydown: (event) => this.#press(event), input: () => this.#changed() },
  });
  #name = el("input", { id: `${this.#id}-name`, autocomplete: "nickname", maxlength: NAME_CHARACTERS_MAX });
  #error = el("p", { id: `${this.#id}-error`, class: "field-error", role: "alert" });

  /** `send(name, text)` hears what is to be said; `hint` says what calls the agent. */
  constructor(group, hint, send) {
    this.#group = group;
    this.send = send;
    this.#name.value = recall(localStorage, NAME_KEY) || "user";
    this.#name.addEventListener("change", () => keep(localStorage, NAME_KEY, this.#name.value.trim()));
    this.#text.value = recall(sessionStorage, DRAFT_KEY + group);
    this.node = el(
      "form",
      { class: "composer", on: { submit: (event) => this.#submit(event) } },
      el("div", { class: "field" }, el("label", { for: this.#id }, "Message"), this.#text),
      el("button", { class: "main" }, "Send"),
      el("div", { class: "name" }, el("label", { for: this.#name.id }, "Your name"), this.#name),
      el(
        "p",
        { id: `${this.#id}-hint`, class: "hint" },
        el("span", { class: "keys" }, "Enter sends, Shift+Enter begins a new line. "),
        hint,
      ),
      this.#error,
    );
  }

  focus() {
    this.#text.focus();
    this.#grow();
  }

  /** Put a text back, before whatever is being written. */
  takeBack(text) {
    this.#text.value = this.#text.value ? `${text}\n${this.#text.value}` : text;
    this.#changed();
    this.focus();
  }

  #press(event) {
    // Enter also ends the choice of a character in some writing systems.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.node.requestSubmit();
  }

  #submit(event) {
    event.preventDefault();
    const text = this.#text.value;
    const size = new TextEncoder().encode(text).length;
    if (!text.trim()) return;
    if (size > BYTES_MAX) {
      const tooLong = `This has ${Math.ceil(size / 1024)} kB, and a message may have ${BYTES_MAX / 1024}.`;
      this.#tell(`${tooLong} Send it in parts, or put it into a file.`);
      return;
    }
    this.#text.value = "";
    this.#changed();
    this.send(this.#name.value.trim() || "user", text);
    this.#text.focus();
  }

  #changed() {
    this.#tell("");
    keep(sessionStorage, DRAFT_KEY + this.#group, this.#text.value);
    this.#grow();
  }

  #tell(problem) {
    this.#error.textContent = problem;
    this.#text.setAttribute("aria-invalid", problem !== "");
  }

  /** As many lines as are written, up to what the sheet allows. */
  #grow() {
    this.#text.rows = 1;
    const line = Number.parseFloat(getComputedStyle(this.#text).lineHeight);
    const spare = this.#text.scrollHeight - this.#text.clientHeight;
    if (spare > 0 && line > 0) this.#text.rows = 1 + Math.ceil(spare / line);
  }
}

function recall(storage, key) {
  try {
    return storage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

function keep(storage, key, value) {
  try {
    if (value) storage.setItem(key, value);
    else storage.removeItem(key);
  } catch {
    // Then it is there until the page closes.
  }
}
