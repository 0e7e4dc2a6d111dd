// Ending: what is shown when a comparison is decided: that it is done, who was who, and how the metrics
// differ. Made from what the page already holds, because the server may be gone by now.

import { chip, el, entitle, fill, notice, part } from "./dom.js";
import { leftover } from "./leftover.js";
import { BASELINE } from "./sides.js";
import { deltaTable, metricsTable } from "./metrics.js";

const CLOSE = "You can close this page.";

/**
 * `sides` with their letters, if this browser showed them. `recorded`: the decision comes from the server, and
 * was not made just now. `unused`: what was entered here and does not count, `{body, why, forget}`.
 */
export function showEnding(content, { config, experiment, sides, recorded = false, unused = null }) {
  entitle(recorded ? "Decided" : "Submitted", experiment.name ?? "");
  const baseline = sides.find((side) => side.variantId === BASELINE);
  const variants = sides.filter((side) => side !== baseline);
  const deltas = deltaTable(
    baseline.run,
    variants.map((side) => ({ name: nameOf(side), run: side.run })),
  );
  fill(
    content,
    unused && notUsed(unused, experiment, sides),
    el(
      "section",
      { class: "ending", "aria-labelledby": "ending-title" },
      el(
        "h2",
        { id: "ending-title" },
        recorded ? "The decision" : "Thank you. Your decision is recorded, once.",
      ),
      el("p", { class: "outcome", id: "outcome" }, outcomeOf(experiment, sides)),
      experiment.reason && el("blockquote", {}, experiment.reason),
      el("p", { id: "close-hint" }, recorded ? `There is nothing left to do here. ${CLOSE}` : closing(config)),
    ),
    whoWasWho(experiment, sides),
    el(
      "section",
      { "aria-labelledby": "deltas-title" },
      el("h2", { id: "deltas-title" }, "How the metrics differ"),
      deltas ?? [
        notice(
          "missing",
          "There is nothing to subtract: the baseline and the variants have no metric in common.",
        ),
        metricsTable(
          sides.map((side) => side.run),
          sides.map(nameOf),
          "Automatic metrics",
        ),
      ],
    ),
    el(
      "p",
      {},
      el("a", { href: "/lab/results" }, "Results of all comparisons"),
      " · ",
      el("a", { href: "/lab" }, "All runs"),
    ),
  );
  part("title").focus();
}

/** What was entered and does not count: that it does not, and all of it, until it is thrown away. */
function notUsed({ body, why, forget }, experiment, sides) {
  const chosen = body.outcome && outcomeOf({ ...body, winner: { variantId: body.winnerVariantId } }, sides);
  const node = el(
    "div",
    { class: "stack" },
    notice(
      "problem",
      `${why} What you entered here was not recorded${chosen ? ": " : ". "}`,
      chosen && el("strong", {}, chosen),
      body.reason && ` (“${body.reason}”)`,
      " Below is what counts.",
    ),
    leftover(body, { chosen, questions: experiment.questions ?? [], sides, nameOf }, () => {
      forget();
      node.remove();
      part("title").focus();
    }),
  );
  return node;
}

/** What to do after a submission: nothing. A server that was started for it stops by itself. */
export function closing({ exitAfterSubmit }) {
  return exitAfterSubmit ? `${CLOSE} The server may stop now; nothing more is needed from it.` : CLOSE;
}

function nameOf(side) {
  const name = side.variantId === BASELINE ? "Baseline" : side.label || "Variant";
  return side.letter ? `${name} (${side.letter})` : name;
}

function outcomeOf({ outcome, winner }, sides) {
  if (outcome === "tie") return "≈ A tie.";
  if (outcome === "both_bad") return sides.length === 2 ? "✕ Both are bad." : "✕ All are bad.";
  const side = sides.find((each) => each.variantId === winner?.variantId);
  return side ? `✓ ${nameOf(side)} is ${sides.length === 2 ? "better" : "best"}.` : "No side was chosen.";
}

function whoWasWho(experiment, sides) {
  const chosen = (side) => experiment.winner?.variantId === side.variantId;
  const rows = sides.map((side) =>
    el(
      "tr",
      { class: chosen(side) ? "picked" : "" },
      el("th", { scope: "row" }, side.letter ?? "–"),
      el(
        "td",
        {},
        side.variantId === BASELINE ? "Baseline" : side.label || "Variant",
        " ",
        chosen(side) && chip("good", "✓", "chosen"),
      ),
      el("td", {}, side.run?.topic ?? "–"),
      el("td", { class: "path" }, side.run ? side.run.artifactsDir : "this run cannot be read"),
    ),
  );
  return el(
    "section",
    { "aria-labelledby": "who-title" },
    el("h2", { id: "who-title" }, "Who was who"),
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of sides" },
      el(
        "table",
        { id: "who" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ["Side", "What it was", "Topic", "Directory"].map((text) => el("th", { scope: "col" }, text)),
          ),
        ),
        el("tbody", {}, rows),
      ),
    ),
  );
}
