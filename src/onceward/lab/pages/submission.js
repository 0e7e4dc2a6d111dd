// Submission: gets one body to the server exactly once. The id and the body are kept before the first
// attempt, so that a reload, a double click, or a server that dies in the middle all end in one entry. As long
// as an attempt may have arrived, its id is kept: the same body is sent again under it, and an edited one too,
// which the server refuses when an earlier version had arrived. Knows no form.

import { post, Refused } from "./api.js";
import { forget, keep, recall } from "./drafts.js";
import { newId } from "./ids.js";
import { delayMs, isPassing, Wait, why } from "./patience.js";
import { NoToken } from "./token.js";

/** The server's word that an id was carried out with another body. */
const OTHER_BODY = "KEY_REUSED";

/** Whether something about this slot was on its way when a page went away. */
export function isUnfinished(slot) {
  const kept = recall(`pending.${slot}`);
  return kept !== null && !kept.held;
}

function stay(event) {
  event.preventDefault();
}

export class Submission {
  #slot;
  #path;
  #tell;
  #wait = null;
  #held = false;
  #running = null;
  /**
   * What is kept: `{id, body, earlier, held, doubt}`; `earlier` are other bodies that were sent under this id,
   * `doubt` says whether an attempt may have arrived without an answer, `held` that nobody sends it now.
   */
  #kept = null;

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

  /**
   * Send until there is a final answer: `{done}`, `{refused, doubt}`, `{arrived}` with the earlier version that
   * was carried out instead (null if it is not known), or `{held: true}` when somebody stopped it.
   */
  send(body) {
    this.#running ??= this.#send(JSON.stringify(body)).finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #send(text) {
    let doubt = this.#begin(text);
    const inDoubt = () => (doubt = true);
    for (const body of [text, ...this.#kept.earlier]) {
      const { done, error } = await this.#attempt(body, inDoubt);
      if (this.#held && !done) return { held: true };
      if (done && body === text) {
        this.settle();
        return { done };
      }
      // What was carried out stays kept until the page says that it has dealt with it.
      if (done) {
        this.#keep({ held: true });
        return { arrived: JSON.parse(body) };
      }
      if (error.code !== OTHER_BODY) return this.#giveUp(error, doubt);
    }
    this.#keep({ held: true });
    return { arrived: null };
  }

  /** Choose the id, and keep everything; return whether an attempt under this id may have arrived before. */
  #begin(text) {
    const kept = recall(this.#slot);
    const isSame = kept?.body === text;
    // What is not held, another tab is sending: that is its own, and has its own id.
    const isEdited = !isSame && kept?.held && kept.doubt !== false;
    const earlier = isSame || isEdited ? [...new Set([kept.body, ...(kept.earlier ?? [])])] : [];
    const doubt = earlier.length > 0 && kept.doubt !== false;
    this.#held = false;
    this.#kept = { id: earlier.length ? kept.id : newId(), body: text };
    // The page may go away at any moment, which leaves this attempt in doubt.
    this.#keep({ earlier: earlier.filter((each) => each !== text), held: false, doubt: true });
    return doubt;
  }

  /** Send one body until it is answered, or somebody stops it: `{done}`, `{error}`, or nothing. */
  async #attempt(text, inDoubt) {
    for (let attempt = 0; ; attempt += 1) {
      this.#tell({ state: "sending", attempt });
      try {
        return { done: await post(this.#path, text, this.#kept.id) };
      } catch (error) {
        if (!isPassing(error)) return { error };
        if (error.status !== 429) inDoubt();
        if (this.#held) return {};
        this.#wait = new Wait(Math.max(delayMs(attempt), error.retryAfterMs ?? 0));
        this.#tell({ state: "waiting", why: why(error) });
        await this.#wait.done;
        if (this.#held) return {};
      }
    }
  }

  #giveUp(error, doubt) {
    const isAnswer = error instanceof Refused || error instanceof NoToken;
    // Without the token nothing was decided about this body: it keeps its id, and the person tries again.
    const isOpen = error instanceof NoToken || error.status === 401;
    if (doubt || isOpen || !isAnswer) this.#keep({ held: true, doubt: doubt || !isAnswer });
    else this.settle();
    if (!isAnswer) throw error;
    return { refused: error, doubt };
  }

  #keep(changes) {
    this.#kept = { ...this.#kept, ...changes };
    const place = keep(this.#slot, this.#kept);
    this.#guard(place !== "browser" && !this.#kept.held);
  }

  /** What would be lost with the tab is not left without a question. */
  #guard(isNeeded) {
    if (isNeeded) window.addEventListener("beforeunload", stay);
    else window.removeEventListener("beforeunload", stay);
  }

  /** It is decided: forget it, but not what another tab has under way. */
  settle() {
    const id = this.#kept?.id;
    forget(this.#slot, (text) => JSON.parse(text).id === id);
    this.#kept = null;
    this.#guard(false);
  }

  /** Attempt again at once. */
  tryNow() {
    this.#wait?.cut();
  }

  /** Stop trying. The id stays, in case it is sent once more, changed or not. */
  hold() {
    this.#keep({ held: true });
    this.#held = true;
    this.#wait?.cut();
  }
}
