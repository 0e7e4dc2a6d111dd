// Cards: how runs, comparisons and the task that somebody waits for look in a list. Knows not how they are loaded.

import { experimentPath, get, runPath } from "./api.js";
import { chip, el } from "./dom.js";
import { metricsLine } from "./metrics.js";
import { ago, exactly, isNumber, lastPart, plural } from "./words.js";

const STATUS = {
  queued: ["waits", "○", "waiting for a judgement"],
  running: ["waits", "◐", "running"],
  done: ["good", "✓", "decided"],
  failed: ["bad", "✕", "failed"],
};

/**
 * A run: `place` is 0 for the baseline of a comparison, more for a variant, -1 when it is not ticked; `older` the run
 * that it supersedes, if that is known here; `tick` hears when its box changes.
 */
export function runCard(run, { place, older, withMetrics, tick }) {
  const name = nameOf(run);
  const id = `pick-${run.runId}`;
  const box = el("input", { type: "checkbox", id, "aria-label": `Select ${name}`, on: { change: tick } });
  box.checked = place >= 0;
  return el(
    "li",
    { class: place >= 0 ? "card run picked" : "card run" },
    el("label", { class: "pick", for: id }, box),
    el(
      "div",
      { class: "about" },
      el("p", { class: "name" }, el("a", { href: reviewPage(run.runId) }, name), " ", placeChip(place)),
      el("p", { class: "hint path" }, run.artifactsDir),
      run.supersedesRunId && newer(run.supersedesRunId, older),
      withMetrics && metricsLine(run.autoMetricsSummary),
    ),
    el(
      "div",
      { class: "facts" },
      when(run.createdAt),
      !run.videoPath && el("span", { class: "hint" }, "no video"),
      el(
        "span",
        { class: "numbers" },
        isNumber(run.lastOverall) ? `last overall ${run.lastOverall}` : "not rated yet",
      ),
      el("a", { class: "button", href: reviewPage(run.runId), "aria-label": `Review ${name}` }, "Review"),
    ),
  );
}

function placeChip(place) {
  if (place < 0) return null;
  return place === 0 ? chip("plain", "◆", "baseline") : chip("plain", "◇", `variant ${place}`);
}

function newer(olderId, older) {
  const name = older ? `the run of ${exactly(older.createdAt)}` : "an earlier run";
  return el("p", { class: "hint" }, "↻ newer version of ", el("a", { href: reviewPage(olderId) }, name));
}

export function reviewPage(runId) {
  return `/lab/review/${encodeURIComponent(runId)}`;
}

export function comparePage(experimentId) {
  return `/lab/compare/${encodeURIComponent(experimentId)}`;
}

/** The task that this server was started for: `{says, text, href}`, or null when it is done. */
export async function taskLink(task) {
  if (task.type === "compare") {
    const experiment = await get(experimentPath(task.experimentId));
    if (experiment.submission) return null;
    const says = `An agent waits for your judgement: ${experiment.name ?? "a comparison"}.`;
    return { says, text: "Continue: compare", href: comparePage(task.experimentId) };
  }
  const run = await get(runPath(task.runId));
  if (isNumber(run.lastOverall)) return null;
  return {
    says: `An agent waits for your review: ${nameOf(run)}.`,
    text: "Continue: review",
    href: reviewPage(task.runId),
  };
}

export function experimentCard(experiment) {
  const name = experiment.name ?? experiment.topic ?? "Comparison without a name";
  const [kind, icon, word] = STATUS[experiment.status] ?? ["plain", "·", experiment.status];
  const done = experiment.status === "done";
  const href = comparePage(experiment.experimentId);
  return el(
    "li",
    { class: "card" },
    el(
      "div",
      { class: "about" },
      el("p", { class: "name" }, el("a", { href }, name), " ", chip(kind, icon, word)),
      el(
        "p",
        { class: "hint" },
        `${plural(experiment.variants.length + 1, "side")}, ${plural(experiment.questions?.length ?? 0, "question")}`,
      ),
    ),
    el(
      "div",
      { class: "facts" },
      when(experiment.createdAt),
      el(
        "a",
        {
          class: done ? "button" : "button main",
          href,
          "aria-label": `${done ? "Result" : "Compare"}: ${name}`,
        },
        done ? "Result" : "Compare",
      ),
    ),
  );
}

/** A run as people call it. */
export function nameOf(run) {
  return run.topic || lastPart(run.artifactsDir);
}

/** How long ago; the exact time appears under the pointer, or when something in the row has the focus. */
function when(iso) {
  return el(
    "time",
    { datetime: iso, class: "when numbers", "data-exact": exactly(iso), title: exactly(iso) },
    ago(iso),
  );
}

/** For a list without runs: what a run is, and how to get one. */
export function nothingYet() {
  return [
    el(
      "p",
      {},
      "No run has been imported yet. A run is a directory with what an agent made: a video, a script, or any text, Markdown or image file that its lab.json names.",
    ),
    el("p", {}, "Import one above, or in a terminal: ", el("code", {}, "onceward lab review PATH"), "."),
  ];
}
