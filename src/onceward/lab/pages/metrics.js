// Metrics: the automatic metrics of runs, hidden until somebody asks, and their differences. Knows no form.

import { chip, el, reveal } from "./dom.js";
import { row, table } from "./tables.js";
import { delta, isNumber, METRICS, metric } from "./words.js";

/** A table of metrics, one column per run; `names` are the column heads. */
export function metricsTable(runs, names, caption) {
  const rows = METRICS.filter(({ key }) => runs.some((run) => isNumber(run?.autoMetricsSummary?.[key])));
  if (!rows.length) return el("p", { class: "hint" }, "No report of these runs holds a metric.");
  return table({
    caption,
    heads: ["Metric", ...names],
    rows: rows.map((spec) =>
      row(
        spec.name,
        runs.map((run) => valueOf(spec, run)),
      ),
    ),
  });
}

function valueOf(spec, run) {
  const summary = run?.autoMetricsSummary ?? {};
  const text = metric(spec, summary[spec.key]);
  if (text === "–") return el("span", { title: "no readable report has it" }, "no report");
  return spec.key === "syncRating" && summary.syncLabel ? `${text} (${summary.syncLabel})` : text;
}

/** Metrics behind a click, as the server's settings want it; null when they stay hidden. */
export function metricsReveal(ui, build) {
  if (ui?.blindMetricsDefault === false) return el("section", { "aria-label": "Metrics" }, build());
  if (ui?.revealMetricsEnabled === false) return null;
  return reveal("Show the automatic metrics (may bias you)", build);
}

/** The metrics on one line, for lists. */
export function metricsLine(summary) {
  const known = METRICS.filter(({ key }) => isNumber(summary?.[key]));
  if (!known.length) return el("p", { class: "hint" }, "No metrics: no readable report.");
  return el(
    "dl",
    { class: "metrics-line numbers" },
    known.map((spec) =>
      el("div", {}, el("dt", {}, spec.name), el("dd", {}, metric(spec, summary[spec.key]))),
    ),
  );
}

/** A difference, variant minus baseline, with its sign and whether it is for the better. */
export function deltaChip(spec, value) {
  if (!isNumber(value)) return el("span", { class: "hint" }, "–");
  const { text, kind } = delta(spec, value);
  const icon = { better: "▲", worse: "▼", same: "=" }[kind];
  return el("span", { class: "delta" }, text, " ", chip(kind === "same" ? "plain" : kind, icon, kind));
}

/** The differences of every variant from the baseline; null when there is nothing to subtract. */
export function deltaTable(baseline, variants) {
  const base = baseline?.autoMetricsSummary ?? {};
  const difference = (key, run) => {
    const value = run?.autoMetricsSummary?.[key];
    return isNumber(value) && isNumber(base[key]) ? value - base[key] : null;
  };
  const rows = METRICS.filter(({ key }) => variants.some(({ run }) => difference(key, run) !== null));
  if (!rows.length) return null;
  return table({
    id: "deltas",
    caption: "Metrics: the variant minus the baseline",
    heads: ["Metric", "Baseline", ...variants.map(({ name }) => name)],
    rows: rows.map((spec) =>
      row(spec.name, [
        metric(spec, base[spec.key]),
        ...variants.map(({ run }) => deltaChip(spec, difference(spec.key, run))),
      ]),
    ),
  });
}
