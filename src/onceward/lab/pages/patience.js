// Patience: what to do while the server is away: wait a little longer each time, show that on the
// banner, and let the person cut the wait short. Knows no page and no request.

import { Refused, Unreachable, peek } from "./api.js";
import { button, fill, part } from "./dom.js";

const FIRST_MS = 500;
const LONGEST_MS = 5_000;
const BEAT_MS = 15_000;

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

/** Do something that reads, again and again until the server answers; the banner tells of the wait. */
export async function patiently(work) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      const result = await work();
      hideBanner();
      return result;
    } catch (error) {
      if (!isPassing(error)) throw error;
      const wait = new Wait(delayMs(attempt));
      showAway(why(error), wait);
      await wait.done;
    }
  }
}

function showAway(reason, wait) {
  const again = button("Try now", () => wait.cut());
  const text = "Nothing you entered is lost: drafts are kept in this browser. Trying again by itself.";
  fill(part("banner"), `⚠ No answer from the server: ${reason}. ${text} `, again);
  part("banner").hidden = false;
}

export function hideBanner() {
  part("banner").hidden = true;
}

let watching = null;

/** Notice early when the server goes away, so that nobody finds out at the end only. */
export function watchServer(beat = () => {}) {
  stopWatching();
  const state = { stopped: false };
  watching = state;
  (async () => {
    while (!state.stopped) {
      await new Wait(BEAT_MS).done;
      if (state.stopped) return;
      if (document.hidden) continue;
      await patiently(async () => {
        if (!state.stopped && (await peek("/healthz")) === 0) throw new Unreachable("it cannot be reached");
      });
      if (!state.stopped) await Promise.resolve(beat()).catch(() => {});
    }
  })();
}

/** After the end nobody needs the server any more. */
export function stopWatching() {
  if (watching) watching.stopped = true;
  watching = null;
  hideBanner();
}
