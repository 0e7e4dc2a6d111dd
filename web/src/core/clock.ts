// Clock: one tick per second for everything that shows an age; it stops while the page is hidden. It goes by the
// server's time: that of the machine in front of the person may be wrong by minutes.

import { signal, type ReadonlySignal } from "@preact/signals";

const TICK_MS = 1_000;
/** What lies between the two clocks is less than this where both are right. */
const SKEW_MIN_MS = 2_000;
/** How much later it is at the server than here. */
let skew = 0;
const ticking = signal(Date.now());
/** The wall clock of the server, once per second. */
export const now: ReadonlySignal<number> = ticking;
const shown = signal(document.visibilityState === "visible");
/** Whether the page is visible. */
export const isShown: ReadonlySignal<boolean> = shown;

let timer: number | undefined;

/** What time it is at the server. */
export function serverNow(): number {
  return Date.now() + skew;
}

/** An answer says when it was true: between the question and now. */
export function learnTime(asOf: string | undefined, askedAt: number): void {
  const serverTime = Date.parse(asOf ?? "");
  const here = Date.now();
  if (Number.isNaN(serverTime) || here - askedAt > SKEW_MIN_MS) return;
  const found = serverTime - here;
  const wanted = Math.abs(found) < SKEW_MIN_MS ? 0 : found;
  if (Math.abs(wanted - skew) >= SKEW_MIN_MS) skew = wanted;
}

export function startClock(): void {
  document.addEventListener("visibilitychange", () => {
    shown.value = document.visibilityState === "visible";
    run();
  });
  run();
}

function run(): void {
  clearInterval(timer);
  if (!shown.value) return;
  ticking.value = serverNow();
  timer = window.setInterval(() => {
    ticking.value = serverNow();
  }, TICK_MS);
}
