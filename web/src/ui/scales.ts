// Scales: from values to places on a drawing. Owns ranges, round ticks, and how wide there is room.

import { useLayoutEffect, useState } from "preact/hooks";

/** The smallest and largest value; never the same, so that one can divide by the distance. */
export function range(values: number[]): { min: number; max: number } {
  let [min, max] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < min) min = value;
    if (value > max) max = value;
  }
  if (min > max) return { min: 0, max: 1 };
  return min === max ? { min: Math.min(min, 0), max: max > 0 ? max : min + 1 } : { min, max };
}

/** Round numbers between two values. */
export function ticks(min: number, max: number, wanted: number): number[] {
  const raw = (max - min) / wanted;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * ([1, 2, 5, 10].find((each) => each * unit >= raw) ?? 10);
  const found: number[] = [];
  for (let value = Math.ceil(min / step) * step; value <= max + step / 1e6; value += step) found.push(Number(value.toPrecision(12)));
  return found;
}

const SECOND = 1_000;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map((each) => each * SECOND);

/** Round moments between two, in the zone of the browser. */
export function timeTicks(from: number, to: number, wanted: number): { at: number; text: string }[] {
  const step = STEPS.find((each) => (to - from) / each <= wanted) ?? 86_400 * SECOND;
  const zone = new Date(from).getTimezoneOffset() * 60 * SECOND;
  const first = Math.ceil((from - zone) / step) * step + zone;
  const style: Intl.DateTimeFormatOptions = step >= 86_400 * SECOND ? { day: "numeric", month: "short" }
    : { hour: "2-digit", minute: "2-digit", ...(step < 60 * SECOND && { second: "2-digit" }) };
  const found: { at: number; text: string }[] = [];
  for (let at = first; at <= to && found.length < 50; at += step) {
    found.push({ at, text: new Intl.DateTimeFormat("en-GB", style).format(at) });
  }
  return found;
}

/** How wide an element is, as it changes. */
export function useWidth(box: { current: HTMLElement | null }, guess: number): number {
  const [width, setWidth] = useState(guess);
  useLayoutEffect(() => {
    const node = box.current;
    if (!node) return;
    const measure = (): void => setWidth(Math.max(200, Math.floor(node.clientWidth)));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(node);
    return () => observer.disconnect();
  });
  return width;
}

/** The point nearest to where the pointer is. */
export function nearest(points: { x: number }[], event: PointerEvent, box: HTMLElement | null, x: (ms: number) => number): number | null {
  if (!box) return null;
  const at = event.clientX - box.getBoundingClientRect().left;
  let [best, distance] = [-1, Infinity];
  points.forEach((point, index) => {
    const away = Math.abs(x(point.x) - at);
    if (away < distance) [best, distance] = [index, away];
  });
  return best < 0 ? null : best;
}
