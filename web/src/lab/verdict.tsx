// Verdict: which side is better, a tie, or none good: the outcomes as big radio buttons with their key printed on them.

import type { JSX } from "preact";
import { useId, useRef } from "preact/hooks";
import { type Fields, useField } from "./fields";
import { Keycap } from "./parts";
import type { Side } from "./sides";

export interface Outcome {
  /** A side's variant id, "tie" or "both_bad". */
  value: string;
  text: string;
  /** Null from the eleventh outcome on. */
  key: string | null;
}

/** The outcomes of a comparison; with `needsWinner` one side has to win. */
export function outcomesFor(sides: Side[], needsWinner: boolean): Outcome[] {
  const isPair = sides.length === 2;
  const all = [
    ...sides.map(({ variantId, letter }) => ({ value: variantId, text: `${letter} ${isPair ? "better" : "best"}` })),
    ...(needsWinner ? [] : [{ value: "tie", text: "Tie" }, { value: "both_bad", text: isPair ? "Both bad" : "All bad" }]),
  ];
  return all.map((each, index) => ({ ...each, key: index < 9 ? String(index + 1) : index === 9 ? "0" : null }));
}

interface Props {
  outcomes: Outcome[];
  sideCount: number;
  value: string | null;
  onChoose: (value: string) => void;
  fields: Fields;
  /** Whether a choice is missing. */
  isMissing: boolean;
  isLocked: boolean;
}

export function Verdict({ outcomes, sideCount, value, onChoose, fields, isMissing, isLocked }: Props): JSX.Element {
  const name = useId();
  const box = useRef<HTMLFieldSetElement>(null);
  const { ref, props, problem } = useField(fields, "outcome", undefined, "winnerVariantId");
  return (
    <>
      <fieldset id="verdict" class="verdict-box" ref={box} inert={isLocked} aria-describedby={isMissing ? "verdict-error" : undefined}>
        <legend>{sideCount === 2 ? "Which is better?" : "Which is best?"}</legend>
        {isMissing && <p id="verdict-error" class="field-error">⚠ Not submitted yet: choose one of these first.</p>}
        <div class="choice-row">
          {outcomes.map((each, index) => (
            <label key={each.value} class="choice-button">
              <input
                ref={index === 0 ? ref : undefined} type="radio" name={name} value={String(index)} checked={each.value === value}
                aria-keyshortcuts={each.key ?? undefined} {...(index === 0 && props)} onChange={() => onChoose(each.value)}
              />
              <span>{each.text}</span>
              {each.key && <Keycap>{each.key}</Keycap>}
            </label>
          ))}
        </div>
      </fieldset>
      {problem}
    </>
  );
}
