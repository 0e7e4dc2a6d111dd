// Field: a label, what it is about, and what is wrong with it.

import { cloneElement, type ComponentChildren, type JSX, type VNode } from "preact";
import { useId } from "preact/hooks";

interface FieldProps {
  label: string;
  hint?: ComponentChildren;
  error?: string | null;
  /** One input, select or textarea; it gets its id and its description from here. */
  children: VNode<Record<string, unknown>>;
}

export function Field({ label, hint, error, children }: FieldProps): JSX.Element {
  const id = useId();
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ");
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {cloneElement(children, { id, "aria-describedby": described || undefined, "aria-invalid": error ? "true" : undefined })}
      {hint && <p id={`${id}-hint`} class="hint">{hint}</p>}
      {error && <p id={`${id}-error`} class="field-error">{error}</p>}
    </div>
  );
}
