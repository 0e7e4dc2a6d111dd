// Submission: gets one body to the server exactly once. The id and the body are kept before the first
// attempt, so that a reload, a double click, or a server that dies in the middle all end in one entry:
// the same body always travels under the same id until a final answer. Knows no form.

import { post, Refused } from "./api.js";
import { forget, keep, newId, recall } from "./drafts.js";
import { delayMs, isPassing, Wait, why } from "./patience.js";
import { NoToken } from "./token.js";

/** Whether something about this slot was on its way when a page went away. */
export function isUnfinished(slot) {
  const kept = recall(`pending.${slot}`);
  return kept !== null && !kept.held;
}

export class Submission {
  #slot;
  #path;
  #tell;
  #wait = null;
  #held = false;
  #running = null;

  /** `slot` names the thing that is judged; `tell` hears `{state: "sending" | "waiting", …}`. */
  constructor({ slot, path, tell }) {
    this.#slot = `pending.${slot}`;
    this.#path = path;
    this.#tell = tell;
  }

  /** A body that was on its way when the page went away, or null. */
  get unfinished() {
    const kept = recall(this.#slot);
    return kept && !kept.held ? JSON.parse(kept.body) : null;
  }

  /** Send until there is a final answer: `{done}`, `{refused}`, or `{held: true}` when somebody stopped it. */
  send(body) {
    this.#running ??= this.#send(JSON.stringify(body)).finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #send(text) {
    const kept = recall(this.#slot);
    const id = kept?.body === text ? kept.id : newId();
    this.#held = false;
    keep(this.#slot, { id, body: text, held: false });
    for (let attempt = 0; ; attempt += 1) {
      this.#tell({ state: "sending", attempt });
      try {
        const done = await post(this.#path, text, id);
        forget(this.#slot);
        return { done };
      } catch (error) {
        if (!isPassing(error)) return this.#giveUp(error, id, text);
        this.#wait = new Wait(Math.max(delayMs(attempt), error.retryAfterMs ?? 0));
        this.#tell({ state: "waiting", why: why(error) });
        await this.#wait.done;
        if (this.#held) return { held: true };
      }
    }
  }

  #giveUp(error, id, text) {
    if (error instanceof NoToken || error.status === 401) {
      // Nothing was decided about this body: it keeps its id, and the person tries again.
      keep(this.#slot, { id, body: text, held: true });
      return { refused: error };
    }
    if (!(error instanceof Refused)) throw error;
    forget(this.#slot);
    return { refused: error };
  }

  /** Attempt again at once. */
  tryNow() {
    this.#wait?.cut();
  }

  /** Stop trying. The id stays with its body, in case it is sent once more unchanged. */
  hold() {
    const kept = recall(this.#slot);
    if (kept) keep(this.#slot, { ...kept, held: true });
    this.#held = true;
    this.#wait?.cut();
  }
}
