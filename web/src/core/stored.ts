// Stored: the few wishes of a person that a browser keeps (theme, keys). Works without storage too.

import { effect, signal, type Signal } from "@preact/signals";

const PREFIX = "onceward.";

/** A signal whose value outlives the page. */
export function stored<T extends string | boolean>(name: string, fallback: T, allowed?: readonly T[]): Signal<T> {
  const wish = signal(read(name, fallback, allowed));
  let kept = wish.peek();
  effect(() => {
    // A page that was only opened keeps nothing.
    if (wish.value !== kept) write(name, wish.value);
    kept = wish.value;
  });
  return wish;
}

function read<T>(name: string, fallback: T, allowed?: readonly T[]): T {
  try {
    const text = localStorage.getItem(PREFIX + name);
    const value = text === null ? fallback : (JSON.parse(text) as T);
    const isKnown = allowed ? allowed.includes(value) : typeof value === typeof fallback;
    return isKnown ? value : fallback;
  } catch {
    return fallback;
  }
}

function write(name: string, value: unknown): void {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Kept until the page closes.
  }
}
