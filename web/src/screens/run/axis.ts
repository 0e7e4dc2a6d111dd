// Axis: where a moment stands on a timeline, with idle time as it was or pressed together. Pure.

export interface Span {
  from: number;
  to: number;
}

export interface Axis {
  /** From 0 to 1. */
  place(ms: number): number;
  /** Idle times that were pressed together, with how long they really were. */
  gaps: { from: number; to: number; seconds: number }[];
  /** Where to write a time, and which: seconds since the beginning. */
  ticks: { at: number; seconds: number }[];
}

/** How much of the width a pressed gap keeps, as part of the busy time. */
const GAP_SHARE = 0.04;
/** Idle time below this part of the busy time is left as it is. */
const GAP_SHARE_MIN = 0.2;
const TICKS_WANTED = 6;
const TICK_DISTANCE_MIN = 0.09;
const STEPS = [0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

interface Piece extends Span {
  isGap: boolean;
  weight: number;
}

export function axisOf(whole: Span, busy: Span[], isCollapsed: boolean): Axis {
  const pieces = isCollapsed ? collapsed(whole, busy) : [plain(whole)];
  const total = pieces.reduce((sum, each) => sum + each.weight, 0) || 1;
  const starts: number[] = [];
  let sum = 0;
  for (const each of pieces) {
    starts.push(sum / total);
    sum += each.weight;
  }
  const place = (ms: number): number => {
    const index = pieces.findLastIndex((each) => each.from <= ms);
    const piece = pieces[Math.max(index, 0)]!;
    const length = piece.to - piece.from || 1;
    const inside = Math.min(Math.max((ms - piece.from) / length, 0), 1);
    return starts[Math.max(index, 0)]! + (inside * piece.weight) / total;
  };
  const gaps = pieces
    .filter((each) => each.isGap)
    .map((each) => ({ from: place(each.from), to: place(each.to), seconds: (each.to - each.from) / 1000 }));
  return { place, gaps, ticks: ticksOf(pieces, whole.from, total, place) };
}

function plain(span: Span): Piece {
  return { ...span, isGap: false, weight: Math.max(span.to - span.from, 1) };
}

function collapsed(whole: Span, busy: Span[]): Piece[] {
  const spans = merged([{ from: whole.from, to: whole.from }, ...busy, { from: whole.to, to: whole.to }]);
  const worked = spans.reduce((sum, each) => sum + each.to - each.from, 0);
  const least = Math.max(worked * GAP_SHARE_MIN, 1);
  const pieces: Piece[] = [];
  let from = whole.from;
  for (const [index, span] of spans.entries()) {
    const next = spans[index + 1];
    if (next === undefined || next.from - span.to <= least) continue;
    if (span.to > from) pieces.push(plain({ from, to: span.to }));
    pieces.push({ from: span.to, to: next.from, isGap: true, weight: Math.max(worked * GAP_SHARE, 1) });
    from = next.from;
  }
  if (whole.to > from || pieces.length === 0) pieces.push(plain({ from, to: whole.to }));
  return pieces;
}

function merged(spans: Span[]): Span[] {
  const found: Span[] = [];
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    const last = found.at(-1);
    if (last !== undefined && span.from <= last.to) last.to = Math.max(last.to, span.to);
    else found.push({ ...span });
  }
  return found;
}

function ticksOf(pieces: Piece[], begin: number, total: number, place: (ms: number) => number): Axis["ticks"] {
  const wanted = total / 1000 / TICKS_WANTED;
  const step = STEPS.find((each) => each >= wanted) ?? Math.ceil(wanted / 86400) * 86400;
  const found: Axis["ticks"] = [];
  for (const piece of pieces) {
    if (piece.isGap) continue;
    const first = Math.ceil((piece.from - begin) / 1000 / step);
    const last = Math.floor((piece.to - begin) / 1000 / step);
    for (let each = first; each <= last; each++) {
      const seconds = each * step;
      const at = place(begin + seconds * 1000);
      const before = found.at(-1);
      if (before === undefined || at - before.at >= TICK_DISTANCE_MIN) found.push({ at, seconds });
    }
  }
  return found;
}
