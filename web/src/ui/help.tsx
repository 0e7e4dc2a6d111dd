// Help: all keys that work here, to be searched; and the switch that turns the single letters off.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { hasLetters, listed } from "../core/keys";
import { Dialog } from "./dialog";

export function Help({ onClose }: { onClose: () => void }): JSX.Element {
  const [text, setText] = useState("");
  // As it was when the dialog opened.
  const [sections] = useState(listed);
  const wanted = text.trim().toLowerCase();
  const found = sections
    .map(({ section, keys }) => ({
      section,
      keys: keys.filter((each) => `${section} ${each.text} ${each.key}`.toLowerCase().includes(wanted)),
    }))
    .filter(({ keys }) => keys.length);
  return (
    <Dialog title="Shortcuts" kind="wide" onClose={onClose}>
      <input type="text" role="searchbox" aria-label="Search shortcuts" placeholder="Search shortcuts" value={text} autoFocus onInput={(event) => setText(event.currentTarget.value)} />
      <label class="check">
        <input type="checkbox" checked={hasLetters.value} onChange={(event) => { hasLetters.value = event.currentTarget.checked; }} />
        Single-letter shortcuts are on
      </label>
      <div class="help-list">
        {found.map(({ section, keys }) => (
          <section key={section} aria-label={section}>
            <h3>{section}</h3>
            <dl>
              {keys.map((each) => (
                <div key={each.key}>
                  <dt>{each.text}</dt>
                  <dd><Key name={each.key} /></dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      {found.length === 0 && <p class="hint" role="status">No shortcut does that here.</p>}
      <p class="hint">Shortcuts do nothing while you type in a field. Each has a control that does the same.</p>
    </Dialog>
  );
}

/** `g c` is two keys one after the other, `Ctrl+k` two at once. */
export function Key({ name }: { name: string }): JSX.Element {
  return (
    <>
      {name.split(" ").map((step, index) => (
        <span key={index}>
          {index > 0 && " then "}
          {step.split("+").map((part, place) => (
            <span key={place}>{place > 0 && " + "}<kbd>{part.length === 1 && step.length > 1 ? part.toUpperCase() : part}</kbd></span>
          ))}
        </span>
      ))}
    </>
  );
}
