// Decide: an operator reconciles an ambiguous outcome, after reading what each verdict means.

import { useState } from "preact/hooks";
import { ActionButton } from "../../ui/action";
import { Field } from "../../ui/bits";
import { MEANS, type Decision, type Verdict } from "./decision";
import { isOpen, openEffects, type OutcomeDetail } from "./models";

interface DecideProps {
  found: OutcomeDetail;
  onReview: (decision: Decision) => void;
}

export function Decide({ found, onReview }: DecideProps) {
  const [verdict, setVerdict] = useState<Verdict | null>(null);
  const [wanted, setWanted] = useState<string | null>(null);
  const [text, setText] = useState("null");
  const [reason, setReason] = useState("");
  const [isAsked, setAsked] = useState(false);
  const effect = targetOf(found, wanted);
  const parsed = parse(text);
  const problems = {
    verdict: verdict === null ? "choose one of the two" : null,
    result: verdict === "done" && parsed.problem !== null ? parsed.problem : null,
    reason: reason.trim() === "" ? "give a reason first" : null,
  };
  const isReady = Object.values(problems).every((each) => each === null);
  const review = () => {
    setAsked(true);
    if (isReady && verdict !== null) onReview({ effect, verdict, result: parsed.value, reason: reason.trim() });
  };
  return (
    <section class="part decide" aria-label="Decide">
      <h2>Reconcile</h2>
      <p>
        {whoFell(found)} Check the other system first, such as the provider's list of payments. Then record what you found.
      </p>
      <form class="stack" onSubmit={(event) => { event.preventDefault(); review(); }}>
        <Target found={found} effect={effect} onChange={setWanted} />
        <fieldset class="verdicts">
          <legend>What you found</legend>
          {(Object.keys(MEANS) as Verdict[]).map((each) => (
            <div key={each} class="verdict">
              <label class="check">
                <input
                  type="radio"
                  name="verdict"
                  checked={verdict === each}
                  aria-describedby={`verdict-${each}`}
                  onChange={() => setVerdict(each)}
                />
                <strong>{MEANS[each].title}</strong>
              </label>
              <p id={`verdict-${each}`} class="hint">{MEANS[each].text}</p>
            </div>
          ))}
          {isAsked && problems.verdict !== null && <p class="field-error" role="alert">{problems.verdict}</p>}
        </fieldset>
        {verdict === "done" && (
          <Field label="Result, as JSON" hint="What the caller would have got, such as null" error={isAsked ? problems.result : null}>
            <textarea class="mono" rows={4} value={text} onInput={(event) => setText(event.currentTarget.value)} />
          </Field>
        )}
        <Field label="Reason" hint="How you know; stored with the outcome." error={isAsked ? problems.reason : null}>
          <input type="text" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
        </Field>
        <ActionButton label="Review the decision…" onClick={review} />
      </form>
    </section>
  );
}

interface TargetProps {
  found: OutcomeDetail;
  effect: string | null;
  onChange: (effect: string | null) => void;
}

function Target({ found, effect, onChange }: TargetProps) {
  const open = openEffects(found);
  if (open.length === 0) return null;
  return (
    <Field label="Subject" hint="To run the call again, decide the step first: a rerun repeats no step that is done, and stops at an ambiguous one.">
      <select value={effect ?? ""} onChange={(event) => onChange(event.currentTarget.value || null)}>
        {isOpen(found) && <option value="">the whole call</option>}
        {open.map((each) => <option key={each.name} value={each.name}>{`the step ${each.name}`}</option>)}
      </select>
    </Field>
  );
}

/** What can still be decided about: what was chosen, else the whole call, else the first ambiguous step. */
function targetOf(found: OutcomeDetail, wanted: string | null): string | null {
  const names = openEffects(found).map((each) => each.name);
  if (wanted !== null && names.includes(wanted)) return wanted;
  return isOpen(found) ? null : (names[0] ?? null);
}

function whoFell(found: OutcomeDetail): string {
  if (found.state === "abandoned") return "It started but never reported a result; the next caller would run it again.";
  if (found.state === "ambiguous") return "It started but never reported a result.";
  return "A step of it started but never reported a result.";
}

function parse(text: string): { value: unknown; problem: string | null } {
  try {
    const value: unknown = JSON.parse(text);
    const lost = inexact(text);
    return { value, problem: lost === null ? null : `${lost} is too large to be kept exactly; write it as text` };
  } catch (error) {
    return { value: null, problem: `this is not JSON: ${(error as Error).message}` };
  }
}

/** A whole number that a browser reads as another one. */
function inexact(text: string): string | null {
  const outside = text.replace(/"(?:[^"\\]|\\.)*"/g, '""');
  return outside.match(/-?\d+(?![\d.eE])/g)?.find((each) => !Number.isSafeInteger(Number(each))) ?? null;
}
