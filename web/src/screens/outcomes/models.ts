// Models: outcomes of keys as the API tells them, and what their states mean to people.

import type { Schemas } from "../../api/types";
import type { Look } from "../lists/look";

export type OutcomeState = Schemas["OutcomeState"];

export type Failure = NonNullable<OutcomeDetail["failure"]>;
export type Outcome = Schemas["OutcomeItem"];
export type Effect = Schemas["EffectItem"];
export type OutcomeDetail = Schemas["OutcomeDetail"];

export const STATES: OutcomeState[] = ["ambiguous", "running", "failed", "done", "abandoned", "free", "expired"];

/** What each state means, in one sentence. */
export const MEANINGS: Record<OutcomeState, string> = {
  running: "A caller is running it. Other callers with this key wait or get IN_FLIGHT.",
  done: "It was done. Every later caller with this key gets the recorded result, byte for byte.",
  failed: "It failed for good. Every later caller with this key gets the same failure.",
  ambiguous: "It started but never reported a result. It may have completed, so it is not run again until an operator or the reconcile hook decides.",
  abandoned: "It started but never reported a result, and it is declared safe to rerun: the next caller runs it.",
  free: "The next caller with this key runs it.",
  expired: "Its result has expired. The key is rejected until its tombstone is pruned, 30 days later.",
};

const KINDS: Record<OutcomeState, Look["kind"]> = {
  running: "busy",
  done: "ok",
  failed: "warn",
  ambiguous: "bad",
  abandoned: "wait",
  free: "off",
  expired: "off",
};

export function outcomeLook(state: OutcomeState): Look {
  return { kind: KINDS[state], word: state };
}

export function effectLook(state: Effect["state"]): Look {
  const kinds = { intended: "wait", done: "ok", failed: "warn", ambiguous: "bad", free: "off" } as const;
  return { kind: kinds[state], word: state };
}

export function outcomeHref(outcome: { scope: string; key: string }): string {
  return `/outcomes/detail?${new URLSearchParams({ scope: outcome.scope, key: outcome.key })}`;
}

/** Whether a person may decide about the work as a whole. */
export function isOpen(found: OutcomeDetail): boolean {
  return found.state === "ambiguous" || found.state === "abandoned";
}

/** Steps that never reported a result. Once the outcome is settled they block no caller. */
export function openEffects(found: OutcomeDetail): Effect[] {
  if (found.state === "done" || found.state === "failed" || found.state === "expired") return [];
  return found.effects.filter((each) => {
    const isLive = found.state === "running" && each.fence === found.fence;
    return each.state === "ambiguous" || (each.state === "intended" && !isLive);
  });
}
