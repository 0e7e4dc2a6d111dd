// Patience: what to do while the server is away: wait a little longer each time, and say so. Knows no screen.

import { signal, type ReadonlySignal } from "@preact/signals";
import { ApiError, asApiError } from "./api";
import { sentence } from "./format";

const FIRST_MS = 500;
const LONGEST_MS = 5_000;

/** A wait for the server: why, and what ends it at once. */
interface AwayNow {
  reason: string;
  cut: () => void;
}

const waiting = signal<AwayNow | null>(null);
/** Set while something waits for a server that does not answer. */
export const away: ReadonlySignal<AwayNow | null> = waiting;

/** Do something that reads, again and again until the server answers. */
export async function patiently<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      const result = await work();
      waiting.value = null;
      return result;
    } catch (error) {
      if (signal?.aborted || !mayPass(error)) throw error;
      const wait = new Wait(delayMs(attempt), signal);
      waiting.value = { reason: why(error), cut: wait.cut };
      await wait.done;
      if (signal?.aborted) {
        waiting.value = null;
        throw error;
      }
    }
  }
}

/** How long to wait before the next attempt. */
export function delayMs(attempt: number): number {
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** attempt);
}

/** A wait that can be cut short. */
export class Wait {
  readonly done: Promise<void>;
  readonly cut: () => void;

  constructor(ms: number, signal?: AbortSignal) {
    let end = (): void => undefined;
    this.done = new Promise((resolve) => {
      end = resolve;
    });
    this.cut = end;
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end, { once: true });
    void this.done.then(() => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
    });
  }
}

/** Whether asking the same again may help, for as long as it takes. */
export function mayPass(error: unknown): boolean {
  return error instanceof ApiError && (error.isPassing || error.status >= 500);
}

/** Say why an attempt failed, as the middle of a sentence about the server. */
export function why(error: unknown): string {
  const { status, code, message } = asApiError(error);
  if (status === 0) return message.replace(/^The server('s)?/, (_, owns: string | undefined) => (owns ? "its" : "it"));
  if (code === "IN_FLIGHT") return "it is still working on the first attempt";
  return `it answered ${status}: ${message}`;
}

/** What went wrong, without the name that a field has in requests: people see the field itself. */
export function problemOf(error: unknown): string {
  const { message, context } = asApiError(error);
  const field = context["field"];
  return sentence(typeof field === "string" && message.startsWith(`${field}: `) ? message.slice(field.length + 2) : message);
}

/** What went wrong, and what now. */
export function said(error: unknown): string {
  const { fix, context } = asApiError(error);
  return !fix || fix === `correct ${String(context["field"])}` ? problemOf(error) : `${problemOf(error)} ${sentence(fix)}`;
}
