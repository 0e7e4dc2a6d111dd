// Leftover: what a person entered into a comparison and nobody recorded, as text that can be copied. Knows
// neither the server nor why it was not recorded.

import { button, el } from "./dom.js";

/** Whether a body holds nothing that somebody could miss. */
export function isEmpty({ outcome, reason, answers, perRun }) {
  return !outcome && !reason && !answers && !perRun.some((each) => judged(each).length);
}

/** All of it, folded open, with a button that calls `forget`. */
export function leftover(body, { chosen, questions, sides, nameOf }, forget) {
  const lines = [
    chosen && `Choice: ${chosen}`,
    body.reason && `Why: ${body.reason}`,
    ...Object.entries(body.answers ?? {}).map(
      ([id, answer]) => `${questions.find((each) => each.id === id)?.prompt ?? id} ${answer}`,
    ),
    ...sides.flatMap((side) => {
      const said = judged(body.perRun.find((each) => each.variantId === side.variantId) ?? {});
      return said.length ? [`${nameOf(side)}:`, ...said] : [];
    }),
  ];
  return el(
    "details",
    { class: "reveal", id: "leftover", open: true },
    el("summary", {}, "What you entered, to copy"),
    el(
      "pre",
      { class: "prompt", tabindex: "0", role: "region", "aria-label": "What you entered" },
      lines.filter(Boolean).join("\n"),
    ),
    el("p", {}, button("Throw it away", forget)),
  );
}

function judged({ ratings, notes, tags }) {
  const rated = Object.entries(ratings ?? {}).map(([name, value]) => `${name} ${value}`);
  return [
    rated.length && `Ratings: ${rated.join(", ")}`,
    notes && `Notes: ${notes}`,
    tags?.length && `Tags: ${tags.join(", ")}`,
  ].filter(Boolean);
}
