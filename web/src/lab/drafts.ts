// Drafts: what this browser keeps between two visits: drafts, the order of sides, pending submissions. Kept until the
// tab closes where local storage has no room, and until the page closes where the browser forbids storage. Other tabs
// keep values under the same names.

import { signal, type Signal } from "@preact/signals";

const PREFIX = "onceward.lab.";
/** How long a draft is kept after the last change before it is saved. */
const REST_MS = 200;
const memory = new Map<string, string>();
type Place = "browser" | "tab" | "page";
/** The storages to try, the most durable first. */
const PLACES: ["browser" | "tab", () => Storage][] = [
  ["browser", () => localStorage],
  ["tab", () => sessionStorage],
];
const STATES: Record<Place, string> = {
  browser: "Draft kept.",
  tab: "Draft kept until this tab closes.",
  page: "This browser keeps no drafts: do not reload.",
};

/** Return what was kept under a name, or null. What this page or this tab kept comes first: it is newer. */
export function recall<T>(name: string): T | null {
  const text = memory.get(name) ?? read("tab", name) ?? read("browser", name);
  try {
    return text === null ? null : (JSON.parse(text) as T);
  } catch {
    return null;
  }
}

/** Keep a value; return for how long: "page" if it does not outlive the page. */
export function keep(name: string, value: unknown): Place {
  const text = JSON.stringify(value);
  memory.set(name, text);
  let found: Place = "page";
  for (const [place] of PLACES) {
    if (found === "page" && write(place, name, text)) {
      found = place;
      continue;
    }
    // An older value must not be taken for this one, and removing it makes room.
    remove(place, name);
    if (found === "page" && write(place, name, text)) found = place;
  }
  return found;
}

/** Forget what was kept under a name; where `isOurs` denies it, another tab has kept a value there since. */
export function forget(name: string, isOurs: (text: string) => boolean = () => true): void {
  memory.delete(name);
  for (const [place] of PLACES) {
    const text = read(place, name);
    if (text !== null && isOurs(text)) remove(place, name);
  }
}

function storage(place: "browser" | "tab"): Storage {
  return PLACES.find(([each]) => each === place)![1]();
}

function read(place: "browser" | "tab", name: string): string | null {
  try {
    return storage(place).getItem(PREFIX + name);
  } catch {
    return null;
  }
}

function write(place: "browser" | "tab", name: string, text: string): boolean {
  try {
    storage(place).setItem(PREFIX + name, text);
    return true;
  } catch {
    return false;
  }
}

function remove(place: "browser" | "tab", name: string): void {
  try {
    storage(place).removeItem(PREFIX + name);
  } catch {
    // Nothing was kept, so there is nothing to remove.
  }
}

/** A draft: an object that is kept soon after each change, and at once when the page goes away. */
export class Draft<T extends object> {
  readonly data: Signal<T>;
  /** Says how well the draft is kept. */
  readonly state: Signal<string>;
  readonly #name: string;
  #timer: number | null = null;
  /** The text as it was kept or found last; null when nothing there is of this page. */
  #ours: string | null;
  readonly #listening = new AbortController();

  constructor(name: string, empty: T) {
    this.#name = name;
    const kept = recall<Partial<T>>(name);
    this.state = signal(kept === null ? "" : "Draft restored.");
    this.data = signal({ ...empty, ...(kept && typeof kept === "object" ? kept : {}) });
    this.#ours = kept === null ? null : JSON.stringify(kept);
    const { signal: until } = this.#listening;
    window.addEventListener("pagehide", () => this.flush(), { signal: until });
    window.addEventListener("storage", (event) => this.#hear(event), { signal: until });
  }

  /** Change the draft, and keep it once the person pauses. */
  change(changes: Partial<T>): void {
    this.data.value = { ...this.data.value, ...changes };
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.#save(), REST_MS);
  }

  /** Keep at once what has changed; without a change another tab's draft stays where it is. */
  flush(): void {
    if (this.#timer !== null) this.#save();
  }

  #rest(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #save(): void {
    this.#rest();
    this.#ours = JSON.stringify(this.data.value);
    this.state.value = STATES[keep(this.#name, this.data.value)];
  }

  /** Another tab has overwritten this draft, and has forgotten its own now: keep this one again. */
  #hear({ key, oldValue, newValue }: StorageEvent): void {
    const isGone = key === PREFIX + this.#name && newValue === null;
    if (isGone && this.#ours !== null && this.#ours !== oldValue) this.#save();
  }

  /** Forget it, but not what another tab has kept since. */
  forget(): void {
    this.#rest();
    forget(this.#name, (text) => text === this.#ours);
    this.#ours = null;
  }

  /** Keep what has changed, and stop listening: the screen is left. */
  close(): void {
    this.flush();
    this.#listening.abort();
  }
}

/** Return the given items in a random order, drawn from the browser's cryptographic source. */
export function shuffled<T>(items: T[]): T[] {
  const order = [...items];
  for (let last = order.length - 1; last > 0; last -= 1) {
    const other = below(last + 1);
    [order[last], order[other]] = [order[other] as T, order[last] as T];
  }
  return order;
}

function below(limit: number): number {
  const [value = 0] = crypto.getRandomValues(new Uint32Array(1));
  return Math.floor((value / 2 ** 32) * limit);
}
