// Rating: what a person says of one run: eight ratings that may stay unset, notes, tags. The server
// decides what is acceptable; this only refuses what is not a number at all.

import { button, el, freshId } from "./dom.js";

export const ASPECTS = ["overall", "hook", "pacing", "script", "visuals", "motion", "captions", "sync"];
const HINTS = {
  overall: "all together",
  hook: "the first seconds",
  pacing: "its tempo",
  script: "what is said",
  visuals: "what is seen",
  motion: "how it moves",
  captions: "words on screen",
  sync: "sound with picture",
};

/** One aspect: a slider, the number beside it, and a button that unsets both. */
function aspect(name, whose, value, change) {
  const title = name.charAt(0).toUpperCase() + name.slice(1);
  const id = freshId(`rating-${name}`);
  const of = whose ? `, ${whose}` : "";
  const range = el("input", { id, type: "range", min: 0, max: 100, step: 1, "aria-label": `${title}${of}` });
  const exact = el("input", {
    type: "number",
    min: 0,
    max: 100,
    step: 1,
    inputmode: "numeric",
    placeholder: "–",
    "aria-label": `${title}${of}, exact number`,
  });
  const unset = button("×", () => set(""), {
    class: "small",
    "aria-label": `Unset ${name}${of}`,
    title: "Unset",
  });
  const row = el(
    "div",
    { class: "rating" },
    el("label", { for: id }, title, el("span", { class: "hint" }, ` ${HINTS[name]}`)),
    range,
    exact,
    unset,
  );

  function show(text) {
    const isSet = text !== "";
    range.value = isSet ? text : 50;
    range.setAttribute("aria-valuetext", isSet ? text : "not rated");
    row.classList.toggle("unset", !isSet);
    unset.hidden = !isSet;
  }
  function set(text) {
    exact.value = text;
    show(text);
    change(text);
    if (text === "") range.focus();
  }
  range.addEventListener("input", () => set(range.value));
  // A click exactly where the thumb already rests is a choice too.
  range.addEventListener("click", () => set(range.value));
  exact.addEventListener("input", () => {
    const text = exact.validity.badInput ? "?" : exact.value;
    show(text === "?" ? "" : text);
    change(text);
  });
  exact.value = value;
  show(value);
  return { row, exact };
}

export class Judgement {
  /**
   * `whose` is the side in accessible names ("side A"), or empty. `data` is `{ratings, notes, tags}` of a draft;
   * `change` is called after each edit. `name` is where it stands in the body, such as `perRun[0].`
   */
  constructor({ whose, data, change, fields, name = "" }) {
    this.data = data;
    data.ratings ??= {};
    const rows = ASPECTS.map((each) => {
      const { row, exact } = aspect(each, whose, data.ratings[each] ?? "", (text) => {
        data.ratings[each] = text;
        change();
      });
      fields.add(`${name}ratings.${each}`, exact, row);
      return row;
    });
    this.notes = this.#text("textarea", "notes", "Notes", { rows: 3 }, whose, change);
    this.tags = this.#text("input", "tags", "Tags", { placeholder: "separated by commas" }, whose, change);
    fields.add(`${name}notes`, this.notes.control);
    fields.add(`${name}tags`, this.tags.control);
    this.ratings = el(
      "fieldset",
      { class: "ratings" },
      el("legend", {}, "Ratings, 0 to 100; leave out what you like"),
      rows,
    );
    this.node = el("div", { class: "stack" }, this.ratings, this.notes.node, this.tags.node);
  }

  #text(tag, key, title, props, whose, change) {
    const id = freshId(key);
    const control = el(tag, { id, ...props });
    if (whose) control.setAttribute("aria-label", `${title}, ${whose}`);
    control.value = this.data[key] ?? "";
    control.addEventListener("input", () => {
      this.data[key] = control.value;
      change();
    });
    return { control, node: el("div", { class: "field" }, el("label", { for: id }, title), control) };
  }

  /** How many aspects are rated. */
  get rated() {
    return Object.values(this.data.ratings).filter((text) => text !== "").length;
  }

  /** What is sent: only what was filled in. */
  toBody() {
    return toBody(this.data);
  }
}

/** The part of a request's body that holds this judgement. */
export function toBody(data) {
  const body = {};
  const ratings = {};
  for (const name of ASPECTS) {
    const text = data.ratings?.[name] ?? "";
    // What is not a number is sent as it is: the server names the field and says what it wants.
    if (text !== "") ratings[name] = Number.isNaN(Number(text)) ? text : Number(text);
  }
  if (Object.keys(ratings).length) body.ratings = ratings;
  if (data.notes?.trim()) body.notes = data.notes;
  const tags = (data.tags ?? "").split(",").map((each) => each.trim());
  if (tags.some(Boolean)) body.tags = [...new Set(tags.filter(Boolean))];
  return body;
}
