// Ending: what is shown when a comparison is decided: that it is done, which side was which run, and how the metrics
// differ. Made from what the page already holds, because the server may be gone by now.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Notice, State } from "../ui/bits";
import { Sheet } from "../ui/sheet";
import type { Column } from "../ui/table";
import { type ComparisonBody, comparisonLines } from "./judgements";
import { DeltaTable, MetricsTable } from "./metrics";
import { type ExperimentDetail, type LabConfig, RESULTS_PAGE, RUNS_PAGE } from "./models";
import { LabLink, Prompt, Reveal } from "./parts";
import { focusHeading, useHeading } from "./place";
import { BASELINE, type Side } from "./sides";

const CLOSE = "You can close this page.";

/** The decision, as the page or the server knows it. */
export interface Decision {
  outcome: string | null | undefined;
  winnerVariantId: string | null | undefined;
  reason: string | null | undefined;
}

/** What was entered here and does not count. */
export interface Unused {
  body: ComparisonBody;
  why: string;
  forget: () => void;
}

export interface EndingProps {
  config: LabConfig;
  experiment: ExperimentDetail;
  /** With their letters, if this browser showed them. */
  sides: Side[];
  decision: Decision;
  /** Whether the decision comes from the server, and was not made just now. */
  isEarlier: boolean;
  unused: Unused | null;
}

export function Ending({ config, experiment, sides, decision, isEarlier, unused }: EndingProps): JSX.Element {
  useHeading(isEarlier ? "Decided" : "Submitted", experiment.name ?? "");
  useEffect(focusHeading, []);
  const baseline = sides.find((side) => side.variantId === BASELINE);
  const variants = sides.filter((side) => side !== baseline);
  const nothing = (
    <>
      <Notice>There is nothing to subtract: the baseline and the variants have no metric in common.</Notice>
      <MetricsTable runs={sides.map((side) => side.run)} names={sides.map(nameOfSide)} />
    </>
  );
  return (
    <div class="stack">
      {unused && <NotUsed unused={unused} experiment={experiment} sides={sides} />}
      <section class="ending" aria-labelledby="ending-title">
        <h2 id="ending-title">{isEarlier ? "The decision" : "Thank you. Your decision is recorded, once."}</h2>
        <p class="outcome" id="outcome">{outcomeText(decision, sides)}</p>
        {decision.reason && <blockquote>{decision.reason}</blockquote>}
        <p id="close-hint">{isEarlier ? `There is nothing left to do here. ${CLOSE}` : closing(config)}</p>
      </section>
      <section aria-labelledby="who-title">
        <h2 id="who-title">Which side was which run</h2>
        <div id="who"><Sheet label="Sides" columns={columnsFor(decision)} rows={sides} rowKey={(side) => side.variantId} /></div>
      </section>
      <section aria-labelledby="deltas-title">
        <h2 id="deltas-title">How the metrics differ</h2>
        <DeltaTable baseline={baseline?.run ?? null} variants={variants.map((side) => ({ name: nameOfSide(side), run: side.run }))} fallback={nothing} />
      </section>
      <p><LabLink page={RESULTS_PAGE}>Results of all comparisons</LabLink> · <LabLink page={RUNS_PAGE}>All runs</LabLink></p>
    </div>
  );
}

function columnsFor({ winnerVariantId }: Decision): Column<Side>[] {
  return [
    { key: "side", title: "Side", render: (side) => side.letter ?? "–" },
    {
      key: "what",
      title: "Was",
      render: (side) => <>{kindOf(side)} {side.variantId === winnerVariantId && <State kind="ok" word="chosen" />}</>,
    },
    { key: "topic", title: "Topic", render: (side) => side.run?.topic ?? "–" },
    { key: "directory", title: "Directory", render: (side) => <span class="path">{side.run ? side.run.artifactsDir : "this run cannot be read"}</span> },
  ];
}

/** That what was entered does not count, and all of it, until the person throws it away. */
function NotUsed({ unused: { body, why, forget }, experiment, sides }: { unused: Unused; experiment: ExperimentDetail; sides: Side[] }): JSX.Element | null {
  const [isGone, setGone] = useState(false);
  if (isGone) return null;
  const chosen = body.outcome ? outcomeText({ outcome: body.outcome, winnerVariantId: body.winnerVariantId, reason: null }, sides) : null;
  const discard = (): void => {
    forget();
    setGone(true);
    focusHeading();
  };
  return (
    <>
      <Notice kind="warn">
        {`${why} What you entered here was not recorded${chosen ? ": " : ". "}`}
        {chosen && <strong>{chosen}</strong>}
        {body.reason && ` (“${body.reason}”)`}
        {" Below is what counts."}
      </Notice>
      <Reveal summary="What you entered, to copy" id="leftover" isOpen>
        {() => (
          <>
            <Prompt label="What you entered">{comparisonLines(body, chosen, experiment, sides, nameOfSide).join("\n")}</Prompt>
            <p><button type="button" onClick={discard}>Throw it away</button></p>
          </>
        )}
      </Reveal>
    </>
  );
}

/** What to do after a submission. A server that was started for one task stops by itself. */
export function closing({ exitAfterSubmit }: LabConfig): string {
  return exitAfterSubmit ? `${CLOSE} The server may stop now; nothing more is needed from it.` : CLOSE;
}

function kindOf(side: Side): string {
  return side.variantId === BASELINE ? "Baseline" : side.label || "Variant";
}

function nameOfSide(side: Side): string {
  return side.letter ? `${kindOf(side)} (${side.letter})` : kindOf(side);
}

function outcomeText({ outcome, winnerVariantId }: Decision, sides: Side[]): string {
  const isPair = sides.length === 2;
  if (outcome === "tie") return "≈ A tie.";
  if (outcome === "both_bad") return isPair ? "✕ Both are bad." : "✕ All are bad.";
  const side = sides.find((each) => each.variantId === winnerVariantId);
  return side ? `✓ ${nameOfSide(side)} is ${isPair ? "better" : "best"}.` : "No side was chosen.";
}
