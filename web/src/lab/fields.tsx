// Fields: which control belongs to which name of a request's body, and the message beside it when the server refuses
// that name.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useCallback, useEffect, useId } from "preact/hooks";

interface Shown {
  name: string;
  text: string;
}

export class Fields {
  readonly #controls = new Map<string, HTMLElement>();
  readonly shown = signal<Shown | null>(null);

  /** Register the control of a name, such as `perRun[0].ratings.hook`; null when the control is gone. */
  register(name: string, control: HTMLElement | null): void {
    if (control) this.#controls.set(name, control);
    else this.#controls.delete(name);
  }

  /** Show an error at its field, which gets the focus. False when the page has no such field. */
  show(field: unknown, text: string): boolean {
    const name = this.#find(typeof field === "string" ? field : "");
    if (name === null) return false;
    this.shown.value = { name, text };
    return true;
  }

  /** Bring the control of a name into view, and move the focus there. */
  reveal(name: string): void {
    const control = this.#controls.get(name);
    for (let at = control?.closest("details"); at; at = at.parentElement?.closest("details")) at.open = true;
    control?.focus();
    control?.scrollIntoView({ block: "center" });
  }

  /** Move the focus to the control of a name. */
  focus(name: string): void {
    this.#controls.get(name)?.focus();
  }

  clear(): void {
    this.shown.value = null;
  }

  /** The server may name a part of a field (`tags[3]`): the nearest name that is registered is meant. */
  #find(field: string): string | null {
    for (let name = field; ;) {
      if (this.#controls.has(name)) return name;
      const shorter = name.replace(/(\.[^.[\]]*|\[[^\]]*\])$/, "");
      // A name that is written in no known way gets no shorter.
      if (shorter === name) return null;
      name = shorter;
    }
  }
}

interface FieldOf {
  /** For the control: registers it. */
  ref: (control: HTMLElement | null) => void;
  /** For the control: marks it as invalid, and names the message. */
  props: { "aria-invalid"?: "true"; "aria-describedby"?: string };
  /** The message, to be placed after the control. */
  problem: JSX.Element | null;
}

/** Connect a control with its name in the body; `other` is a second name of the same control. */
export function useField(fields: Fields, name: string, hintId?: string, other?: string): FieldOf {
  const id = useId();
  const shown = fields.shown.value;
  const ours = shown !== null && (shown.name === name || shown.name === other) ? shown : null;
  const text = ours && ours.text;
  // Once all is drawn: the form may have been inert until now.
  useEffect(() => {
    if (ours) fields.reveal(ours.name);
  }, [ours]);
  const ref = useCallback((control: HTMLElement | null) => {
    fields.register(name, control);
    if (other) fields.register(other, control);
  }, [fields, name, other]);
  const described = [hintId, text !== null && id].filter(Boolean).join(" ");
  return {
    ref,
    props: { ...(text !== null && { "aria-invalid": "true" as const }), ...(described && { "aria-describedby": described }) },
    problem: text === null ? null : <p id={id} class="field-error">{`⚠ ${text}`}</p>,
  };
}
