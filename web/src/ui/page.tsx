// Page: the head of every screen: its name, the question it answers, what can be done, the way back.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useKeys } from "../core/keys";
import { arrival, goUp, Link } from "../core/router";
import { Icon } from "./icons";

interface PageProps {
  title: string;
  /** The one question of this screen. */
  question: string;
  actions?: ComponentChildren;
  children?: ComponentChildren;
  back?: { href: string; label: string };
}

export function Page({ title, question, actions, children, back }: PageProps): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Onceward`;
  }, [title]);
  useEffect(() => {
    // A new view is announced by its heading; a list that one comes back to takes the focus from there.
    if (arrival.value !== "load") heading.current?.focus({ preventScroll: true });
  }, []);
  useKeys(back ? { Escape: { text: `Back to ${back.label}`, run: () => goUp(back.href) } } : {}, title);
  return (
    <>
      <header class="page-head">
        {back && (
          <Link class="back" href={back.href} isUp>
            <Icon name="back" />
            {back.label}
          </Link>
        )}
        <div class="page-title">
          <h1 tabIndex={-1} ref={heading}>{title}</h1>
          <p class="question">{question}</p>
        </div>
        {actions && <div class="page-actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}
