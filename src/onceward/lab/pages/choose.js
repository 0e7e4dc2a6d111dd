// Choose: the runs that were ticked for a comparison, and the form that makes an experiment of them. The
// first one ticked is the baseline. Knows not how runs are listed.

import { post } from "./api.js";
import { comparePage, nameOf } from "./cards.js";
import { button, el, fill, freshId } from "./dom.js";
import { Fields } from "./fields.js";
import { newId } from "./ids.js";
import { isPassing, why } from "./patience.js";
import { plural, said } from "./words.js";

export class Choice {
  #chosen = [];
  #questions = [];
  #fields = new Fields();
  #changed;
  #sides = el("ol", { class: "chosen" });
  #asked = el("div", { class: "stack" });
  #problem = el("p", { class: "field-error", role: "alert", hidden: true });
  /** What was sent last without a final answer, and its id: trying again makes one comparison. */
  #sent = null;

  constructor(changed) {
    this.#changed = changed;
    this.count = el("h2", { id: "choice-title" });
    this.name = field("Name", "optional, shown to whoever judges", "input");
    this.hypothesis = field(
      "Hypothesis",
      "optional, hidden from whoever judges until asked for",
      "textarea",
      { rows: 2 },
    );
    this.#fields.add("name", this.name.control);
    this.#fields.add("hypothesis", this.hypothesis.control);
    this.submit = el("button", { class: "main", id: "compare" }, "Compare");
    const form = el(
      "form",
      { class: "stack choice", novalidate: true, "aria-labelledby": "choice-title" },
      this.count,
      this.#sides,
      el(
        "details",
        {},
        el("summary", {}, "Name, hypothesis, questions"),
        el(
          "div",
          { class: "stack" },
          this.name.node,
          this.hypothesis.node,
          this.#asked,
          button("Add a question", () => this.#ask()),
        ),
      ),
      this.#problem,
      el(
        "p",
        { class: "row" },
        this.submit,
        button("Clear the selection", () => this.clear()),
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#create();
    });
    this.node = el("div", { class: "choosing", hidden: true }, form);
  }

  /** 0 for the baseline, 1 and more for variants, -1 when not chosen. */
  place(runId) {
    return this.#chosen.findIndex((each) => each.runId === runId);
  }

  toggle(run) {
    const at = this.place(run.runId);
    if (at >= 0) this.#chosen.splice(at, 1);
    else this.#chosen.push({ runId: run.runId, name: nameOf(run), label: "" });
    this.#draw();
  }

  clear() {
    this.#chosen = [];
    this.#draw();
  }

  #draw() {
    this.node.hidden = this.#chosen.length === 0;
    this.count.textContent = `Compare ${plural(this.#chosen.length, "run")}`;
    this.submit.disabled = this.#chosen.length < 2;
    this.submit.title = this.#chosen.length < 2 ? "Tick one more run" : "";
    fill(
      this.#sides,
      this.#chosen.map((each, index) => this.#side(each, index)),
    );
    if (this.#chosen.length === 1)
      this.#sides.append(el("li", { class: "hint" }, "Tick at least one more run."));
    this.#changed();
  }

  #side(each, index) {
    if (index === 0) return el("li", {}, el("strong", {}, "Baseline: "), each.name);
    const id = freshId("label");
    const label = el("input", {
      id,
      type: "text",
      placeholder: "label for the results, optional",
      "aria-label": `Label of variant ${index}, ${each.name}`,
    });
    label.value = each.label;
    label.addEventListener("input", () => (each.label = label.value));
    this.#fields.add(`variants[${index - 1}].label`, label);
    return el(
      "li",
      {},
      el("label", { for: id }, el("strong", {}, `Variant ${index}: `), each.name),
      " ",
      label,
    );
  }

  #ask() {
    const question = { prompt: "", type: "yes_no_unsure" };
    this.#questions.push(question);
    const number = this.#questions.length;
    const prompt = field(`Question ${number}`, "", "input");
    const type = el(
      "select",
      { "aria-label": `Kind of question ${number}` },
      el("option", { value: "yes_no_unsure" }, "yes, no, unsure"),
      el("option", { value: "text" }, "text"),
    );
    prompt.control.addEventListener("input", () => (question.prompt = prompt.control.value));
    type.addEventListener("change", () => (question.type = type.value));
    this.#asked.append(el("div", { class: "row" }, prompt.node, type));
    prompt.control.focus();
  }

  #body() {
    const [baseline, ...variants] = this.#chosen;
    const text = (control) => control.value.trim() || undefined;
    const questions = this.#questions
      .filter((each) => each.prompt.trim())
      .map((each, index) => ({ id: `q${index + 1}`, prompt: each.prompt.trim(), type: each.type }));
    return {
      name: text(this.name.control),
      hypothesis: text(this.hypothesis.control),
      baselineRunId: baseline.runId,
      variants: variants.map(({ runId, label }) => ({ runId, label: label.trim() || undefined })),
      questions: questions.length ? questions : undefined,
    };
  }

  async #create() {
    this.#fields.clear();
    this.#problem.hidden = true;
    this.submit.disabled = true;
    try {
      const body = JSON.stringify(this.#body());
      if (this.#sent?.body !== body) this.#sent = { body, id: newId() };
      const { experimentId } = await post("/api/experiments", body, this.#sent.id);
      this.#sent = null;
      location.assign(comparePage(experimentId));
    } catch (error) {
      this.submit.disabled = false;
      if (this.#fields.show(error)) return;
      this.#problem.textContent = isPassing(error)
        ? `⚠ No answer from the server: ${why(error)}. Try again.`
        : `⚠ ${said(error)}`;
      this.#problem.hidden = false;
    }
  }
}

function field(title, hint, tag, props = {}) {
  const id = freshId("field");
  const control = el(tag, { id, ...props });
  return {
    control,
    node: el(
      "div",
      { class: "field" },
      el("label", { for: id }, title, hint && el("span", { class: "hint" }, ` ${hint}`)),
      control,
    ),
  };
}
