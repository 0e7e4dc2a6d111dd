// Questions: what an experiment asks besides the choice: yes, no or unsure, or free text. Knows no side.

import { el, freshId } from "./dom.js";

const ANSWERS = [
  ["yes", "Yes"],
  ["no", "No"],
  ["unsure", "Unsure"],
];

export class Questions {
  /** `answers` of a draft, by the question's id; `change` is called after each edit. */
  constructor(questions, answers, change, fields) {
    const nodes = questions.map((question) => {
      const set = (value) => {
        answers[question.id] = value;
        change();
      };
      const { node, control } =
        question.type === "text" ? text(question, answers, set) : yesNo(question, answers, set);
      fields.add(`answers.${question.id}`, control, node);
      return node;
    });
    this.node = el(
      "section",
      { class: "stack", "aria-labelledby": "questions-title" },
      el("h2", { id: "questions-title" }, "Questions"),
      nodes,
    );
  }
}

function text(question, answers, set) {
  const id = freshId("question");
  const control = el("textarea", { id, rows: 2 });
  control.value = answers[question.id] ?? "";
  control.addEventListener("input", () => set(control.value));
  return { control, node: el("div", { class: "field" }, el("label", { for: id }, question.prompt), control) };
}

function yesNo(question, answers, set) {
  const name = freshId("question");
  const inputs = ANSWERS.map(([value]) => {
    const input = el("input", { type: "radio", name, value });
    input.checked = answers[question.id] === value;
    input.addEventListener("change", () => set(value));
    return input;
  });
  const labels = inputs.map((input, index) =>
    el("label", { class: "choice-button small" }, input, el("span", {}, ANSWERS[index][1])),
  );
  return {
    control: inputs[0],
    node: el("fieldset", {}, el("legend", {}, question.prompt), el("div", { class: "choices" }, labels)),
  };
}
