// Talk: one conversation as it goes on: what was said, the state of its group, and what came before. Follows it
// until it is ended. Knows no page.

import { type ReadonlySignal, signal } from "@preact/signals";
import { ApiError, asApiError } from "../core/api";
import { patiently } from "../core/patience";
import { type Item, nameOf, type State, type Talk as Page } from "./models";
import { getLast, getNews } from "./server";
import { type Unsent } from "./unsent";

const PAGE = 50;

export class Talk {
  readonly #group: string;
  readonly #unsent: Unsent;
  readonly #items = signal<Item[] | null>(null);
  readonly #state = signal<State | null>(null);
  readonly #before = signal<string | null>(null);
  readonly #turn = signal(0);
  readonly #lost = signal<string | null>(null);
  #isLoading = false;

  constructor(group: string, unsent: Unsent) {
    this.#group = group;
    this.#unsent = unsent;
  }

  /** What was said, in the order of its numbers; null before the first answer. */
  get items(): ReadonlySignal<Item[] | null> {
    return this.#items;
  }

  get state(): ReadonlySignal<State | null> {
    return this.#state;
  }

  /** The cursor of what was said before; null when there is nothing more. */
  get before(): ReadonlySignal<string | null> {
    return this.#before;
  }

  /** Grows when another store answers, where everything begins again. */
  get turn(): ReadonlySignal<number> {
    return this.#turn;
  }

  /** Why there is no news any more. */
  get lost(): ReadonlySignal<string | null> {
    return this.#lost;
  }

  /** Show the end of it, go on with what this tab had not sent, and wait for news until it is ended. */
  async follow(signal: AbortSignal): Promise<void> {
    const first = await patiently(() => getLast(this.#group, PAGE, null, signal), signal);
    this.#begin(first);
    void this.#unsent.send();
    try {
      await this.#listen(first, signal);
    } catch (error) {
      if (signal.aborted) return;
      const { status, message } = asApiError(error);
      const what = status === 404 ? "This conversation was removed." : `This page shows no news any more: ${message}.`;
      this.#lost.value = `${what} Reload the page to look again.`;
    }
  }

  /** Add what was said before the first thing that is there. */
  async addEarlier(): Promise<void> {
    const cursor = this.#before.peek();
    if (this.#isLoading || cursor === null) return;
    this.#isLoading = true;
    try {
      const page = await patiently(() => getLast(this.#group, PAGE, cursor));
      this.#add(page.items);
      this.#before.value = page.previousCursor;
    } finally {
      this.#isLoading = false;
    }
  }

  async #listen(first: Page, signal: AbortSignal): Promise<void> {
    let { nextCursor, state } = first;
    while (!signal.aborted) {
      await visible(signal);
      let news: Page;
      try {
        news = await patiently(() => getNews(this.#group, nextCursor, state.tag, signal), signal);
        this.#take(news);
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== "INVALID_CURSOR") throw error;
        news = await patiently(() => getLast(this.#group, PAGE, null, signal), signal);
        this.#turn.value += 1;
        this.#begin(news);
      }
      ({ nextCursor, state } = news);
    }
  }

  #begin(page: Page): void {
    this.#items.value = [];
    this.#before.value = page.previousCursor;
    this.#take(page);
  }

  #take({ items, state }: Page): void {
    this.#add(items);
    for (const each of items) if (each.type === "message") this.#unsent.drop(each.id);
    this.#state.value = state;
  }

  /** What is said again (it was edited) takes the place of what it was. */
  #add(items: Item[]): void {
    if (items.length === 0) return;
    const all = new Map((this.#items.peek() ?? []).map((each) => [nameOf(each), each]));
    for (const each of items) all.set(nameOf(each), each);
    this.#items.value = [...all.values()].sort((one, other) => one.seq - other.seq);
  }
}

/** A page that is hidden needs no news, and a browser has few connections to one server. */
function visible(signal: AbortSignal): Promise<unknown> | undefined {
  if (!document.hidden) return undefined;
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", resolve, { once: true, signal });
    signal.addEventListener("abort", resolve, { once: true });
  });
}
