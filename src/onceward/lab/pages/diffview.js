// Diffview: draws the difference of two texts: two columns where there is room, one below the other on a
// narrow screen. Signs as well as colours. Knows not where the texts come from.

import { diffLines, diffWords, lines } from "./diff.js";
import { button, el, notice } from "./dom.js";
import { plural } from "./words.js";

/** Equal lines that stay visible around a change; longer stretches are folded. */
const CONTEXT = 3;
const FOLD_MIN = 8;
const FOLDED_ROWS_MAX = 4_000;

/** Return the difference of two texts as an element. */
export function diffView([left, right], [leftName, rightName]) {
  const [a, b] = [lines(left), lines(right)];
  if (left === right) return notice("info", `${leftName} and ${rightName} are identical here.`);
  const rows = diffLines(a, b);
  if (!rows) return tooMuch();
  const differing = rows.filter((row) => row.kind !== "same").length;
  if (!differing) return notice("info", `${leftName} and ${rightName} differ only in their line ends.`);
  if (differing > FOLDED_ROWS_MAX) return tooMuch();
  const drawn = (row) => drawRow(row, a, b, leftName, rightName);
  return el(
    "div",
    {},
    el(
      "p",
      { class: "hint" },
      `${plural(differing, "line")} differ. − is only in ${leftName}, + is only in ${rightName}.`,
    ),
    el(
      "div",
      { class: "diff", tabindex: "0", role: "region", "aria-label": `Diff of ${leftName} and ${rightName}` },
      el(
        "div",
        { class: "diff-row diff-head" },
        el("div", { class: "diff-cell" }, leftName),
        el("div", { class: "diff-cell" }, rightName),
      ),
      fold(rows, drawn),
    ),
  );
}

function tooMuch() {
  return notice(
    "info",
    "Too long or too different to show as a diff. Switch “Diff” off to read both texts beside each other.",
  );
}

function fold(rows, drawn) {
  const out = [];
  for (let at = 0; at < rows.length;) {
    let end = at;
    while (end < rows.length && rows[end].kind === "same") end += 1;
    const from = at === 0 ? 0 : at + CONTEXT;
    const to = end === rows.length ? end : end - CONTEXT;
    if (to - from >= FOLD_MIN) {
      out.push(
        ...rows.slice(at, from).map(drawn),
        folded(rows.slice(from, to), drawn),
        ...rows.slice(to, end).map(drawn),
      );
    } else {
      out.push(...rows.slice(at, end).map(drawn));
    }
    for (at = end; at < rows.length && rows[at].kind !== "same"; at += 1) out.push(drawn(rows[at]));
  }
  return out;
}

function folded(rows, drawn) {
  const node = button(
    `Show ${plural(rows.length, "equal line")}`,
    () => node.replaceWith(...rows.map(drawn)),
    { class: "fold" },
  );
  return node;
}

function drawRow(row, a, b, leftName, rightName) {
  if (row.kind === "same")
    return el("div", { class: "diff-row same" }, cell(" ", a[row.left]), cell(" ", b[row.right], "twin"));
  const [leftParts, rightParts] =
    row.kind === "changed" ? diffWords(a[row.left], b[row.right]) : [null, null];
  const left =
    row.left === null ? filler() : cell("−", leftParts ?? a[row.left], "removed", `only in ${leftName}: `);
  const right =
    row.right === null ? filler() : cell("+", rightParts ?? b[row.right], "added", `only in ${rightName}: `);
  return el("div", { class: `diff-row ${row.kind}` }, left, right);
}

function cell(sign, content, kind = "", spoken = "") {
  const parts =
    typeof content === "string"
      ? content
      : content.map((part) => (part.changed ? el("mark", {}, part.text) : part.text));
  return el(
    "div",
    { class: `diff-cell ${kind}` },
    el("span", { class: "sign", "aria-hidden": "true" }, sign),
    el("span", { class: "diff-text" }, spoken && el("span", { class: "only-heard" }, spoken), parts),
  );
}

function filler() {
  return el("div", { class: "diff-cell filler" });
}
