// Unsent: what was written in this tab and is not known to have arrived. Each message has its id before the
// first attempt and keeps it, so that a reload, a double click or a server that dies in between all end in one
// message. Sends one after the other, in the order they were written. Knows no page.

import { say } from "./api.js";
import { newId } from "./ids.js";
import { delayMs, isPassing, Wait, why } from "./patience.js";
import { said } from "./sentences.js";

const PREFIX = "onceward.chat.unsent.";

function stay(event) {
  event.preventDefault();
}

export class Unsent {
  #group;
  #tell;
  #list;
  #isSending = false;
  #wait = null;

  /**
   * `tell(message)` hears of each that changed: `{…, trouble}` while it is tried again, `{…, isBehind}` while one
   * before it is, `{…, refused}` when the server will not have it, `{…, isSent}` when it has it.
   */
  constructor(group, tell) {
    this.#group = group;
    this.#tell = tell;
    this.#list = recall(group);
  }

  get all() {
    return [...this.#list];
  }

  /** Keep a message, and send it when those before it are sent. */
  add(sender, text) {
    const message = { id: newId(), sender, text, timestamp: new Date().toISOString() };
    const isBehind = this.#list.some((each) => each.trouble);
    this.#list.push(message);
    this.#keep();
    this.#tell({ ...message, isBehind });
    if (!isBehind) this.send();
  }

  /** Send what is left; goes on by itself until each has its final answer. */
  async send() {
    if (this.#isSending) {
      this.#wait?.cut();
      return;
    }
    this.#isSending = true;
    let attempt = 0;
    for (let next = this.#next(); next; next = this.#next()) {
      const { id, sender, text, timestamp } = next;
      if (attempt === 0) this.#tell(next);
      try {
        await say(this.#group, { id, sender, text, timestamp });
        attempt = 0;
        this.settle(id);
      } catch (error) {
        if (isPassing(error)) {
          this.#change(next, { trouble: why(error) });
          for (const each of this.#list) if (each !== next && !each.refused) this.#tell({ ...each, isBehind: true });
          this.#wait = new Wait(Math.max(delayMs(attempt), error.retryAfterMs ?? 0));
          attempt += 1;
          await this.#wait.done;
        } else {
          this.#change(next, { refused: said(error) });
        }
      }
    }
    this.#isSending = false;
  }

  /** It has arrived, whoever told us. */
  settle(id) {
    const found = this.#list.find((each) => each.id === id);
    if (!found) return;
    this.#list = this.#list.filter((each) => each !== found);
    this.#keep();
    this.#tell({ ...found, trouble: null, refused: null, isSent: true });
  }

  /** Send one that was refused once more, under its id. */
  retry(id) {
    const found = this.#list.find((each) => each.id === id);
    if (found) this.#change(found, { refused: null, trouble: null });
    this.send();
  }

  /** Forget one that was refused. */
  drop(id) {
    this.#list = this.#list.filter((each) => each.id !== id);
    this.#keep();
  }

  #next() {
    return this.#list.find((each) => !each.refused);
  }

  #change(message, changes) {
    // It may have arrived meanwhile, and nobody waits for it any more.
    if (!this.#list.includes(message)) return;
    Object.assign(message, changes);
    this.#keep();
    this.#tell(message);
  }

  #keep() {
    const isKept = keep(this.#group, this.#list);
    const isAtRisk = this.#list.some((each) => each.trouble || each.refused || !isKept);
    // A reload keeps it, but the browser asks for both alike, and closing the tab would lose it.
    if (isAtRisk) window.addEventListener("beforeunload", stay);
    else window.removeEventListener("beforeunload", stay);
  }
}

function recall(group) {
  try {
    const found = JSON.parse(sessionStorage.getItem(PREFIX + group));
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}

/** Return whether it outlives the page. */
function keep(group, list) {
  try {
    if (list.length) sessionStorage.setItem(PREFIX + group, JSON.stringify(list));
    else sessionStorage.removeItem(PREFIX + group);
    return true;
  } catch {
    return list.length === 0;
  }
}
