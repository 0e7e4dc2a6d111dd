// Submission: gets one body to the server exactly once. The request id and the body are kept before the first
// attempt, so that a reload, a double click and a server that dies in the middle all end in one entry. As long as an
// attempt may have arrived, its id is kept: the same body is sent again under it. An edited body is sent under it,
// too, and the server refuses that one if an earlier version had arrived. Knows no form.

import { ApiError, freshKey, sendOnce } from "../core/api";
import { delayMs, mayPass, Wait, why } from "../core/patience";
import { forget, keep, recall } from "./drafts";

/** The server's code for an id that was carried out with another body. */
const OTHER_BODY = "KEY_REUSED";

interface Kept {
  id: string;
  body: string;
  /** Other bodies that were sent under this id. */
  earlier: string[];
  /** Whether no page is sending it now. */
  held: boolean;
  /** Whether an attempt may have arrived without an answer. */
  doubt: boolean;
}

export type News = { state: "sending"; attempt: number } | { state: "waiting"; why: string };

export type End =
  | { kind: "done" }
  | { kind: "held" }
  /** An earlier version was carried out instead; null if it is not known. */
  | { kind: "arrived"; body: object | null }
  | { kind: "refused"; error: unknown; doubt: boolean };

/** Whether a submission in this slot was being sent when its page went away. */
export function isUnfinished(slot: string): boolean {
  const kept = recall<Kept>(`pending.${slot}`);
  return kept !== null && !kept.held;
}

function stay(event: BeforeUnloadEvent): void {
  event.preventDefault();
}

export class Submission {
  readonly #slot: string;
  readonly #path: string;
  readonly #tell: (news: News) => void;
  #wait: Wait | null = null;
  #isStopped = false;
  #running: Promise<End> | null = null;
  #kept: Kept | null = null;

  /** `slot` names what is judged; `tell` hears each attempt and each wait. */
  constructor({ slot, path, tell }: { slot: string; path: string; tell: (news: News) => void }) {
    this.#slot = `pending.${slot}`;
    this.#path = path;
    this.#tell = tell;
  }

  /** A body that was being sent when its page went away, or null. */
  get unfinished(): object | null {
    const kept = recall<Kept>(this.#slot);
    return kept && !kept.held ? (JSON.parse(kept.body) as object) : null;
  }

  /** Send until there is a final answer, or the person stops it. */
  send(body: object): Promise<End> {
    this.#running ??= this.#send(JSON.stringify(body)).finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #send(text: string): Promise<End> {
    const { kept, wasAmbiguous } = this.#begin(text);
    let doubt = wasAmbiguous;
    const markAmbiguous = (): void => {
      doubt = true;
    };
    for (const body of [text, ...kept.earlier]) {
      const { isDone, error } = await this.#attempt(body, kept.id, markAmbiguous);
      if (this.#isStopped && !isDone) return { kind: "held" };
      if (isDone && body === text) {
        this.settle();
        return { kind: "done" };
      }
      // What was carried out stays kept until the page has dealt with it.
      if (isDone) {
        this.#keep({ held: true });
        return { kind: "arrived", body: JSON.parse(body) as object };
      }
      if (!(error instanceof ApiError) || error.code !== OTHER_BODY) return this.#giveUp(error, doubt);
    }
    this.#keep({ held: true });
    return { kind: "arrived", body: null };
  }

  /** Choose the id, and keep everything; also return whether an attempt under this id may have arrived before. */
  #begin(text: string): { kept: Kept; wasAmbiguous: boolean } {
    const kept = recall<Kept>(this.#slot);
    const isSame = kept?.body === text;
    // What is not held, another tab is sending: that is its own, and has its own id.
    const isEdited = !isSame && kept?.held && kept.doubt !== false;
    const earlier = kept && (isSame || isEdited) ? [...new Set([kept.body, ...(kept.earlier ?? [])])] : [];
    const wasAmbiguous = kept !== null && earlier.length > 0 && kept.doubt !== false;
    this.#isStopped = false;
    // The page may go away at any moment, which leaves this attempt ambiguous.
    const fresh: Kept = {
      id: kept && earlier.length ? kept.id : freshKey(),
      body: text,
      earlier: earlier.filter((each) => each !== text),
      held: false,
      doubt: true,
    };
    this.#kept = fresh;
    this.#keep({});
    return { kept: fresh, wasAmbiguous };
  }

  /** Send one body until it is answered, or the person stops it. */
  async #attempt(text: string, id: string, markAmbiguous: () => void): Promise<{ isDone: boolean; error?: unknown }> {
    for (let attempt = 0; ; attempt += 1) {
      this.#tell({ state: "sending", attempt });
      try {
        await sendOnce(this.#path, text, { "X-CM-LAB-REQUEST-ID": id });
        return { isDone: true };
      } catch (error) {
        if (!mayPass(error)) return { isDone: false, error };
        const { status, retryAfterMs } = error as ApiError;
        if (status !== 429) markAmbiguous();
        if (this.#isStopped) return { isDone: false };
        this.#wait = new Wait(Math.max(delayMs(attempt), retryAfterMs));
        this.#tell({ state: "waiting", why: why(error) });
        await this.#wait.done;
        if (this.#isStopped) return { isDone: false };
      }
    }
  }

  #giveUp(error: unknown, doubt: boolean): End {
    const isAnswer = error instanceof ApiError;
    // Without the token nothing was decided about this body: it keeps its id, and the person tries again.
    const isUndecided = isAnswer && error.status === 401;
    if (doubt || isUndecided || !isAnswer) this.#keep({ held: true, doubt: doubt || !isAnswer });
    else this.settle();
    return { kind: "refused", error, doubt };
  }

  #keep(changes: Partial<Kept>): void {
    if (this.#kept === null) return;
    this.#kept = { ...this.#kept, ...changes };
    const place = keep(this.#slot, this.#kept);
    this.#guard(place !== "browser" && !this.#kept.held);
  }

  /** The browser asks before it leaves a page whose submission would be lost with the tab. */
  #guard(isNeeded: boolean): void {
    if (isNeeded) window.addEventListener("beforeunload", stay);
    else window.removeEventListener("beforeunload", stay);
  }

  /** It is decided: forget it, but not what another tab is sending. */
  settle(): void {
    const id = this.#kept?.id;
    forget(this.#slot, (text) => (JSON.parse(text) as Kept).id === id);
    this.#kept = null;
    this.#guard(false);
  }

  /** Attempt again at once. */
  tryNow(): void {
    this.#wait?.cut();
  }

  /** Stop trying. The id stays, in case the same or a changed body is submitted. */
  hold(): void {
    this.#keep({ held: true });
    this.leave();
  }

  /** Stop trying because the screen is left; the screen sends it again when it is opened the next time. */
  leave(): void {
    this.#isStopped = true;
    this.#wait?.cut();
  }
}
