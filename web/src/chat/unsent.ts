// Unsent: what was written in this tab and is not known to have arrived. Each message has its id before the
// first attempt and keeps it, so that a reload, a double click or a server that dies in between all end in one
// message. Sends one after the other, in the order they were written. Knows no page.

import { signal, type ReadonlySignal } from "@preact/signals";
import { asApiError, freshKey } from "../core/api";
import { delayMs, mayPass, said, Wait, why } from "../core/patience";
import { type Message, say } from "./server";

const PREFIX = "onceward.chat.unsent.";

export interface Outgoing extends Message {
  /** Why the last attempt failed, while it is tried again. */
  trouble?: string | null;
  /** Why the server will not have it. */
  refused?: string | null;
  /** The server has it; shown until the conversation shows it. */
  isSent?: boolean;
}

const all = new Map<string, Unsent>();

/** The one of a group: a second one would send everything a second time. */
export function unsentOf(group: string): Unsent {
  const found = all.get(group) ?? new Unsent(group);
  all.set(group, found);
  return found;
}

export class Unsent {
  readonly #group: string;
  readonly #list = signal<Outgoing[]>([]);
  #isSending = false;
  #wait: Wait | null = null;

  constructor(group: string) {
    this.#group = group;
    this.#list.value = recall(group);
  }

  get items(): ReadonlySignal<Outgoing[]> {
    return this.#list;
  }

  /** Keep a message, and send it when those before it are sent. */
  add(sender: string, text: string): void {
    const isBehind = this.#list.peek().some((each) => each.trouble);
    this.#set([...this.#list.peek(), { id: freshKey(), sender, text, timestamp: new Date().toISOString() }]);
    if (!isBehind) void this.send();
  }

  /** Send what is left; goes on by itself until each has its final answer. */
  async send(): Promise<void> {
    if (this.#isSending) {
      this.#wait?.cut();
      return;
    }
    this.#isSending = true;
    let attempt = 0;
    for (let next = this.#next(); next; next = this.#next()) {
      const { id } = next;
      try {
        await say(this.#group, next);
        attempt = 0;
        this.settle(id);
      } catch (error) {
        if (mayPass(error)) {
          this.#change(id, { trouble: why(error) });
          this.#wait = new Wait(Math.max(delayMs(attempt), asApiError(error).retryAfterMs));
          attempt += 1;
          await this.#wait.done;
        } else {
          attempt = 0;
          this.#change(id, { trouble: null, refused: said(error) });
        }
      }
    }
    this.#isSending = false;
  }

  /** The server has it. */
  settle(id: string): void {
    this.#change(id, { trouble: null, refused: null, isSent: true });
  }

  /** Send one that was refused once more, under its id; one that waits, at once. */
  retry(id: string): void {
    this.#change(id, { trouble: null, refused: null });
    void this.send();
  }

  /** Forget one: it was refused and taken back, or the conversation shows it. */
  drop(id: string): void {
    if (this.#list.peek().some((each) => each.id === id)) this.#set(this.#list.peek().filter((each) => each.id !== id));
  }

  #next(): Outgoing | undefined {
    return this.#list.peek().find((each) => !each.refused && !each.isSent);
  }

  #change(id: string, changes: Partial<Outgoing>): void {
    const list = this.#list.peek();
    // It may have arrived meanwhile, and is not waited for any more.
    if (!list.some((each) => each.id === id && !each.isSent)) return;
    this.#set(list.map((each) => (each.id === id ? { ...each, ...changes } : each)));
  }

  #set(list: Outgoing[]): void {
    this.#list.value = list;
    const left = list.filter((each) => !each.isSent);
    const isKept = keep(this.#group, left);
    // A reload keeps it, but the browser asks for both alike, and closing the tab would lose it.
    if (left.some((each) => each.trouble || each.refused || !isKept)) addEventListener("beforeunload", this.#stay);
    else removeEventListener("beforeunload", this.#stay);
  }

  // One for each group, because removing it must not remove that of another.
  readonly #stay = (event: Event): void => event.preventDefault();
}

function recall(group: string): Outgoing[] {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(PREFIX + group) ?? "[]");
    return Array.isArray(found) ? (found as Outgoing[]) : [];
  } catch {
    return [];
  }
}

/** Return whether it outlives the page. */
function keep(group: string, list: Outgoing[]): boolean {
  try {
    if (list.length) sessionStorage.setItem(PREFIX + group, JSON.stringify(list));
    else sessionStorage.removeItem(PREFIX + group);
    return true;
  } catch {
    return list.length === 0;
  }
}
