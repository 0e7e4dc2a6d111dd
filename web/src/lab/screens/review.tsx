// Review: one run by itself: what it made, and what a person says about it. Nothing that is missing or broken prevents
// a rating.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { ApiError, get } from "../../core/api";
import { patiently, said } from "../../core/patience";
import { Ago, Notice } from "../../ui/bits";
import { DocumentView } from "../docview";
import { documentsOf, problemsOf } from "../documents";
import { Draft } from "../drafts";
import { closing } from "../ending";
import { Fields } from "../fields";
import { type Judgement, type JudgementBody, judgementBody } from "../judgements";
import { KeysLine, useJudgingKeys } from "../keys";
import { PromptSection } from "../material";
import { PlayBar, playingKeys, VideoBox } from "../media";
import { MetricsReveal, MetricsTable } from "../metrics";
import { type LabConfig, type Modes, nameOfRun, reviewPage, RUNS_PAGE, type RunDetail, runPath } from "../models";
import { Heard, LabLink, Reveal, Unloaded, useLoaded } from "../parts";
import { focusHeading, loadSettings, useHeading, useServerWatch } from "../place";
import { JudgementForm } from "../rating";
import { Sender, SenderBox, SubmitButton } from "../sender";
import { Transport } from "../transport";

interface Loaded {
  config: LabConfig;
  run: RunDetail;
}

interface ReviewBody extends JudgementBody {
  runId?: string;
}

export default function Review({ id, modes }: { id: string; modes: Modes }): JSX.Element {
  const { data, error } = useLoaded<Loaded>(async (signal) => {
    const config = await loadSettings(signal);
    return { config, run: await patiently(() => get<RunDetail>(runPath(id), {}, signal), signal) };
  }, id);
  return <div class="lab">{data ? <ReviewForm {...data} modes={modes} /> : <Unloaded error={error} />}</div>;
}

/** What a review holds while it is open. */
class ReviewDesk {
  readonly fields = new Fields();
  readonly transport = new Transport([""]);
  readonly draft: Draft<Judgement>;
  readonly sender: Sender<ReviewBody>;
  /** What was recorded, once it is. */
  readonly recorded = signal<ReviewBody | null>(null);
  isSecond = false;
  readonly #run: RunDetail;
  readonly #modes: Modes;

  constructor(run: RunDetail, modes: Modes) {
    this.#run = run;
    this.#modes = modes;
    this.draft = new Draft<Judgement>(`draft.review.${run.runId}`, { ratings: {}, notes: "", tags: "" });
    this.sender = new Sender<ReviewBody>({
      slot: `review.${run.runId}`,
      path: "/api/feedback",
      onDone: (body) => this.#finish(body),
      onRefused: (error) => this.fields.show(error instanceof ApiError ? error.context["field"] : null, said(error)),
      onArrived: (recorded) => this.#askForMore(recorded ?? {}),
    });
  }

  submit(): void {
    if (this.recorded.value || this.sender.isBusy.value) return;
    this.fields.clear();
    this.sender.hideError();
    const body = judgementBody(this.draft.data.value);
    if (!Object.keys(body).length) {
      this.fields.show("ratings.overall", "Not submitted yet: there is nothing in it. Rate something, write a note, or add a tag.");
    } else if (this.#modes.requireOverall && body.ratings?.["overall"] === undefined) {
      this.fields.show("ratings.overall", "Not submitted yet: there is no overall rating. Rate it from 0 to 100.");
    } else {
      this.draft.flush();
      void this.sender.send({ runId: this.#run.runId, ...body });
    }
  }

  /** A run may be reviewed twice, but not by accident. */
  #askForMore(recorded: ReviewBody): void {
    this.sender.ask({
      text: "⚠ Your first version had arrived, and is recorded once. What you have changed since is not recorded.",
      choices: [
        { label: "Keep only the first", act: () => this.#finish(recorded) },
        {
          label: "Add this as a second judgement",
          act: () => {
            this.isSecond = true;
            this.submit();
          },
        },
      ],
    });
  }

  #finish(body: ReviewBody): void {
    this.draft.forget();
    this.recorded.value = body;
  }

  close(): void {
    this.draft.close();
    this.sender.leave();
  }
}

function ReviewForm({ config, run, modes }: Loaded & { modes: Modes }): JSX.Element {
  const desk = useMemo(() => new ReviewDesk(run, modes), []);
  const { fields, transport, draft, sender, recorded } = desk;
  const isOver = recorded.value !== null;
  useEffect(() => {
    sender.resume();
    return () => desk.close();
  }, []);
  useServerWatch(!isOver);
  useHeading(isOver ? "Submitted" : nameOfRun(run), isOver ? nameOfRun(run) : "How good is it?");
  const documents = useMemo(() => documentsOf([run], false), []);
  useJudgingKeys(
    isOver ? {} : { ...playingKeys(transport), n: { text: "Write notes", run: () => fields.focus("notes") } },
    () => desk.submit(),
  );
  if (recorded.value) return <Recorded config={config} run={run} body={recorded.value} isSecond={desk.isSecond} />;
  const prompt = run.artifacts?.prompt;
  return (
    <>
      <KeysLine />
      <div class="judging">
        <div class="stack">
          <Facts run={run} />
          {problemsOf(run).map((text) => <Notice key={text} kind="warn">{text}</Notice>)}
          {prompt && <PromptSection prompt={prompt} />}
          {(run.videoPath || !documents.length) && (
            <section aria-label="Video">
              <VideoBox run={run} whose="this run" transport={transport} />
              <PlayBar transport={transport} />
            </section>
          )}
          {documents.length > 0 && <DocumentView documents={documents} names={[""]} />}
          <MetricsReveal ui={config.ui}>{() => <MetricsTable runs={[run]} names={["This run"]} />}</MetricsReveal>
        </div>
        <section class="stack judgement" aria-labelledby="judge-title" inert={sender.isLocked.value}>
          <h2 id="judge-title">Your judgement</h2>
          <JudgementForm whose="" data={draft.data.value} onChange={(data) => draft.change(data)} fields={fields} notesKey="n" />
        </section>
      </div>
      <div class="submit-bar">
        <SenderBox sender={sender} />
        <SubmitButton sender={sender} onClick={() => desk.submit()} />
        <span class="hint" id="draft-state">{draft.state.value}</span>
      </div>
      <Heard />
    </>
  );
}

function Facts({ run }: { run: RunDetail }): JSX.Element {
  return (
    <div class="hint">
      <p class="path">{run.artifactsDir}</p>
      <p>
        Imported <Ago at={run.createdAt} />
        {run.supersedesRunId && <> · ↻ newer version of <LabLink page={reviewPage(run.supersedesRunId)}>an earlier run</LabLink></>}
      </p>
    </div>
  );
}

function Recorded({ config, run, body, isSecond }: Loaded & { body: ReviewBody; isSecond: boolean }): JSX.Element {
  useEffect(focusHeading, []);
  const rated = Object.entries(body.ratings ?? {});
  return (
    <div class="stack">
      <section class="ending" aria-labelledby="ending-title">
        <h2 id="ending-title">
          {isSecond ? "Thank you. Your second judgement is recorded, beside the first." : "Thank you. Your judgement is recorded, once."}
        </h2>
        {rated.length > 0 && (
          <dl class="metrics-line num">
            {rated.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{String(value)}</dd></div>)}
          </dl>
        )}
        {body.notes && <blockquote>{body.notes}</blockquote>}
        {body.tags && <p>{`Tags: ${body.tags.join(", ")}`}</p>}
        <p id="close-hint">{closing(config)}</p>
      </section>
      <Reveal summary="Show the automatic metrics">{() => <MetricsTable runs={[run]} names={["This run"]} />}</Reveal>
      <p><LabLink page={RUNS_PAGE}>All runs</LabLink></p>
    </div>
  );
}
