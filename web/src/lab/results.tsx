// Results: which side wins in comparisons of one name, how sure that is, how the metrics differ, the comparisons behind
// every number, and the export of everything.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { config, post } from "../core/api";
import { plural } from "../core/format";
import { mayPass, said, why } from "../core/patience";
import { State } from "../ui/bits";
import { Sheet } from "../ui/sheet";
import type { Column } from "../ui/table";
import { Delta } from "./metrics";
import { comparePage, type Results, type Standing } from "./models";
import { LabLink } from "./parts";
import { isNumber, METRICS, percent } from "./words";

/** The results; the export stands there without results, too. `nothing` says how to get some. */
export function ResultsView({ results, nothing }: { results: Results; nothing: JSX.Element }): JSX.Element {
  const names = [...new Set(results.standings.map((each) => each.experiment ?? null))];
  return (
    <div class="results">
      {names.length === 0 ? nothing : <p>{`${summed(results)} A side wins when it was chosen, and loses when another one was.`}</p>}
      {names.map((name) => <Group key={name ?? ""} name={name} sides={results.standings.filter((each) => (each.experiment ?? null) === name)} />)}
      {names.length > 0 && (
        <p class="hint">
          The win rate counts wins and losses only. The interval (Wilson, 95 %) says where the true rate may lie; while it reaches over the middle, nothing is
          decided. Fewer than ten decisions do not show a winner.
        </p>
      )}
      <Export />
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

function Group({ name, sides }: { name: string | null; sides: Standing[] }): JSX.Element {
  const title = name ?? "Comparisons without a name";
  const ids = [...new Set(sides.flatMap((each) => each.experimentIds))];
  const ordered = [...sides].sort((one, other) => Number(other.enough) - Number(one.enough) || (other.winRate ?? -1) - (one.winRate ?? -1));
  return (
    <section class="results-group" aria-label={title}>
      <h2>{title}</h2>
      <Sheet label={`Standings of ${title}`} columns={COLUMNS} rows={ordered} rowKey={(each) => each.label} />
      <Differences title={title} sides={ordered} />
      <details>
        <summary>{`The ${plural(ids.length, "comparison")} behind these numbers`}</summary>
        <ul class="results-behind">
          {ids.map((id) => <li key={id}><LabLink page={comparePage(id)}>{id}</LabLink></li>)}
        </ul>
      </details>
    </section>
  );
}

function Verdict({ side }: { side: Standing }): JSX.Element {
  if (!side.enough) return <State kind="wait" word="not enough data" title={`${side.wins + side.losses} decisions between two sides`} />;
  if (isNumber(side.low) && side.low > 0.5) return <State kind="ok" word="wins" />;
  if (isNumber(side.high) && side.high < 0.5) return <State kind="off" word="loses" />;
  return <State kind="busy" word="open" title="The interval reaches over the middle" />;
}

/** The interval as a bar from 0 to 100 %, with a mark in the middle. The text beside it says the same. */
function Rate({ side: { winRate, low, high, enough } }: { side: Standing }): JSX.Element {
  if (!isNumber(winRate) || !isNumber(low) || !isNumber(high)) return <span class="hint">no wins or losses yet</span>;
  const x = (share: number): number => 5 + share * 110;
  return (
    <span class={enough ? "results-rate" : "results-rate thin"}>
      <svg class="interval" viewBox="0 0 120 16" width="120" height="16" aria-hidden="true">
        <line class="axis" x1={x(0)} y1="8" x2={x(1)} y2="8" />
        <line class="axis" x1={x(0.5)} y1="2" x2={x(0.5)} y2="14" />
        <rect class="span" x={x(low)} y="5" width={Math.max(1, x(high) - x(low))} height="6" rx="3" />
        <circle class="dot" cx={x(winRate)} cy="8" r="4" />
      </svg>
      <span class="num">{`${percent(winRate)} (${percent(low)} to ${percent(high)})`}</span>
    </span>
  );
}

function Differences({ title, sides }: { title: string; sides: Standing[] }): JSX.Element {
  const variants = sides.filter((each) => each.deltas.length > 0);
  const specs = METRICS.filter(({ key }) => variants.some((each) => deltaOf(each, key)));
  if (!specs.length) return <p class="hint">No metric differences: no two sides that were compared have a metric in common.</p>;
  const columns: Column<Standing>[] = [
    { key: "side", title: "Variant minus baseline", render: (each) => each.label },
    ...specs.map((spec) => ({
      key: spec.key,
      title: spec.name,
      align: "end" as const,
      render: (each: Standing) => <Delta spec={spec} value={deltaOf(each, spec.key)?.mean} count={deltaOf(each, spec.key)?.n} />,
    })),
  ];
  return <Sheet label={`Metrics of ${title}: the variant minus the baseline`} columns={columns} rows={variants} rowKey={(each) => each.label} />;
}

function deltaOf(side: Standing, key: string): Standing["deltas"][number] | undefined {
  return side.deltas.find((each) => each.metric === key);
}

function Export(): JSX.Element {
  const [isBusy, setBusy] = useState(false);
  const [news, setNews] = useState<JSX.Element | string>("");
  const isReadOnly = config.value?.is_read_only === true;
  const run = async (): Promise<void> => {
    setBusy(true);
    setNews("Exporting…");
    try {
      const { path, count } = await post<{ path: string; count: number }>("/api/export", {});
      setNews(<>{`✓ ${plural(count, "judgement")} in `}<code class="path">{path}</code></>);
    } catch (error) {
      setNews(mayPass(error) ? `⚠ Not exported, no answer from the server: ${why(error)}. Try again.` : `⚠ Not exported. ${said(error)}`);
    } finally {
      setBusy(false);
    }
  };
  return (
    <section class="stack" aria-labelledby="export-title">
      <h2 id="export-title">Export</h2>
      <p class="hint">One file with every run, comparison and judgement of this Lab, on the server’s disk.</p>
      <p class="row">
        <button type="button" id="export" disabled={isBusy || isReadOnly} title={isReadOnly ? "This server is read-only" : undefined} onClick={() => void run()}>Export everything as JSON</button>
      </p>
      <p role="status" id="export-said">{news}</p>
    </section>
  );
}

function summed({ experiments, undecided }: Results): string {
  const decided = `${plural(experiments, "decided comparison")}.`;
  return undecided ? `${decided} ${undecided} more ended without an outcome and ${undecided === 1 ? "is" : "are"} not counted.` : decided;
}
