// Words: how the state of a cursor is said in a sentence.

import { count, duration, when } from "../../core/format";
import type { CursorItem, CursorWord, Shape } from "./types";

/** A cursor that needs longer than a week counts as not draining. */
const DRAIN_SECONDS_MAX = 7 * 86_400;

type Kind = "ok" | "busy" | "wait" | "warn" | "bad" | "off";

export const STATE_KINDS: Record<CursorWord, Kind> = {
  held: "ok",
  free: "wait",
  expired: "bad",
  paused: "off",
};

/** What each shape of the lag over time means. */
export const SHAPES: Record<Shape, { kind: Kind; text: string }> = {
  climb: { kind: "warn", text: "More comes in than goes out." },
  staircase: { kind: "warn", text: "It stops again and again: look for a message that fails." },
  plateau: { kind: "bad", text: "Nothing moves, and there is something to do." },
  "saw-tooth": { kind: "ok", text: "It falls behind and catches up: batches." },
  quiet: { kind: "ok", text: "There is nothing to do." },
  unknown: { kind: "off", text: "Too few measures to tell." },
};

/** A worker is `host/pid/random`; people know the first two. */
export function shortWorker(worker: string): string {
  const parts = worker.split("/");
  return parts.length >= 3 ? `${parts[0]}/${parts[1]}` : worker;
}

export function position(at: string | null): string {
  return at === null ? "the start" : at;
}

export function cursorHref(name: string): string {
  return `/cursors/${encodeURIComponent(name)}`;
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Who has it, as a sentence that begins with the word for its state. */
export function holding(cursor: CursorItem): string {
  const owner = cursor.lease_owner === null ? "no worker" : shortWorker(cursor.lease_owner);
  if (cursor.state === "held") return `by ${owner} under epoch ${cursor.epoch}.`;
  if (cursor.state === "expired") return `is the lease of ${owner}, and no worker has taken over.`;
  if (cursor.state === "paused") return cursor.is_held ? `while ${owner} finishes what it has begun.` : "by hand.";
  return "for the next worker.";
}

/** A moment in a server's sentence, as far away as it is. */
export function spoken(text: string): string {
  return text.replace(/\bat (\d{4}-\d\d-\d\dT[\d:.]+Z)/g, (_, at: string) => when(at).relative);
}

/** How long until it has caught up; null when that is not in sight. */
export function draining({ measure }: CursorItem): number | null {
  const seconds = measure?.drain_seconds ?? null;
  return seconds === null || seconds > DRAIN_SECONDS_MAX ? null : seconds;
}

/** How far behind it is, and for how long, in one sentence. */
export function behind(cursor: CursorItem): string {
  const measure = cursor.measure;
  if (measure === null) return "Its lag has not been measured.";
  if (measure.lag_messages === 0) return "It is up to date.";
  const many = measure.lag_messages === null ? "An unknown number of messages" : plural(measure.lag_messages, "message");
  const since = measure.lag_seconds === null ? "" : `, the oldest for ${duration(measure.lag_seconds)}`;
  const verb = measure.lag_messages === 1 ? "waits" : "wait";
  return `${many} ${verb}${since}; ${pace(cursor)}`;
}

function pace(cursor: CursorItem): string {
  const rate = cursor.measure?.rate_per_minute ?? null;
  if (rate === null) return "the rate is not known yet.";
  if (rate < 0.5) return "hardly any was processed lately.";
  const seconds = draining(cursor);
  const perMinute = `${count(Math.round(rate))} per minute`;
  return seconds === null ? `${perMinute} are processed.` : `at ${perMinute} it catches up in ${duration(seconds)}.`;
}
