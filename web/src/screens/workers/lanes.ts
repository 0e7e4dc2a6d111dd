// Lanes: the leases of each worker as bars, and what went wrong with them as marks.

import { cursorHref, shortWorker } from "../cursor/words";
import type { Bar, Mark, Workers } from "./types";

const BAR_KINDS = { held: "ok", ended: "off", stolen: "warn", expired: "bad" } as const;
const MARK_KINDS = { steal: "warn", refused: "bad", expiry: "bad" } as const;
const ENDED = { held: "held", ended: "released", stolen: "taken over by another", expired: "expired" } as const;

/** So much is shown at least, so that bars have room for their words. */
const SPAN_MS_MIN = 60_000;
/** Of what is shown so much is empty before the first bar. */
const MARGIN = 0.04;

/** What is asked for, or less when nothing happened before. */
export function view({ lanes, from, to }: Workers): { from: number; to: number } {
  const end = Date.parse(to);
  const first = Math.min(end, ...lanes.flatMap((lane) => lane.bars.map((bar) => Date.parse(bar.from))));
  const span = Math.max(SPAN_MS_MIN, (end - first) * (1 + MARGIN));
  return { from: Math.max(Date.parse(from), end - span), to: end };
}

export function drawn({ workers, lanes, to }: Workers) {
  const stopped = new Set(workers.filter((each) => each.stopped_at !== null).map((each) => each.worker));
  return lanes.map((lane) => ({
    id: lane.worker,
    title: shortWorker(lane.worker) + (stopped.has(lane.worker) ? " (stopped)" : ""),
    bars: lane.bars.map((bar) => barOf(bar, to)),
    marks: lane.marks.map(markOf),
  }));
}

function barOf(bar: Bar, now: string) {
  return {
    from: Date.parse(bar.from),
    to: Date.parse(bar.to ?? now),
    text: `epoch ${bar.epoch}, ${bar.cursor}, ${ENDED[bar.state]}`,
    kind: BAR_KINDS[bar.state],
    href: cursorHref(bar.cursor),
  };
}

function markOf(mark: Mark) {
  return { at: Date.parse(mark.at), text: mark.text, kind: MARK_KINDS[mark.kind] };
}
