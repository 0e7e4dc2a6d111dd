// Patience: what to do while the server is away: wait a little longer each time. Knows no page.

import { Refused, Unreachable } from "./calling.js";

const FIRST_MS = 500;
const LONGEST_MS = 5_000;

/** How long to wait before the next attempt. */
export function delayMs(attempt) {
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** attempt);
}

/** A wait that can be cut short. */
export class Wait {
  constructor(ms) {
    this.done = new Promise((resolve) => {
      this.cut = resolve;
      this.timer = setTimeout(resolve, ms);
    });
    this.done.then(() => clearTimeout(this.timer));
  }
}

/** Whether asking again may help. */
export function isPassing(error) {
  return error instanceof Unreachable || (error instanceof Refused && error.isPassing);
}

/** Say why an attempt failed, as the middle of a sentence. */
export function why(error) {
  if (error instanceof Unreachable) return error.message;
  if (error.code === "IN_FLIGHT") return "it is still working on the first attempt";
  return `it answered ${error.status}: ${error.message}`;
}
