// Decision: an operator's verdict on an ambiguous outcome, shown for confirmation before it is recorded.

import { PlannedAction } from "../../ui/action";
import { Json, Notice } from "../../ui/bits";
import type { OutcomeDetail } from "./models";

export type Verdict = "done" | "not_done";

export interface Decision {
  /** A step inside the work; null for the work as a whole. */
  effect: string | null;
  verdict: Verdict;
  /** What every later caller gets, if it was done. */
  result: unknown;
  reason: string;
}

export const MEANS: Record<Verdict, { title: string; text: string; word: string }> = {
  done: {
    title: "It was done",
    text: "Nothing runs. Every caller with this key, from now on, gets the result that you give here. If it was not done after all, it never will be.",
    word: "done",
  },
  not_done: {
    title: "It was not done",
    text: "The next caller with this key runs it. If it was done after all, it happens twice.",
    word: "not done",
  },
};

/** A step is part of a whole that may run again. */
const STEP_MEANS: Record<Verdict, string> = {
  done: "When the work is run again, this step is not: it gets the result that you give here. If it was not done after all, it never will be.",
  not_done: "When the work is run again, this step is, too. If it was done after all, it happens twice.",
};

interface DecisionProps {
  found: OutcomeDetail;
  decision: Decision;
  onClose: () => void;
}

export function DecisionDialog({ found, decision, onClose }: DecisionProps) {
  const { effect, verdict, result, reason } = decision;
  const { word, text } = MEANS[verdict];
  const meaning = effect === null ? text : STEP_MEANS[verdict];
  return (
    <PlannedAction
      title={`Record that it was ${word}`}
      onClose={onClose}
      path="/api/outcomes/reconcile"
      body={() => ({
        scope: found.scope,
        key: found.key,
        effect,
        verdict,
        ...(verdict === "done" ? { result } : {}),
        reason,
        seen: found.version,
      })}
      describe={() => (
        <>
          <p>
            <span class="mono breakable">{effect === null ? found.key : `the step ${effect} of ${found.key}`}</span> in{" "}
            <span class="mono breakable">{found.scope}</span>
          </p>
          <Notice kind="warn">{meaning}</Notice>
          {verdict === "done" && <><span class="hint">Result</span><Json value={result} label="result" /></>}
          <p><span class="hint">Because</span> {reason}</p>
        </>
      )}
      confirmLabel={() => `Record: it was ${word}`}
      success={() => `Recorded: ${found.key} was ${word}`}
    />
  );
}
