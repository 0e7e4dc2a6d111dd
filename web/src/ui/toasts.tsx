// Toasts: what was just done, said once and politely, with the way back where there is one.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { Icon } from "./icons";

interface Toast {
  id: number;
  text: string;
  kind: "ok" | "bad";
  undo?: () => void;
}

const SHOWN_MS = 8_000;
/** Who wants to undo needs the time to read first. */
const SHOWN_UNDO_MS = 20_000;
const TOASTS_MAX = 3;
const toasts = signal<Toast[]>([]);
let last = 0;

export function toast(text: string, opts: { undo?: () => void; kind?: "ok" | "bad" } = {}): void {
  last += 1;
  const fresh: Toast = { id: last, text, kind: opts.kind ?? "ok", undo: opts.undo };
  toasts.value = [...toasts.value, fresh].slice(-TOASTS_MAX);
  setTimeout(() => drop(fresh.id), opts.undo ? SHOWN_UNDO_MS : SHOWN_MS);
}

function drop(id: number): void {
  // One that is being read with the keyboard stays.
  if (document.activeElement?.closest(`[data-toast="${id}"]`)) setTimeout(() => drop(id), SHOWN_MS);
  else toasts.value = toasts.value.filter((each) => each.id !== id);
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((each) => each.id !== id);
}

export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite" aria-label="What was done">
      {toasts.value.map((each) => (
        <div key={each.id} class={`toast ${each.kind}`} data-toast={each.id}>
          <Icon name={each.kind === "ok" ? "ok" : "bad"} />
          <span class="toast-text">{each.text}</span>
          {each.undo && (
            <button type="button" onClick={() => { dismiss(each.id); each.undo?.(); }}>Undo</button>
          )}
          <button type="button" class="quiet square" aria-label="Dismiss" onClick={() => dismiss(each.id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}
