// Questions: what an experiment asks besides the choice: yes, no or unsure, or free text.

import type { JSX } from "preact";
import { useId } from "preact/hooks";
import { type Fields, useField } from "./fields";
import type { Question } from "./models";

const ANSWERS = [["yes", "Yes"], ["no", "No"], ["unsure", "Unsure"]] as const;

interface OneProps {
  question: Question;
  answer: string;
  onAnswer: (answer: string) => void;
  fields: Fields;
}

export function Questions({ questions, answers, onAnswer, fields }: { questions: Question[]; answers: Record<string, string>; onAnswer: (id: string, answer: string) => void; fields: Fields }): JSX.Element {
  return (
    <section class="stack" aria-labelledby="questions-title">
      <h2 id="questions-title">Questions</h2>
      {questions.map((question) => {
        const One = question.type === "text" ? Text : YesNo;
        return <One key={question.id} question={question} answer={answers[question.id] ?? ""} onAnswer={(answer) => onAnswer(question.id, answer)} fields={fields} />;
      })}
    </section>
  );
}

function Text({ question, answer, onAnswer, fields }: OneProps): JSX.Element {
  const id = useId();
  const { ref, props, problem } = useField(fields, `answers.${question.id}`);
  return (
    <div class="field">
      <label for={id}>{question.prompt}</label>
      <textarea id={id} ref={ref} rows={2} value={answer} {...props} onInput={(event) => onAnswer(event.currentTarget.value)} />
      {problem}
    </div>
  );
}

function YesNo({ question, answer, onAnswer, fields }: OneProps): JSX.Element {
  const name = useId();
  const { ref, props, problem } = useField(fields, `answers.${question.id}`);
  return (
    <fieldset>
      <legend>{question.prompt}</legend>
      <div class="choice-row">
        {ANSWERS.map(([value, text], index) => (
          <label key={value} class="choice-button small">
            <input ref={index === 0 ? ref : undefined} type="radio" name={name} value={value} checked={answer === value} {...(index === 0 && props)} onChange={() => onAnswer(value)} />
            <span>{text}</span>
          </label>
        ))}
      </div>
      {problem}
    </fieldset>
  );
}
