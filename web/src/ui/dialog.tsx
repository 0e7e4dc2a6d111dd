// Dialog: a question above the page. The browser keeps the focus inside and Escape closes it; afterwards the
// focus is where it was.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Icon } from "./icons";

interface DialogProps {
  title: string;
  onClose: () => void;
  children?: ComponentChildren;
  actions?: ComponentChildren;
  /** "wide" for lists, "top" for what is typed into at once; without it, a question. */
  kind?: "wide" | "top";
}

/** What gets the focus: what is typed into or chosen first; else the way out. */
const FIRST = ":is(.dialog-body :is(input, select, textarea), dialog:not(:has(.dialog-body :is(input, select, textarea))) .dialog-actions button):not([hidden])";

export function Dialog({ title, onClose, children, actions, kind }: DialogProps): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  const close = useRef(onClose);
  close.current = onClose;
  useEffect(() => {
    const opener = document.activeElement;
    const dialog = box.current;
    dialog?.showModal();
    dialog?.querySelector<HTMLElement>(FIRST)?.focus();
    return () => {
      dialog?.close();
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={box}
      class={kind}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        close.current();
      }}
      // Beside it, that is; but only what holds no work closes that easily.
      onPointerDown={(event) => {
        if (kind && event.target === event.currentTarget) close.current();
      }}
    >
      <div class="dialog-box">
        <header class="dialog-head">
          <h2 id={id}>{title}</h2>
          <button type="button" class="quiet square" aria-label="Close" onClick={() => close.current()}>
            <Icon name="close" />
          </button>
        </header>
        <div class="dialog-body">{children}</div>
        {actions && <footer class="dialog-actions">{actions}</footer>}
      </div>
    </dialog>
  );
}
