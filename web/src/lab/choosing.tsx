// Choosing: the runs that are ticked for a comparison, and the form that makes an experiment of them. The first run
// that was ticked is the baseline.

import type { JSX } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, freshKey, sendOnce } from "../core/api";
import { plural } from "../core/format";
import { mayPass, said, why } from "../core/patience";
import { go } from "../core/router";
import { Fields, useField } from "./fields";
import { comparePage, type Question } from "./models";
import { addressOf } from "./place";

export interface Chosen {
  runId: string;
  name: string;
  label: string;
}

interface Props {
  chosen: Chosen[];
  onChange: (chosen: Chosen[]) => void;
}

export function Choosing({ chosen, onChange }: Props): JSX.Element | null {
  const fields = useMemo(() => new Fields(), []);
  const [name, setName] = useState("");
  const [hypothesis, setHypothesis] = useState("");
  const [questions, setQuestions] = useState<Omit<Question, "id">[]>([]);
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  /** What was sent last without a final answer, and its id: trying again makes one comparison. */
  const sent = useRef<{ body: string; id: string } | null>(null);
  if (chosen.length === 0) return null;

  const create = async (): Promise<void> => {
    if (isBusy || chosen.length < 2) return;
    fields.clear();
    setProblem(null);
    setBusy(true);
    const body = JSON.stringify(bodyOf(chosen, name, hypothesis, questions));
    if (sent.current?.body !== body) sent.current = { body, id: freshKey() };
    try {
      const { experimentId } = await sendOnce<{ experimentId: string }>("/api/experiments", body, { "X-CM-LAB-REQUEST-ID": sent.current.id });
      sent.current = null;
      go(addressOf(comparePage(experimentId)));
    } catch (error) {
      setBusy(false);
      if (error instanceof ApiError && fields.show(error.context["field"], said(error))) return;
      setProblem(mayPass(error) ? `No answer from the server: ${why(error)}. Try again.` : said(error));
    }
  };
  return (
    <div class="choosing">
      <form class="stack set-up" noValidate aria-labelledby="choice-title" onSubmit={(event) => { event.preventDefault(); void create(); }}>
        <h2 id="choice-title">{`Compare ${plural(chosen.length, "run")}`}</h2>
        <Sides chosen={chosen} onChange={onChange} fields={fields} />
        <details>
          <summary>Name, hypothesis, questions</summary>
          <div class="stack">
            <Text fields={fields} name="name" title="Name" hint="optional, shown to the judge" value={name} onInput={setName} />
            <Text fields={fields} name="hypothesis" title="Hypothesis" hint="optional, hidden from the judge until asked for" value={hypothesis} onInput={setHypothesis} isLong />
            {questions.map((each, index) => (
              <QuestionRow key={index} number={index + 1} question={each} onChange={(changed) => setQuestions(questions.with(index, changed))} />
            ))}
            <button type="button" onClick={() => setQuestions([...questions, { prompt: "", type: "yes_no_unsure" }])}>Add a question</button>
          </div>
        </details>
        {problem && <p class="field-error" role="alert">{`⚠ ${problem}`}</p>}
        <p class="row">
          <button type="submit" class="main" id="compare" disabled={isBusy || chosen.length < 2} title={chosen.length < 2 ? "Tick one more run" : undefined}>Compare</button>
          <button type="button" onClick={() => onChange([])}>Clear the selection</button>
        </p>
      </form>
    </div>
  );
}

function bodyOf([baseline, ...variants]: Chosen[], name: string, hypothesis: string, questions: Omit<Question, "id">[]): object {
  const asked = questions.filter((each) => each.prompt.trim()).map((each, index) => ({ id: `q${index + 1}`, prompt: each.prompt.trim(), type: each.type }));
  return {
    name: name.trim() || undefined,
    hypothesis: hypothesis.trim() || undefined,
    baselineRunId: baseline?.runId,
    variants: variants.map(({ runId, label }) => ({ runId, label: label.trim() || undefined })),
    questions: asked.length ? asked : undefined,
  };
}

function Sides({ chosen, onChange, fields }: Props & { fields: Fields }): JSX.Element {
  return (
    <ol class="chosen-runs">
      {chosen.map((each, index) => index === 0
        ? <li key={each.runId}><strong>Baseline: </strong>{each.name}</li>
        : <Variant key={each.runId} each={each} index={index} fields={fields} onLabel={(label) => onChange(chosen.with(index, { ...each, label }))} />)}
      {chosen.length === 1 && <li class="hint">Tick at least one more run.</li>}
    </ol>
  );
}

function Variant({ each, index, fields, onLabel }: { each: Chosen; index: number; fields: Fields; onLabel: (label: string) => void }): JSX.Element {
  const id = useId();
  const { ref, props, problem } = useField(fields, `variants[${index - 1}].label`);
  return (
    <li>
      <label for={id}><strong>{`Variant ${index}: `}</strong>{each.name}</label>
      <input
        id={id} ref={ref} type="text" placeholder="label for the results, optional" aria-label={`Label of variant ${index}, ${each.name}`}
        value={each.label} {...props} onInput={(event) => onLabel(event.currentTarget.value)}
      />
      {problem}
    </li>
  );
}

interface TextProps {
  fields: Fields;
  name: string;
  title: string;
  hint: string;
  value: string;
  onInput: (text: string) => void;
  isLong?: boolean;
}

function Text({ fields, name, title, hint, value, onInput, isLong }: TextProps): JSX.Element {
  const id = useId();
  const { ref, props, problem } = useField(fields, name);
  return (
    <div class="field">
      <label for={id}>{title}<span class="hint">{` ${hint}`}</span></label>
      {isLong
        ? <textarea id={id} ref={ref} rows={2} value={value} {...props} onInput={(event) => onInput(event.currentTarget.value)} />
        : <input id={id} ref={ref} type="text" value={value} {...props} onInput={(event) => onInput(event.currentTarget.value)} />}
      {problem}
    </div>
  );
}

type Draft = Omit<Question, "id">;

function QuestionRow({ number, question, onChange }: { number: number; question: Draft; onChange: (question: Draft) => void }): JSX.Element {
  const id = useId();
  const prompt = useRef<HTMLInputElement>(null);
  useEffect(() => prompt.current?.focus(), []);
  return (
    <div class="row">
      <div class="field">
        <label for={id}>{`Question ${number}`}</label>
        <input id={id} ref={prompt} type="text" value={question.prompt} onInput={(event) => onChange({ ...question, prompt: event.currentTarget.value })} />
      </div>
      <select aria-label={`Kind of question ${number}`} value={question.type} onChange={(event) => onChange({ ...question, type: event.currentTarget.value as Question["type"] })}>
        <option value="yes_no_unsure">yes, no, unsure</option>
        <option value="text">text</option>
      </select>
    </div>
  );
}
