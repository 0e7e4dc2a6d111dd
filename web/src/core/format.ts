// Format: numbers, durations and times as people read them. Ages are by the server's clock.

import { serverNow } from "./clock";

export const NOTHING = "–";
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
const dated = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
});

/** A span of time with its units: at most two of them, none for what is not known. */
export function duration(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds)) return NOTHING;
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds === 0) return "0 s";
  if (seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${trim(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < MINUTE) return `${whole} s`;
  if (whole < HOUR) return pair(whole, MINUTE, "min", 1, "s");
  if (whole < DAY) return pair(whole, HOUR, "h", MINUTE, "min");
  return pair(whole, DAY, "d", HOUR, "h");
}

/** A number short enough for a column: 950, 12.3 k, 4.1 M. */
export function count(n: number | null | undefined): string {
  if (n == null || !Number.isFinite(n)) return NOTHING;
  const size = Math.abs(n);
  if (size < 1000) return trim(n);
  for (const [unit, name] of [[1e3, "k"], [1e6, "M"], [1e9, "G"]] as const) {
    // 999,950 would round to "1000 k".
    if (size < unit * 999.95 || name === "G") return `${trim(n / unit)} ${name}`;
  }
  return NOTHING;
}

/** Every digit, in groups. */
export function exact(n: number | null | undefined): string {
  return n == null || !Number.isFinite(n) ? NOTHING : grouped.format(n);
}

/** A moment: how far away it is, and which one exactly, with its zone. */
export function when(at: string | null | undefined, now: number = serverNow()): { relative: string; absolute: string } {
  const ms = at ? Date.parse(at) : NaN;
  if (Number.isNaN(ms)) return { relative: NOTHING, absolute: at ?? "" };
  const away = (now - ms) / 1000;
  return { relative: distance(away), absolute: dated.format(ms) };
}

/** 1 run, 2 runs. */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}

/** A text as a sentence of its own: our messages begin small and end open, as parts of lines do. */
export function sentence(text: string): string {
  const line = text.trim();
  return ended(line.charAt(0).toUpperCase() + line.slice(1));
}

export function ended(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

function distance(seconds: number): string {
  const size = Math.abs(seconds);
  if (size < 1) return "now";
  const coarse = size < MINUTE ? `${Math.floor(size)} s`
    : size < HOUR ? `${Math.floor(size / MINUTE)} min`
    : size < DAY ? `${Math.floor(size / HOUR)} h`
    : `${Math.floor(size / DAY)} d`;
  return seconds < 0 ? `in ${coarse}` : `${coarse} ago`;
}

function pair(seconds: number, big: number, bigName: string, small: number, smallName: string): string {
  const upper = Math.floor(seconds / big);
  const lower = Math.floor((seconds % big) / small);
  return lower ? `${upper} ${bigName} ${lower} ${smallName}` : `${upper} ${bigName}`;
}

function trim(n: number): string {
  return String(Math.round(n * 10) / 10);
}

const EVENT_WORDS: Record<string, string> = { steal: "takeover", refused: "rejected", dead: "dead letter" };

/** What a recorded event is called, where its stored kind is another word. */
export function eventWord(kind: string): string {
  return EVENT_WORDS[kind] ?? kind;
}
