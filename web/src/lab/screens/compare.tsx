// Compare: two or more runs side by side, without their names, until the decision. The sides are shuffled once and
// keep their letters.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { ApiError, get } from "../../core/api";
import type { KeyMap } from "../../core/keys";
import { patiently, said } from "../../core/patience";
import { DocumentView } from "../docview";
import { documentsOf } from "../documents";
import { Draft, forget, recall } from "../drafts";
import { type Decision, Ending, type EndingProps, type Unused } from "../ending";
import { Fields, useField } from "../fields";
import { type ComparisonBody, type ComparisonDraft, comparisonBody, isEmpty, NO_COMPARISON, ratedCount } from "../judgements";
import { KeysLine, useJudgingKeys } from "../keys";
import { Context, Problems, Videos } from "../material";
import { playingKeys } from "../media";
import { MetricsReveal, MetricsTable } from "../metrics";
import { type ExperimentDetail, experimentPath, type LabConfig, type Modes, questionsOf } from "../models";
import { Heard, Keycap, Unloaded, useLoaded } from "../parts";
import { heard, loadSettings, useHeading, useServerWatch } from "../place";
import { Questions } from "../questions";
import { JudgementForm } from "../rating";
import { Sender, SenderBox, SubmitButton } from "../sender";
import { inOrder, loadSides, type Side } from "../sides";
import { isUnfinished } from "../submission";
import { Transport } from "../transport";
import { type Outcome, outcomesFor, Verdict } from "../verdict";

interface Loaded {
  config: LabConfig;
  experiment: ExperimentDetail;
  /** In the order in which the server lists them. */
  sides: Side[];
}

const draftName = (id: string): string => `draft.compare.${id}`;

export default function Compare({ id, modes }: { id: string; modes: Modes }): JSX.Element {
  const { data, error } = useLoaded<Loaded>(async (signal) => {
    const config = await loadSettings(signal);
    const experiment = await patiently(() => get<ExperimentDetail>(experimentPath(id), {}, signal), signal);
    return { config, experiment, sides: await loadSides(experiment, signal) };
  }, id);
  return <div class="lab">{data ? <Comparison {...data} modes={modes} /> : <Unloaded error={error} />}</div>;
}

function Comparison({ config, experiment, sides, modes }: Loaded & { modes: Modes }): JSX.Element {
  const id = experiment.experimentId;
  const isDecided = experiment.submission !== null || experiment.status === "done";
  // A submission that a reload interrupted is sent again: only its answer tells which decision counts.
  const isOver = useMemo(() => isDecided && !isUnfinished(`compare.${id}`), []);
  if (!isOver) return <ComparisonForm config={config} experiment={experiment} sides={sides} modes={modes} />;
  const left = comparisonBody(sides, { ...NO_COMPARISON, ...recall<Partial<ComparisonDraft>>(draftName(id)) });
  const unused = isEmpty(left) ? null : { body: left, why: "This comparison is decided.", forget: () => forget(draftName(id)) };
  return <Ending config={config} experiment={experiment} sides={inOrder(sides, id, false)} decision={decisionOf(experiment)} isEarlier unused={unused} />;
}

function decisionOf({ outcome, winner, reason }: ExperimentDetail): Decision {
  return { outcome, winnerVariantId: winner?.variantId, reason };
}

/** What a comparison holds while it is open. */
class ComparisonDesk {
  readonly fields = new Fields();
  readonly sides: Side[];
  readonly outcomes: Outcome[];
  readonly transport: Transport;
  readonly draft: Draft<ComparisonDraft>;
  readonly sender: Sender<ComparisonBody>;
  /** Whether a choice was missing at the last attempt to submit. */
  readonly isChoiceMissing = signal(false);
  /** Set once it is decided, and the page can show how. */
  readonly ending = signal<Omit<EndingProps, "config" | "sides"> | null>(null);
  readonly isOver = signal(false);
  readonly #experiment: ExperimentDetail;
  readonly #listed: Side[];
  readonly #modes: Modes;

  constructor(experiment: ExperimentDetail, listed: Side[], modes: Modes) {
    const id = experiment.experimentId;
    this.#experiment = experiment;
    this.#listed = listed;
    this.#modes = modes;
    this.sides = inOrder(listed, id, true);
    this.outcomes = outcomesFor(this.sides, modes.goodBadMode);
    this.transport = new Transport(this.sides.map((side) => side.letter ?? ""));
    this.draft = new Draft(draftName(id), NO_COMPARISON);
    this.sender = new Sender<ComparisonBody>({
      slot: `compare.${id}`,
      path: `${experimentPath(id)}/submit`,
      onDone: (body) => {
        this.draft.forget();
        this.#showDone(body, null);
      },
      onRefused: (error, body) => this.#refuse(error, body),
      onArrived: (recorded, body) => this.#showFirst(recorded, body),
    });
  }

  /** Where a side stands in the request's list of judgements. */
  nameOf(side: Side): string {
    return `perRun[${this.#listed.findIndex((each) => each.variantId === side.variantId)}].`;
  }

  choose(value: string): void {
    this.isChoiceMissing.value = false;
    this.draft.change({ choice: value });
  }

  get #choice(): string | null {
    const { choice } = this.draft.data.value;
    return this.outcomes.some((each) => each.value === choice) ? choice : null;
  }

  submit(): void {
    if (this.isOver.value || this.sender.isBusy.value) return;
    this.fields.clear();
    if (this.#choice === null) {
      this.isChoiceMissing.value = true;
      this.fields.focus("outcome");
      return;
    }
    if (this.#modes.requireOverall && this.#asksForOverall()) return;
    this.draft.flush();
    void this.sender.send(comparisonBody(this.#listed, this.draft.data.value));
  }

  /** Show which side has no overall rating; false when all have one. */
  #asksForOverall(): boolean {
    const { perRun } = this.draft.data.value;
    const side = this.sides.find((each) => !perRun[each.variantId]?.ratings?.overall);
    if (!side) return false;
    const text = `Not submitted yet: side ${side.letter} has no overall rating. Rate it from 0 to 100.`;
    return this.fields.show(`${this.nameOf(side)}ratings.overall`, text);
  }

  #showDone(body: ComparisonBody, unused: Unused | null): void {
    this.isOver.value = true;
    const decision = { outcome: body.outcome, winnerVariantId: body.winnerVariantId, reason: body.reason };
    this.ending.value = { experiment: this.#experiment, decision, isEarlier: false, unused };
  }

  #refuse(error: unknown, body: ComparisonBody): boolean {
    if (!(error instanceof ApiError)) return false;
    if (error.code === "ALREADY_SUBMITTED") {
      void this.#showExisting("Another person had already submitted this comparison.", body);
      return true;
    }
    return this.fields.show(error.context["field"], said(error));
  }

  /** An earlier version of this page's has decided it: that one counts, and later changes do not. */
  #showFirst(recorded: ComparisonBody | null, body: ComparisonBody): void {
    const why = "Your first version had arrived, and counts.";
    if (recorded === null) {
      void this.#showExisting(why, body);
      return;
    }
    this.sender.close("");
    this.#showDone(recorded, this.#unused(why, body));
  }

  /** What was entered here and does not count: it is kept and readable until the person throws it away. */
  #unused(why: string, body: ComparisonBody): Unused {
    return { body, why, forget: () => this.draft.forget() };
  }

  /** It is decided, and only the server knows how. Say at once that it is; what counts may take long to load. */
  async #showExisting(why: string, body: ComparisonBody): Promise<void> {
    this.isOver.value = true;
    this.sender.close(`⚠ ${why} What you entered here was not recorded. Loading what counts…`);
    try {
      const experiment = await patiently(() => get<ExperimentDetail>(experimentPath(this.#experiment.experimentId)));
      this.ending.value = { experiment, decision: decisionOf(experiment), isEarlier: true, unused: this.#unused(why, body) };
    } catch (error) {
      this.sender.close(`⚠ ${why} What counts cannot be loaded. ${said(error)} Reload the page to try again.`);
    }
  }

  close(): void {
    this.draft.close();
    this.sender.leave();
  }
}

function ComparisonForm({ config, experiment, sides: listed, modes }: Loaded & { modes: Modes }): JSX.Element {
  const desk = useMemo(() => new ComparisonDesk(experiment, listed, modes), []);
  const { sides, sender } = desk;
  useEffect(() => {
    sender.resume();
    return () => desk.close();
  }, []);
  useServerWatch(!desk.isOver.value);
  useHeading(experiment.name ?? "Compare", "Names and metrics stay hidden until you have submitted.");
  useJudgingKeys(desk.isOver.value ? {} : keysOf(desk), () => desk.submit());
  const ending = desk.ending.value;
  if (ending) return <Ending config={config} sides={sides} {...ending} />;
  return (
    <>
      <KeysLine />
      <Material config={config} experiment={experiment} sides={sides} transport={desk.transport} />
      <ComparisonFields desk={desk} experiment={experiment} />
      <div class="submit-bar">
        <SenderBox sender={sender} />
        <Verdict
          outcomes={desk.outcomes} sideCount={sides.length} value={desk.draft.data.value.choice} onChoose={(value) => desk.choose(value)}
          fields={desk.fields} isMissing={desk.isChoiceMissing.value} isLocked={sender.isLocked.value}
        />
        <SubmitButton sender={sender} onClick={() => desk.submit()} />
        <span class="hint" id="draft-state">{desk.draft.state.value}</span>
      </div>
      <Heard />
    </>
  );
}

function keysOf(desk: ComparisonDesk): KeyMap {
  const choose = ({ value, text }: Outcome) => (): void => {
    if (desk.sender.isBusy.value) return;
    desk.choose(value);
    heard.value = `Chosen: ${text}`;
  };
  return {
    ...Object.fromEntries(desk.outcomes.filter(({ key }) => key).map((each) => [each.key, { text: each.text, run: choose(each) }])),
    ...playingKeys(desk.transport),
    n: { text: "Write why", run: () => desk.fields.focus("reason") },
  };
}

function Material({ config, experiment, sides, transport }: { config: LabConfig; experiment: ExperimentDetail; sides: Side[]; transport: Transport }): JSX.Element {
  const runs = sides.map((side) => side.run);
  const letters = sides.map((side) => side.letter ?? "");
  const documents = useMemo(() => documentsOf(runs, true), []);
  return (
    <div class="stack">
      <Context experiment={experiment} sides={sides} />
      <Videos sides={sides} transport={transport} />
      <Problems sides={sides} />
      {documents.length > 0 && <DocumentView documents={documents} names={letters} />}
      <MetricsReveal ui={config.ui}>{() => <MetricsTable runs={runs} names={letters} />}</MetricsReveal>
    </div>
  );
}

function ComparisonFields({ desk, experiment }: { desk: ComparisonDesk; experiment: ExperimentDetail }): JSX.Element {
  const { draft, fields, sides } = desk;
  const data = draft.data.value;
  const questions = questionsOf(experiment);
  const reason = useField(fields, "reason");
  return (
    <div class="stack" inert={desk.sender.isLocked.value}>
      {questions.length > 0 && (
        <Questions questions={questions} answers={data.answers} fields={fields} onAnswer={(id, answer) => draft.change({ answers: { ...draft.data.value.answers, [id]: answer } })} />
      )}
      <div class="field">
        <label for="reason">Why? <Keycap>N</Keycap><span class="hint"> optional; it goes to the agent that asked</span></label>
        <textarea id="reason" ref={reason.ref} rows={3} aria-keyshortcuts="n" value={data.reason} {...reason.props} onInput={(event) => draft.change({ reason: event.currentTarget.value })} />
        {reason.problem}
      </div>
      <section aria-labelledby="rate-title">
        <h2 id="rate-title">Each side by itself</h2>
        <div class={`panes sides-${sides.length}`}>
          {sides.map((side) => {
            const judgement = data.perRun[side.variantId] ?? {};
            const rated = ratedCount(judgement);
            return (
              <details key={side.variantId} class="reveal judgement">
                <summary>{`Rate ${side.letter} (${rated ? `${rated} of 8 rated` : "optional"})`}</summary>
                <JudgementForm
                  whose={`side ${side.letter}`} data={judgement} fields={fields} name={desk.nameOf(side)}
                  onChange={(changed) => draft.change({ perRun: { ...draft.data.value.perRun, [side.variantId]: changed } })}
                />
              </details>
            );
          })}
        </div>
      </section>
    </div>
  );
}
