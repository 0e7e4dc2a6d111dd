// Progress: how a cursor went on over time, and what was done to it meanwhile.

import { LineChart } from "../../ui/charts";
import { Tabs, useTab } from "../../ui/bits";
import { position, shortWorker } from "./words";
import type { CursorDetail, HistoryEntry, Sample } from "./types";

const NUMBER = /^-?\d+(\.\d+)?$/;
const PARAM = "chart";

type View = "position" | "messages" | "lag";

const LABELS: Record<View, string> = {
  position: "Position",
  messages: "Messages behind",
  lag: "Seconds behind",
};

/** What is marked in the line; a migration changes how positions are written, not where one is. */
const MARK_KINDS: Partial<Record<HistoryEntry["kind"], "warn" | "off">> = {
  seek: "warn",
  undo: "warn",
  rollback: "warn",
  steal: "warn",
  pause: "off",
  resume: "off",
};

export function Progress({ cursor }: { cursor: CursorDetail }) {
  const view = useTab(PARAM, "position") as View;
  const samples = cursor.samples;
  const isNumeric = samples.every((each) => each.position === null || NUMBER.test(each.position));
  const label = view === "position" && !isNumeric ? "Messages processed" : LABELS[view];
  const points = samples.map((each) => ({ x: Date.parse(each.taken_at), y: value(each, view, isNumeric) }));
  const from = points[0]?.x ?? 0;
  const marks = cursor.history
    .filter((each) => each.kind in MARK_KINDS && Date.parse(each.happened_at) >= from)
    .map((each) => ({ x: Date.parse(each.happened_at), text: historyText(each), kind: MARK_KINDS[each.kind]! }));
  return (
    <section class="part" aria-labelledby="progress">
      <h2 id="progress">Over time</h2>
      {samples.length < 2 ? (
        <p class="hint">No line yet: a worker that runs measures its cursors about every ten seconds.</p>
      ) : (
        <>
          <Tabs
            label="What the chart shows"
            param={PARAM}
            tabs={(Object.keys(LABELS) as View[]).map((id) => ({ id, title: LABELS[id] }))}
          />
          <LineChart label={`${label} of ${cursor.name}`} points={points} marks={marks} yLabel={label} />
        </>
      )}
    </section>
  );
}

function value(sample: Sample, view: View, isNumeric: boolean): number | null {
  if (view === "messages") return sample.lag_messages;
  if (view === "lag") return sample.lag_seconds;
  if (!isNumeric) return sample.processed_count;
  return sample.position === null ? 0 : Number(sample.position);
}

function historyText(entry: HistoryEntry): string {
  const who = shortWorker(entry.actor);
  if (entry.kind === "steal") return `taken over by ${who}, epoch ${entry.epoch}`;
  if (entry.kind === "pause" || entry.kind === "resume") return `${entry.kind}d by ${who}`;
  return `${entry.kind} to ${position(entry.to_position)} by ${who}`;
}
