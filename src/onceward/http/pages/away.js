// Away: tells on the banner that the server is away, and goes on when it is back; the person can cut the wait
// short. The shell has the banner, and on it words of comfort. Knows no page and no request.

import { peek, Unreachable } from "./calling.js";
import { button, fill, part } from "./dom.js";
import { delayMs, isPassing, Wait, why } from "./patience.js";

const BEAT_MS = 15_000;

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
  const banner = part("banner");
  fill(banner, `⚠ No answer from the server: ${reason}. ${banner.dataset.comfort} Trying again by itself. `, again);
  banner.hidden = false;
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
