// Metrics: the automatic metrics of runs, hidden until the person asks for them, and their differences.

import type { JSX } from "preact";
import { Sheet } from "../ui/sheet";
import type { Column } from "../ui/table";
import type { LabConfig, Metrics, Run } from "./models";
import { Reveal } from "./parts";
import { delta, isNumber, METRICS, metric, type MetricSpec } from "./words";

type Measured = Pick<Run, "autoMetricsSummary"> | null;
const TITLE = "Automatic metrics";

function valueIn(run: Measured, key: MetricSpec["key"]): number | null {
  return run?.autoMetricsSummary[key] ?? null;
}

/** A table of metrics, one column per run; `names` are the column heads. */
export function MetricsTable({ runs, names }: { runs: Measured[]; names: string[] }): JSX.Element {
  const rows = METRICS.filter(({ key }) => runs.some((run) => isNumber(valueIn(run, key))));
  if (!rows.length) return <p class="hint">No report of these runs holds a metric.</p>;
  const columns: Column<MetricSpec>[] = [
    { key: "metric", title: "Metric", render: (spec) => spec.name },
    ...runs.map((run, index) => ({
      key: String(index), title: names[index] ?? "", align: "end" as const, render: (spec: MetricSpec) => <Value spec={spec} run={run} />,
    })),
  ];
  return <Sheet label={TITLE} columns={columns} rows={rows} rowKey={(spec) => spec.key} />;
}

function Value({ spec, run }: { spec: MetricSpec; run: Measured }): JSX.Element {
  const value = valueIn(run, spec.key);
  if (!isNumber(value)) return <span class="hint" title="no readable report has it">no report</span>;
  const label = spec.key === "syncRating" ? run?.autoMetricsSummary.syncLabel : null;
  return <>{metric(spec, value) + (label ? ` (${label})` : "")}</>;
}

/** Metrics that are shown when asked for, as the server's settings demand; nothing when they stay hidden. */
export function MetricsReveal({ ui, children }: { ui: LabConfig["ui"]; children: () => JSX.Element }): JSX.Element | null {
  if (ui?.blindMetricsDefault === false) return <section aria-label="Metrics">{children()}</section>;
  if (ui?.revealMetricsEnabled === false) return null;
  return <Reveal summary="Show the automatic metrics (may bias you)">{children}</Reveal>;
}

/** The metrics on one line, for lists. */
export function MetricsLine({ summary }: { summary: Metrics }): JSX.Element {
  const known = METRICS.filter(({ key }) => isNumber(summary[key]));
  if (!known.length) return <p class="hint">No metrics: no readable report.</p>;
  return (
    <dl class="metrics-line num">
      {known.map((spec) => (
        <div key={spec.key}>
          <dt>{spec.name}</dt>
          <dd>{metric(spec, summary[spec.key])}</dd>
        </div>
      ))}
    </dl>
  );
}

const ICONS = { better: "▲", worse: "▼", same: "=" };

/** A difference, variant minus baseline, with its sign and whether it is better. */
export function Delta({ spec, value, count }: { spec: MetricSpec; value: number | null | undefined; count?: number }): JSX.Element {
  if (!isNumber(value)) return <span class="nothing">–</span>;
  const { text, kind } = delta(spec, value);
  return (
    <span class={`delta ${kind}`} title={count === undefined ? undefined : `mean of ${count}`}>
      {text} <span aria-hidden="true">{ICONS[kind]}</span> {kind}
    </span>
  );
}

/** The differences of every variant from the baseline; `fallback` when there is nothing to subtract. */
export function DeltaTable({ baseline, variants, fallback }: { baseline: Measured; variants: { name: string; run: Measured }[]; fallback: JSX.Element }): JSX.Element {
  const difference = (key: MetricSpec["key"], run: Measured): number | null => {
    const [value, base] = [valueIn(run, key), valueIn(baseline, key)];
    return isNumber(value) && isNumber(base) ? value - base : null;
  };
  const rows = METRICS.filter(({ key }) => variants.some(({ run }) => difference(key, run) !== null));
  if (!rows.length) return fallback;
  const columns: Column<MetricSpec>[] = [
    { key: "metric", title: "Metric", render: (spec) => spec.name },
    { key: "baseline", title: "Baseline", align: "end", render: (spec) => metric(spec, valueIn(baseline, spec.key)) },
    ...variants.map(({ name, run }, index) => ({
      key: String(index), title: name, align: "end" as const, render: (spec: MetricSpec) => <Delta spec={spec} value={difference(spec.key, run)} />,
    })),
  ];
  return <div id="deltas"><Sheet label="Metrics: the variant minus the baseline" columns={columns} rows={rows} rowKey={(spec) => spec.key} /></div>;
}
