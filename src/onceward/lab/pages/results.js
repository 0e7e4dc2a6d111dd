// Results: which variants win, how sure that is, how their metrics differ, and the export of everything.

import { get, loadConfig, post } from "./api.js";
import { patiently, watchServer } from "./away.js";
import { button, el, entitle, fill, freshId, notice, svg } from "./dom.js";
import { deltaChip } from "./metrics.js";
import { isPassing, why } from "./patience.js";
import { row, table } from "./tables.js";
import { isNumber, METRICS, percent, plural, said } from "./words.js";

export async function show(content) {
  entitle("Results", "Which variant wins, and can it be trusted?");
  await patiently(loadConfig);
  const results = await patiently(() => get("/api/experiments/results"));
  fill(
    content,
    el(
      "div",
      { class: "stack" },
      results.standings.length ? [summary(results), groups(results), explained()] : nothingYet(),
      exporting(),
    ),
  );
  watchServer();
}

function summary({ experiments, undecided }) {
  const open = undecided
    ? ` ${plural(undecided, "more")} ended without an outcome and ${undecided === 1 ? "is" : "are"} not counted.`.replace(
        "mores",
        "more",
      )
    : "";
  return el(
    "p",
    {},
    `${plural(experiments, "decided comparison")}.${open} A side wins when it was chosen, and loses when another one was.`,
  );
}

function explained() {
  return el(
    "p",
    { class: "hint" },
    "The win rate counts wins and losses only. The interval (Wilson) says where the true rate may lie; while it reaches over the middle mark, nothing is decided.",
  );
}

function nothingYet() {
  return notice(
    "missing",
    "Nothing has been decided yet. Results appear here after the first decision. ",
    el("a", { href: "/lab" }, "Choose runs to compare"),
    ".",
  );
}

/** Comparisons of one name are about one thing; others are not added up with them. */
function groups({ standings }) {
  const names = [...new Set(standings.map((each) => each.experiment ?? null))];
  return names.map((name) => {
    const sides = standings.filter((each) => (each.experiment ?? null) === name);
    const id = freshId("group");
    return el(
      "section",
      { class: "stack group", "aria-labelledby": id },
      el("h2", { id }, name ?? "Comparisons without a name"),
      rates(sides, name),
      differences(sides, name),
    );
  });
}

function framed(caption, name, heads, rows) {
  return table({ caption, label: `${caption}: ${name ?? "without a name"}`, heads, rows });
}

function rates(sides, name) {
  const heads = ["Side", "n", "Wins", "Losses", "Ties", "Both bad", "Win rate, 95 % interval"];
  const rows = sides.map((each) =>
    row(
      each.label,
      [each.n, each.wins, each.losses, each.ties, each.bothBad].map(String),
      el("td", { class: "rate" }, rate(each)),
    ),
  );
  return framed("Wins, losses and ties", name, heads, rows);
}

function rate({ winRate, low, high, enough, wins, losses }) {
  if (!isNumber(winRate)) return el("span", { class: "hint" }, "no wins or losses yet");
  const text = `${percent(winRate)} (${percent(low)} to ${percent(high)})`;
  if (!enough)
    return [
      el("span", { class: "hint" }, `not enough data: ${plural(wins + losses, "decision")}; so far ${text}`),
    ];
  return [bar(winRate, low, high), el("span", {}, text)];
}

/** The interval as a bar on a line from 0 to 100 %, with a mark in the middle. The text beside it says the same. */
function bar(winRate, low, high) {
  const x = (share) => 2 + share * 116;
  return svg(
    "svg",
    { class: "interval", viewBox: "0 0 120 16", width: 120, height: 16, "aria-hidden": "true" },
    svg("line", { class: "axis", x1: x(0), y1: 8, x2: x(1), y2: 8 }),
    svg("line", { class: "axis", x1: x(0.5), y1: 2, x2: x(0.5), y2: 14 }),
    svg("rect", { class: "span", x: x(low), y: 5, width: Math.max(1, x(high) - x(low)), height: 6, rx: 3 }),
    svg("circle", { class: "dot", cx: x(winRate), cy: 8, r: 4 }),
  );
}

function differences(sides, name) {
  const variants = sides.filter((each) => each.deltas.length);
  const specs = METRICS.filter(({ key }) => variants.some((each) => isNumber(find(each, key)?.mean)));
  if (!specs.length)
    return notice(
      "missing",
      "No metric differences: no two sides that were compared have a metric in common.",
    );
  const rows = variants.map((each) =>
    row(
      each.label,
      specs.map((spec) => {
        const found = find(each, spec.key);
        return [
          deltaChip(spec, found?.mean),
          found && el("span", { class: "hint count" }, `n ${found.n}`),
        ];
      }),
    ),
  );
  return framed(
    "Metrics: the variant minus the baseline, mean over comparisons",
    name,
    ["Variant", ...specs.map((spec) => spec.name)],
    rows,
  );
}

function find(variant, key) {
  return variant.deltas.find((each) => each.metric === key);
}

function exporting() {
  const news = el("p", { role: "status", id: "export-said" });
  const start = button(
    "Export everything as JSON",
    async () => {
      start.disabled = true;
      fill(news, "Exporting…");
      try {
        const { path, count } = await post("/api/export", {});
        fill(news, `✓ ${plural(count, "judgement")} in `, el("code", { class: "path" }, path));
      } catch (error) {
        fill(
          news,
          isPassing(error)
            ? `⚠ Not exported, no answer from the server: ${why(error)}. Try again.`
            : `⚠ Not exported. ${said(error)}`,
        );
      }
      start.disabled = false;
    },
    { id: "export" },
  );
  return el(
    "section",
    { class: "stack", "aria-labelledby": "export-title" },
    el("h2", { id: "export-title" }, "Export"),
    el(
      "p",
      { class: "hint" },
      "One file with every run, comparison and judgement of this Lab, on the server’s disk.",
    ),
    el("p", {}, start),
    news,
  );
}
