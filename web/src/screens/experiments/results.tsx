// Results: which side wins in comparisons of one name, how sure that is, and the items behind every number.

import { useLive } from "../../core/live";
import { Link } from "../../core/router";
import { ActionButton, useAction } from "../../ui/action";
import { Empty, ErrorBox, Skeleton, State } from "../../ui/bits";
import { Sheet } from "../../ui/sheet";
import type { Column } from "../../ui/table";
import { comparePage, hrefOf, type Results, type Standing } from "./models";

export function ResultsView() {
  const { data, error } = useLive<Results>(["lab"], "/api/experiments/results");
  if (error && !data) return <ErrorBox error={error} />;
  if (!data) return <Skeleton />;
  if (data.standings.length === 0) {
    return (
      <Empty
        title="Nothing has been decided yet"
        text="Results appear here after the first decision: who won how often, how sure that is, and how the metrics differ."
        commands={["onceward lab compare BASELINE_DIR VARIANT_DIR"]}
        action={<Link href="/experiments?tab=compare">Judge the next comparison</Link>}
      />
    );
  }
  const names = [...new Set(data.standings.map((each) => each.experiment))];
  return (
    <div class="results">
      <div class="results-head">
        <p>{summed(data)}</p>
        <ExportButton />
      </div>
      {names.map((name) => <Group key={name ?? ""} name={name} sides={data.standings.filter((each) => each.experiment === name)} />)}
      <p class="hint">
        The win rate counts wins and losses only. The interval (Wilson, 95 %) says where the true rate may lie; while it reaches over the middle, nothing is
        decided. Fewer than ten decisions do not show a winner.
      </p>
    </div>
  );
}

const COLUMNS: Column<Standing>[] = [
  { key: "side", title: "Side", render: (each) => <strong>{each.label}</strong> },
  { key: "verdict", title: "Verdict", render: (each) => <Verdict side={each} /> },
  { key: "rate", title: "Win rate, 95 % interval", render: (each) => <Rate side={each} /> },
  { key: "n", title: "Judged", align: "end", render: (each) => each.n },
  { key: "wins", title: "Wins", align: "end", render: (each) => each.wins },
  { key: "losses", title: "Losses", align: "end", render: (each) => each.losses },
  { key: "ties", title: "Ties", align: "end", hideNarrow: true, render: (each) => each.ties },
  { key: "bad", title: "Both bad", align: "end", hideNarrow: true, render: (each) => each.bothBad },
];

function Group({ name, sides }: { name: string | null; sides: Standing[] }) {
  const title = name ?? "Comparisons without a name";
  const ids = [...new Set(sides.flatMap((each) => each.experimentIds))];
  const ordered = [...sides].sort((one, other) => Number(other.enough) - Number(one.enough) || (other.winRate ?? -1) - (one.winRate ?? -1));
  return (
    <section class="results-group" aria-label={title}>
      <h2>{title}</h2>
      <Sheet label={`Standings of ${title}`} columns={COLUMNS} rows={ordered} rowKey={(each) => each.label} />
      <Differences title={title} sides={ordered} />
      <details>
        <summary>{`The ${ids.length} ${ids.length === 1 ? "comparison" : "comparisons"} behind these numbers`}</summary>
        <ul class="results-behind">
          {ids.map((id) => <li key={id}><Link href={hrefOf(comparePage(id))}>{id}</Link></li>)}
        </ul>
      </details>
    </section>
  );
}

function Verdict({ side }: { side: Standing }) {
  if (!side.enough) return <State kind="wait" word="not enough data" title={`${side.wins + side.losses} decisions between two sides`} />;
  if (side.low !== null && side.low > 0.5) return <State kind="ok" word="wins" />;
  if (side.high !== null && side.high < 0.5) return <State kind="off" word="loses" />;
  return <State kind="busy" word="open" title="The interval reaches over the middle" />;
}

function Rate({ side: { winRate, low, high, enough } }: { side: Standing }) {
  if (winRate === null || low === null || high === null) return <span class="hint">no wins or losses yet</span>;
  const x = (share: number) => 5 + share * 110;
  return (
    <span class={enough ? "results-rate" : "results-rate thin"}>
      <svg viewBox="0 0 120 16" width="120" height="16" aria-hidden="true">
        <line class="axis" x1={x(0)} y1="8" x2={x(1)} y2="8" />
        <line class="axis" x1={x(0.5)} y1="2" x2={x(0.5)} y2="14" />
        <rect class="span" x={x(low)} y="5" width={Math.max(1, x(high) - x(low))} height="6" rx="3" />
        <circle class="dot" cx={x(winRate)} cy="8" r="4" />
      </svg>
      <span class="num">{`${percent(winRate)} (${percent(low)} to ${percent(high)})`}</span>
    </span>
  );
}

/** The metrics of a run: name, digits, unit, and whether more of it is better. */
const METRICS: Record<string, [string, number, string, boolean]> = {
  syncRating: ["Sync rating", 1, "", true],
  meanDriftMs: ["Mean drift", 0, " ms", false],
  maxDriftMs: ["Max drift", 0, " ms", false],
  captionOverall: ["Captions", 1, "", true],
  captionCoverageRatio: ["Caption coverage", 2, "", true],
  ocrConfidenceMean: ["OCR confidence", 2, "", true],
  proxyScoreOverall: ["Proxy score", 1, "", true],
};

function Differences({ title, sides }: { title: string; sides: Standing[] }) {
  const variants = sides.filter((each) => each.deltas.length > 0);
  const metrics = [...new Set(variants.flatMap((each) => each.deltas.map((delta) => delta.metric)))].filter((metric) => METRICS[metric]);
  if (metrics.length === 0) return null;
  const columns: Column<Standing>[] = [
    { key: "side", title: "Variant minus baseline", render: (each) => each.label },
    ...metrics.map((metric) => ({ key: metric, title: METRICS[metric]![0], align: "end" as const, render: (each: Standing) => <Delta side={each} metric={metric} /> })),
  ];
  return <Sheet label={`Metrics of ${title}: the variant minus the baseline`} columns={columns} rows={variants} rowKey={(each) => each.label} />;
}

function Delta({ side, metric }: { side: Standing; metric: string }) {
  const found = side.deltas.find((each) => each.metric === metric);
  if (!found) return <span class="nothing">–</span>;
  const [, digits, unit, isMoreBetter] = METRICS[metric]!;
  const rounded = Number(found.mean.toFixed(digits));
  const text = `${rounded > 0 ? "+" : rounded < 0 ? "−" : ""}${Math.abs(rounded).toFixed(digits)}${unit}`;
  const word = rounded === 0 ? "same" : rounded > 0 === isMoreBetter ? "better" : "worse";
  return <span class={`results-delta ${word}`} title={`mean of ${found.n}`}>{text} <span class="hint">{word}</span></span>;
}

function ExportButton() {
  const action = useAction<{ path: string; count: number }>({
    path: "/api/export",
    body: () => ({}),
    success: ({ path, count }) => `${count} ${count === 1 ? "judgement" : "judgements"} exported to ${path}`,
  });
  return (
    <>
      <ActionButton label="Export everything as JSON" onClick={() => void action.run()} />
      {action.error && <ErrorBox error={action.error} />}
    </>
  );
}

function summed({ experiments, undecided }: Results): string {
  const decided = `${experiments} decided ${experiments === 1 ? "comparison" : "comparisons"}.`;
  return undecided ? `${decided} ${undecided} more ended without an outcome and ${undecided === 1 ? "is" : "are"} not counted.` : decided;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
