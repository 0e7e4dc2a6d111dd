// Verdict: which side is better, a tie, or none good: the outcomes as big radio buttons with their key
// printed on them. Knows neither runs nor the server.

import { el, freshId, keycap } from "./dom.js";

/** Outcomes for so many sides: `{value, text, key}`, value being a side's index, "tie" or "both_bad". */
export function outcomesFor(letters, needsWinner = false) {
  const bad = letters.length === 2 ? "Both bad" : "All bad";
  const best = letters.length === 2 ? "better" : "best";
  const all = [
    ...letters.map((letter, index) => ({ value: String(index), text: `${letter} ${best}` })),
    ...(needsWinner
      ? []
      : [
          { value: "tie", text: "Tie" },
          { value: "both_bad", text: bad },
        ]),
  ];
  // After 9 comes 0; a tenth choice and more have no key.
  return all.map((each, index) => ({
    ...each,
    key: index < 9 ? String(index + 1) : index === 9 ? "0" : null,
  }));
}

export class Verdict {
  #inputs = new Map();
  #error = el("p", { id: "verdict-error", class: "field-error", hidden: true });

  /** `change` hears the value that was chosen; with `needsWinner` it is a side's. */
  constructor(letters, value, change, needsWinner = false) {
    this.outcomes = outcomesFor(letters, needsWinner);
    const name = freshId("verdict");
    const choices = this.outcomes.map(({ value: each, text, key }) => {
      const input = el("input", { type: "radio", name, value: each, "aria-keyshortcuts": key });
      input.checked = each === value;
      input.addEventListener("change", () => {
        this.#error.hidden = true;
        change(each);
      });
      this.#inputs.set(each, input);
      return el("label", { class: "choice-button" }, input, el("span", {}, text), key && keycap(key));
    });
    this.node = el(
      "fieldset",
      { id: "verdict", class: "verdict", "aria-describedby": "verdict-error" },
      el("legend", {}, letters.length === 2 ? "Which is better?" : "Which is best?"),
      this.#error,
      el("div", { class: "choices" }, choices),
    );
  }

  choose(value) {
    const input = this.#inputs.get(value);
    input.checked = true;
    input.dispatchEvent(new Event("change"));
  }

  get value() {
    return [...this.#inputs].find(([, input]) => input.checked)?.[0] ?? null;
  }

  /** The first control, for errors that the server finds in it. */
  get control() {
    return this.#inputs.values().next().value;
  }

  /** Say that a choice is missing, and go there. */
  ask() {
    this.#error.textContent = "⚠ Not submitted yet: choose one of these first.";
    this.#error.hidden = false;
    this.control.focus();
  }
}
