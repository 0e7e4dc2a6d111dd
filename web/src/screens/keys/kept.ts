// Kept: the two bodies, kept while the page is open, and in the address when they are short.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Schemas } from "../../api/types";
import { get } from "../../core/api";
import { route } from "../../core/router";
import type { Story } from "../run/models";

/** Longer addresses are cut by what people paste them into. */
const ADDRESS_CHARACTERS_MAX = 1_500;
const REST_MS = 400;

export const left = signal("");
export const right = signal("");

/** The part after `#` stays in the browser: what is pasted may hold secrets, and servers log addresses. */
export function useKept(): void {
  useEffect(() => {
    const named = new URLSearchParams(location.hash.slice(1));
    if (named.has("a")) left.value = named.get("a") ?? "";
    if (named.has("b")) right.value = named.get("b") ?? "";
  }, []);
  const [a, b] = [left.value, right.value];
  useEffect(() => {
    const timer = setTimeout(() => {
      const query = new URLSearchParams(Object.entries({ a, b }).filter(([, text]) => text !== "")).toString();
      const hash = query === "" || query.length > ADDRESS_CHARACTERS_MAX ? "" : `#${query}`;
      if (hash !== location.hash) history.replaceState(history.state, "", location.pathname + location.search + hash);
    }, REST_MS);
    return () => clearTimeout(timer);
  }, [a, b]);
}

/** Commands of a run that the address names: `?workspace=…&run=…&a=3&b=5`. */
export function useCommands(): void {
  const { query } = route.value;
  const [workspace, run, a, b] = ["workspace", "run", "a", "b"].map((name) => query.get(name));
  useEffect(() => {
    if (workspace == null || run == null) return;
    const control = new AbortController();
    void load({ workspace, run }, [a, b], control.signal);
    return () => control.abort();
  }, [workspace, run, a, b]);
}

async function load(place: { workspace: string; run: string }, steps: (string | null | undefined)[], signal: AbortSignal) {
  let found: { commands: Story[] };
  try {
    found = await get<Schemas["CommandExplanations"]>("/api/orchestrator/explain", place, signal);
  } catch {
    return; // The fields stay as they are, and empty ones say what to do.
  }
  const texts = steps.map((step) => {
    const story = found.commands.find((each) => String(each.step) === step);
    return story === undefined ? "" : JSON.stringify(story.components, null, 2);
  });
  [left.value = "", right.value = ""] = texts;
}
