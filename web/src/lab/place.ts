// Place: where the Lab's screens stand: in a document of their own, or inside the console, which has other addresses
// for them. Also the heading of the screen that is shown, and what is announced to screen readers.

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { get, loadConfig, peek } from "../core/api";
import { patiently } from "../core/patience";
import type { LabConfig } from "./models";

let hosted: ((page: string) => string) | null = null;

/** Show the Lab's pages at other addresses: inside the console. */
export function hostAt(addressOf: (page: string) => string): void {
  hosted = addressOf;
}

export function isAlone(): boolean {
  return hosted === null;
}

/** The address at which a page of the Lab is shown. */
export function addressOf(page: string): string {
  return hosted ? hosted(page) : page;
}

/** Ask for the Lab's settings. */
export function loadSettings(signal: AbortSignal): Promise<LabConfig> {
  return patiently(() => (isAlone() ? loadConfig<LabConfig>() : get<LabConfig>("/api/config", {}, signal)), signal);
}

/** What the screen is called, and the question it answers. */
export const heading = signal({ title: "Experiment Lab", question: "" });

export function useHeading(title: string, question = ""): void {
  useLayoutEffect(() => {
    heading.value = { title, question };
  }, [title, question]);
}

/** Move the focus to the heading: what the page is about has changed. */
export function focusHeading(): void {
  document.querySelector<HTMLElement>("h1")?.focus();
}

/** The last change that can be seen, for those who cannot see it. */
export const heard = signal("");

const BEAT_MS = 15_000;

/** Notice early when the server goes away: `beat` is called at each look that it answers. */
export function useServerWatch(isOn: boolean, beat?: () => Promise<void>): void {
  useEffect(() => {
    if (!isOn) return undefined;
    const ending = new AbortController();
    let isLooking = false;
    const look = async (): Promise<void> => {
      if (document.hidden || isLooking) return;
      isLooking = true;
      try {
        await patiently(() => peek("/healthz"), ending.signal);
        if (!ending.signal.aborted) await beat?.();
      } catch {
        // The next look tries again; a request of the person's own says what is wrong.
      } finally {
        isLooking = false;
      }
    };
    const timer = setInterval(() => void look(), BEAT_MS);
    return () => {
      clearInterval(timer);
      ending.abort();
    };
  }, [isOn]);
}
