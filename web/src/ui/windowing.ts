// Windowing: which rows of a long table can be seen. Owns the measuring; draws nothing.

import { useEffect, useLayoutEffect, useState } from "preact/hooks";

/** Up to here everything is drawn. */
const ROWS_WHOLE_MAX = 200;
const ROWS_AROUND = 12;
const ROW_HEIGHT_GUESS = 37;

export interface View {
  isOn: boolean;
  first: number;
  last: number;
  height: number;
  /** Scroll so that a row is drawn. */
  reveal: (index: number) => void;
}

/** Follow the scrolling of the page; `count` rows stand in `body`. */
export function useWindow(body: { current: HTMLElement | null }, count: number): View {
  const isOn = count > ROWS_WHOLE_MAX;
  const [range, setRange] = useState({ first: 0, last: 60, height: ROW_HEIGHT_GUESS });

  function measure(): void {
    const node = body.current;
    if (!isOn || !node) return;
    const box = node.getBoundingClientRect();
    const height = rowHeight(node) ?? range.height;
    const first = Math.max(0, Math.floor(-box.top / height) - ROWS_AROUND);
    const last = Math.min(count, Math.ceil((innerHeight - box.top) / height) + ROWS_AROUND);
    setRange((old) => (old.first === first && old.last === last && old.height === height ? old : { first, last, height }));
  }

  useLayoutEffect(measure, [count, isOn]);
  useEffect(() => {
    if (!isOn) return;
    addEventListener("scroll", measure, { passive: true });
    addEventListener("resize", measure, { passive: true });
    return () => {
      removeEventListener("scroll", measure);
      removeEventListener("resize", measure);
    };
  }, [count, isOn]);

  function reveal(index: number): void {
    const node = body.current;
    if (!isOn || !node || index < 0 || (index >= range.first && index < range.last)) return;
    const top = node.getBoundingClientRect().top + scrollY;
    scrollTo({ top: top + index * range.height - innerHeight / 2, behavior: "instant" });
    measure();
  }

  return { isOn, ...range, reveal };
}

export type Part = { index: number } | { gap: number; at: number };

/** What to draw: rows in sight and the pinned one, with gaps as tall as what is left out. */
export function segments(view: View, count: number, pinned: number): Part[] {
  const wanted: number[] = [];
  const first = view.isOn ? Math.min(view.first, count) : 0;
  const last = view.isOn ? Math.min(view.last, count) : count;
  if (pinned >= 0 && pinned < first) wanted.push(pinned);
  for (let index = first; index < last; index += 1) wanted.push(index);
  if (pinned >= last) wanted.push(pinned);
  const parts: Part[] = [];
  let next = 0;
  for (const index of wanted) {
    if (index > next) parts.push({ gap: (index - next) * view.height, at: next });
    parts.push({ index });
    next = index + 1;
  }
  if (next < count) parts.push({ gap: (count - next) * view.height, at: next });
  return parts;
}

/** Rows of one table are alike; the mean of those that are drawn is near enough. */
function rowHeight(body: HTMLElement): number | undefined {
  const rows = [...body.querySelectorAll<HTMLElement>("tr[data-key]")].slice(0, 20);
  if (!rows.length) return undefined;
  return rows.reduce((sum, row) => sum + row.offsetHeight, 0) / rows.length || undefined;
}
