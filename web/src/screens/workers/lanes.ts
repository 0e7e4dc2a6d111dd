// Lanes: the leases of each worker as bars, and what went wrong with them as marks.

import { cursorHref, shortWorker } from "../cursor/words";
import type { Bar, Mark, Workers } from "./types";

const BAR_KINDS = { held: "ok", ended: "off", stolen: "warn", expired: "bad" } as const;
const MARK_KINDS = { steal: "warn", refused: "bad", expiry: "bad" } as const;
const ENDED = { held: "held", ended: "given back", stolen: "taken over by another", expired: "expired" } as const;

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
