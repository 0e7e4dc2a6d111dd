// Tables: numbers in rows and columns, which scroll inside their own frame on a narrow screen.

import { el } from "./dom.js";

/** A table of numbers; `label` names its frame where the caption alone is not enough. */
export function table({ caption, label = caption, heads, rows, ...attributes }) {
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    el(
      "table",
      { class: "numbers", ...attributes },
      el("caption", {}, caption),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          heads.map((head) => el("th", { scope: "col" }, head)),
        ),
      ),
      el("tbody", {}, rows),
    ),
  );
}

/** A row: what it is about, and a cell for each value. */
export function row(head, values, ...more) {
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, head),
    values.map((value) => el("td", {}, value)),
    more,
  );
}
