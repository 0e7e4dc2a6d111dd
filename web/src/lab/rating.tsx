// Rating: what a person enters about one run: eight ratings that may stay unset, notes, tags.

import type { JSX } from "preact";
import { useId, useRef } from "preact/hooks";
import { type Fields, useField } from "./fields";
import { type Aspect, ASPECTS, type Judgement } from "./judgements";

const HINTS: Record<Aspect, string> = {
  overall: "all together",
  hook: "the first seconds",
  pacing: "its tempo",
  script: "what is said",
  visuals: "what is seen",
  motion: "how it moves",
  captions: "words on screen",
  sync: "sound with picture",
};

interface JudgementProps {
  /** The side in accessible names ("side A"), or empty. */
  whose: string;
  data: Judgement;
  onChange: (data: Judgement) => void;
  fields: Fields;
  /** Where the judgement stands in the body, such as `perRun[0].` */
  name?: string;
  /** The key that leads to the notes, where there is one. */
  notesKey?: string;
}

export function JudgementForm({ whose, data, onChange, fields, name = "", notesKey }: JudgementProps): JSX.Element {
  const rate = (aspect: Aspect, text: string): void => onChange({ ...data, ratings: { ...data.ratings, [aspect]: text } });
  return (
    <div class="stack">
      <fieldset class="ratings">
        <legend>Ratings, 0 to 100; leave out what you like</legend>
        {ASPECTS.map((each) => (
          <AspectRow key={each} aspect={each} whose={whose} value={data.ratings?.[each] ?? ""} onChange={(text) => rate(each, text)} fields={fields} name={`${name}ratings.${each}`} />
        ))}
      </fieldset>
      <Text title="Notes" whose={whose} value={data.notes ?? ""} onChange={(notes) => onChange({ ...data, notes })} fields={fields} name={`${name}notes`} isLong shortcut={notesKey} />
      <Text title="Tags" whose={whose} value={data.tags ?? ""} onChange={(tags) => onChange({ ...data, tags })} fields={fields} name={`${name}tags`} placeholder="separated by commas" />
    </div>
  );
}

interface AspectProps {
  aspect: Aspect;
  whose: string;
  value: string;
  onChange: (text: string) => void;
  fields: Fields;
  name: string;
}

/** One aspect: a slider, the number beside it, and a button that unsets both. */
function AspectRow({ aspect, whose, value, onChange, fields, name }: AspectProps): JSX.Element {
  const id = useId();
  const range = useRef<HTMLInputElement>(null);
  const field = useField(fields, name);
  const title = aspect.charAt(0).toUpperCase() + aspect.slice(1);
  const of = whose ? `, ${whose}` : "";
  const isSet = value !== "" && value !== "?";
  const slide = ({ currentTarget }: { currentTarget: HTMLInputElement }): void => onChange(currentTarget.value);
  return (
    <>
      <div class={isSet ? "rating" : "rating unset"}>
        <label for={id}>{title}<span class="hint">{` ${HINTS[aspect]}`}</span></label>
        {/* A click exactly where the thumb already rests is a choice too. */}
        <input
          id={id} ref={range} type="range" min={0} max={100} step={1} value={isSet ? value : 50}
          aria-label={title + of} aria-valuetext={isSet ? value : "not rated"} onInput={slide} onClick={slide}
        />
        <input
          ref={field.ref} type="number" min={0} max={100} step={1} inputMode="numeric" placeholder="–" value={value === "?" ? "" : value}
          aria-label={`${title}${of}, exact number`} {...field.props}
          onInput={({ currentTarget }) => onChange(currentTarget.validity.badInput ? "?" : currentTarget.value)}
        />
        <button
          type="button" class="quiet square" aria-label={`Unset ${aspect}${of}`} title="Unset" hidden={!isSet}
          onClick={() => { onChange(""); range.current?.focus(); }}
        >×</button>
      </div>
      {field.problem}
    </>
  );
}

interface TextProps {
  title: string;
  whose: string;
  value: string;
  onChange: (text: string) => void;
  fields: Fields;
  name: string;
  isLong?: boolean;
  placeholder?: string;
  shortcut?: string | undefined;
}

function Text({ title, whose, value, onChange, fields, name, isLong, placeholder, shortcut }: TextProps): JSX.Element {
  const id = useId();
  const { ref, props, problem } = useField(fields, name);
  const common = { id, value, "aria-label": whose ? `${title}, ${whose}` : undefined, "aria-keyshortcuts": shortcut, ...props };
  return (
    <div class="field">
      <label for={id}>{title}</label>
      {isLong
        ? <textarea ref={ref} rows={3} {...common} onInput={(event) => onChange(event.currentTarget.value)} />
        : <input ref={ref} type="text" placeholder={placeholder} {...common} onInput={(event) => onChange(event.currentTarget.value)} />}
      {problem}
    </div>
  );
}
