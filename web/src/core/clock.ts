// Clock: one tick per second for everything that shows an age; it rests while nobody looks.

import { signal, type ReadonlySignal } from "@preact/signals";

const TICK_MS = 1_000;
const ticking = signal(Date.now());
/** The wall clock, once per second. */
export const now: ReadonlySignal<number> = ticking;
const shown = signal(document.visibilityState === "visible");
/** Whether anybody can see the page. */
export const isShown: ReadonlySignal<boolean> = shown;

let timer: number | undefined;

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
  ticking.value = Date.now();
  timer = window.setInterval(() => {
    ticking.value = Date.now();
  }, TICK_MS);
}
