// Side: one pasted body, its key, its canonical form with what differs marked, and what is doubtful in it.

import { Code, Copy, ErrorBox, Field, Notice } from "../../ui/bits";
import type { Inspected, Pasted, Side } from "./inspecting";
import { isAt, linesOf } from "./lines";

interface SideProps {
  name: "A" | "B";
  text: string;
  onText: (text: string) => void;
  what: Pasted;
  side: Side;
  /** Paths at which the two differ. */
  places: string[];
}

export function SideView({ name, text, onText, what, side, places }: SideProps) {
  return (
    <section class="part" aria-label={`Body ${name}`}>
      <Field
        label={`Body ${name}`}
        hint={name === "A" ? "A command as it is sent, or any JSON" : "Another one, to see why its key differs"}
        error={what.kind === "broken" ? `This is not JSON: ${what.problem}` : null}
      >
        <textarea
          class="mono"
          rows={10}
          spellcheck={false}
          value={text}
          onInput={(event) => onText(event.currentTarget.value)}
        />
      </Field>
      {side.error !== null && <ErrorBox error={side.error} />}
      {side.data !== null && what.kind !== "nothing" && what.kind !== "broken" && (
        <Found name={name} what={what} data={side.data} places={places} />
      )}
    </section>
  );
}

interface FoundProps {
  name: string;
  what: Pasted;
  data: Inspected;
  places: string[];
}

function Found({ name, what, data, places }: FoundProps) {
  const digest = data.key ?? data.sha256 ?? "";
  const noun = data.key === null ? "SHA-256" : "Key";
  return (
    <>
      <div class="key-result">
        <span class="hint">{noun}</span> <Copy text={digest} label={`${noun.toLowerCase()} of ${name}`} />
        <div><Code>{digest}</Code></div>
      </div>
      {data.lint.length > 0 && <Lint data={data} />}
      <Marked name={name} what={what} data={data} places={places} />
      <details class="canonical">
        <summary>Canonical form, as it is hashed</summary>
        {Object.entries(data.canonical).map(([part, text]) => (
          <p key={part}>
            {part !== "value" && <span class="hint">{part}</span>}
            <code class="canonical-text">{text}</code>
            <Copy text={text ?? ""} label={`canonical ${part} of ${name}`} />
          </p>
        ))}
      </details>
    </>
  );
}

function Lint({ data }: { data: Inspected }) {
  return (
    <Notice kind="warn">
      <p>A retry may get another key:</p>
      <ul class="lint">
        {data.lint.map((each) => (
          <li key={each.path}><code>{shownPath(each.path, data)}</code> {each.why}</li>
        ))}
      </ul>
    </Notice>
  );
}

function Marked({ name, what, data, places }: FoundProps) {
  const lines = linesOf(wholeOf(what, data));
  const doubtful = data.lint.map((each) => shownPath(each.path, data));
  return (
    <pre class="marked-lines" tabIndex={0} role="region" aria-label={`Content of ${name}, sorted`}>
      {lines.map((line, index) => {
        const differs = isAt(line, places);
        const kind = differs ? "differs" : isAt(line, doubtful) ? "doubtful" : null;
        return (
          <span key={index} class="marked-line">
            {"  ".repeat(line.depth)}
            {kind === null ? line.text : <mark class={`is-${kind}`} data-path={line.path}>{line.text}</mark>}
            {"\n"}
          </span>
        );
      })}
    </pre>
  );
}

/** A plain value has no part's name in front. */
function shownPath(path: string, data: Inspected): string {
  return data.key === null ? path.replace(/^value\.?/, "") || "the whole value" : path;
}

/** What is hashed, as one value; canonical text has no number that reads back differently. */
function wholeOf(what: Pasted, data: Inspected): unknown {
  if (what.kind !== "command") return JSON.parse(data.canonical.value ?? "null");
  const { action, task_id, snapshot_id } = what.fields;
  const parts = { inputs: data.canonical.inputs ?? "{}", expected_outputs: data.canonical.expected_outputs ?? "[]" };
  return {
    action,
    task_id,
    snapshot_id,
    inputs: JSON.parse(parts.inputs),
    expected_outputs: JSON.parse(parts.expected_outputs),
  };
}
