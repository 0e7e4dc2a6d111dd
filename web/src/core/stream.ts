// Stream: what changed on the server, as it changes. Owns the connection, its state and its repair: an event
// stream with numbers to resume at, polling where that does not get through, a countdown where nothing does.

import { computed, effect, signal, type ReadonlySignal } from "@preact/signals";
import type { Schemas } from "../api/types";
import { ApiError, askAgain, get, heardAt, loadConfig } from "./api";
import { isShown, now, serverNow } from "./clock";

export type Area =
  | "cursors" | "workers" | "outcomes" | "dead" | "alerts" | "runs" | "memory" | "lab" | "dispatch" | "audit";
export type Connection = "live" | "paused" | "stale" | "offline";

type Changed = Schemas["ChangedAreas"];
type Polled = Schemas["ChangeList"];

const PATH = "/api/console/events";
const BEAT_MS = 2_000;
/** Three beats missed, and a little for the road. */
const SILENCE_MS = 3 * BEAT_MS + 500;
const RETRY_MS = [1_000, 2_000, 4_000, 8_000, 15_000];
/** A stream that opens speaks at once; one that does not is held up on the road. */
const FIRST_WORD_MS = 3_500;
const POLL_TIMEOUT_MS = 5_000;
/** From polling back to the stream: after so many polls, and not for ever. */
const POLLS_PER_TRY = 15;
const TRIES_MAX = 3;
/** Beats in a row that tell of the same moment. */
const REPEATS_MAX = 2;

/** Whether the person asked for stillness. */
export const isPaused = signal(false);
/** Why the server does not let this page know anything, where it says so. */
export const refusal = signal<string | null>(null);
const state = signal<"live" | "connecting" | "stale" | "offline">("connecting");
const retryAt = signal<number | null>(null);
/** While the server speaks but cannot reach its store: when it last could. */
const away = signal<string | null>(null);
/** Whether it is the store that is gone, and not the server. */
export const isStoreAway: ReadonlySignal<boolean> = computed(() => away.value !== null);
const handlers = new Set<(areas: Area[] | "all") => void>();

let source: EventSource | null = null;
let timer: number | undefined;
let watchdog: number | undefined;
let last: number | null = null;
let failures = 0;
let lastAsOf: string | undefined;
let repeats = 0;
let polls = 0;
let tries = 0;
/** Grows with every connection: what an older one still says is not heard. */
let generation = 0;

/** What the person should know about how fresh everything is. */
export const connection: ReadonlySignal<Connection> = computed(() => {
  if (isPaused.value) return "paused";
  if (state.value === "stale" || state.value === "offline") return state.value;
  return away.value === null ? "live" : "stale";
});
/** Seconds since the server last said anything. */
export const dataAge: ReadonlySignal<number | null> = computed(() => {
  if (away.value !== null) return Math.max(0, Math.floor((now.value - Date.parse(away.value)) / 1000));
  now.value;
  return heardAt.value === null ? null : Math.max(0, Math.floor((performance.now() - heardAt.value) / 1000));
});
/** Seconds until the next attempt; null when there is none to wait for. */
export const retryIn: ReadonlySignal<number | null> = computed(() =>
  retryAt.value === null ? null : Math.max(0, Math.ceil((retryAt.value - now.value) / 1000)),
);

/** Hear of every change; returns what ends that. */
export function onChange(handler: (areas: Area[] | "all") => void): () => void {
  handlers.add(handler);
  return () => handlers.delete(handler);
}

export function startStream(): void {
  effect(() => {
    const isOn = isShown.value && !isPaused.value;
    // What happens in there must not be followed by this effect.
    queueMicrotask(isOn ? connect : disconnect);
  });
}

export function togglePause(): void {
  isPaused.value = !isPaused.value;
}

/** Try again at once. */
export function retryNow(): void {
  failures = 0;
  askAgain();
  connect();
}

function disconnect(): void {
  generation += 1;
  source?.close();
  source = null;
  clearTimeout(timer);
  clearTimeout(watchdog);
  retryAt.value = null;
}

function connect(): void {
  disconnect();
  if (!isShown.value || isPaused.value) return;
  const mine = generation;
  if (typeof EventSource === "undefined") {
    void poll(mine);
    return;
  }
  const opened = new EventSource(last === null ? PATH : `${PATH}?since=${last}`);
  source = opened;
  const hear = (name: string, take: (change: Partial<Changed>) => void): void => {
    opened.addEventListener(name, (event) => {
      if (mine !== generation) return;
      polls = tries = 0;
      heard();
      take(JSON.parse((event as MessageEvent<string>).data) as Partial<Changed>);
    });
  };
  hear("beat", ({ n, as_of }) => {
    last = n ?? last;
    compare(as_of);
  });
  hear("changed", (change) => take(change as Changed));
  hear("reset", ({ n }) => reset(n));
  opened.onerror = () => {
    if (mine === generation) void poll(mine);
  };
  watch(FIRST_WORD_MS);
}

/** The stream does not get through, or the server is gone: the plain question tells which. */
async function poll(mine: number): Promise<void> {
  source?.close();
  source = null;
  clearTimeout(watchdog);
  try {
    const timeout = AbortSignal.timeout(POLL_TIMEOUT_MS);
    const answer = await get<Polled>(PATH, { poll: 1, since: last }, timeout);
    if (mine !== generation) return;
    heard();
    compare(answer.as_of);
    if (answer.is_reset) reset(answer.next);
    answer.events.forEach(take);
    last = answer.next;
    const isTry = polls % POLLS_PER_TRY === 0 && tries < TRIES_MAX && typeof EventSource !== "undefined";
    polls += 1;
    if (isTry) tries += 1;
    timer = window.setTimeout(() => (isTry ? connect() : void poll(mine)), BEAT_MS);
  } catch (problem) {
    if (mine !== generation) return;
    refusal.value = problem instanceof ApiError && problem.status > 0 ? problem.message : null;
    retryLater();
  }
}

function retryLater(): void {
  disconnect();
  state.value = "offline";
  const delay = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)] ?? 15_000;
  failures += 1;
  retryAt.value = serverNow() + delay;
  timer = window.setTimeout(connect, delay);
}

function heard(): void {
  const wasAway = state.value === "stale" || state.value === "offline";
  // What changed between the first question of a screen and the first word of the stream is in neither.
  if (state.value === "connecting") queueMicrotask(() => tell("all"));
  heardAt.value = performance.now();
  state.value = "live";
  retryAt.value = null;
  failures = 0;
  watch();
  // It may be another server by now, with another token and another version.
  if (wasAway) void loadConfig().catch(() => undefined);
}

/** Expect a word; without one, look for the reason, and say that what is shown is old once it is. */
function watch(ms = SILENCE_MS): void {
  clearTimeout(watchdog);
  const mine = generation;
  watchdog = window.setTimeout(() => {
    if (mine !== generation) return;
    const silence = heardAt.value === null ? Infinity : performance.now() - heardAt.value;
    if (silence >= SILENCE_MS - 50) state.value = "stale";
    void poll(mine);
  }, ms);
}

/** The moment that a beat tells of goes on with the clock; where it stands still, the store is out of reach. */
function compare(asOf: string | undefined): void {
  repeats = asOf !== undefined && asOf === lastAsOf ? repeats + 1 : 0;
  lastAsOf = asOf;
  away.value = repeats >= REPEATS_MAX ? (asOf ?? null) : null;
}

function take(change: Changed): void {
  last = change.n;
  tell(change.areas as Area[]);
}

function reset(number: number | undefined): void {
  last = number ?? null;
  // The number is unknown: it may be another server, with another token, version and permission.
  void loadConfig().catch(() => undefined);
  tell("all");
}

function tell(areas: Area[] | "all"): void {
  for (const handler of handlers) handler(areas);
}
