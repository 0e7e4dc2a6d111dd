// Bits: the small parts of which screens are made. Each says something once, and the same way everywhere.

import { useComputed } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../core/api";
import { now } from "../core/clock";
import { count, duration, ended, exact, NOTHING, sentence, when } from "../core/format";
import { Link, route, withQuery } from "../core/router";
import { Icon } from "./icons";

export { Field } from "./field";
export { SearchBox } from "./search";

export type Kind = "ok" | "busy" | "wait" | "warn" | "bad" | "off";

/** A state: icon, word and colour; red (bad) only for what needs a person. */
export function State({ kind, word, title }: { kind: Kind; word: string; title?: string }): JSX.Element {
  return (
    <span class={`state ${kind}`} title={title}>
      <Icon name={kind} size={14} />
      {word}
    </span>
  );
}

/** How long ago; the exact moment when pointed at, or beside it (`full`). */
export function Ago({ at, full }: { at: string | null | undefined; full?: boolean }): JSX.Element {
  const relative = useComputed(() => when(at, now.value).relative);
  if (!at) return <span class="nothing">{NOTHING}</span>;
  const { absolute } = when(at);
  return (
    <time class="ago" dateTime={at} title={absolute}>
      {relative}
      {full && <span class="exact">{absolute}</span>}
    </time>
  );
}

export function Seconds({ value }: { value: number | null | undefined }): JSX.Element {
  if (value == null) return <span class="nothing">{NOTHING}</span>;
  return <span class="num" title={`${exact(value)} seconds`}>{duration(value)}</span>;
}

export function Num({ value }: { value: number | null | undefined }): JSX.Element {
  if (value == null) return <span class="nothing">{NOTHING}</span>;
  const short = count(value);
  const whole = exact(value);
  return <span class="num" title={short === whole ? undefined : whole}>{short}</span>;
}

/** Copies a text; says so, to eyes and ears. */
export function Copy({ text, label }: { text: string; label: string }): JSX.Element {
  const [isDone, setDone] = useState(false);
  useEffect(() => {
    if (!isDone) return;
    const timer = setTimeout(() => setDone(false), 2_000);
    return () => clearTimeout(timer);
  }, [isDone]);
  return (
    <button
      type="button"
      class="quiet square copy"
      aria-label={isDone ? `Copied ${label}` : `Copy ${label}`}
      title={isDone ? "Copied" : `Copy ${label}`}
      onClick={() => void copy(text).then(setDone)}
    >
      <Icon name={isDone ? "check" : "copy"} />
    </button>
  );
}

/** Put a text where it can be pasted from; tells whether that worked. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Not allowed, or an address that counts as insecure: the old way.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "only-heard";
    const opener = document.activeElement;
    (document.querySelector("dialog:modal") ?? document.body).append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    if (opener instanceof HTMLElement) opener.focus();
    return isDone;
  }
}

export function Code({ children }: { children: ComponentChildren }): JSX.Element {
  return <code>{children}</code>;
}

/** Labels and what they are, in pairs. */
export function Facts({ items }: { items: [string, ComponentChildren][] }): JSX.Element {
  return (
    <dl class="facts">
      {items.map(([label, node]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{node}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A value as it travels, as text and nothing else. */
export function Json({ value, label = "JSON" }: { value: unknown; label?: string }): JSX.Element {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "nothing";
  return (
    <div class="json">
      <pre tabIndex={0} role="region" aria-label={label}><code>{text}</code></pre>
      <Copy text={text} label={label} />
    </div>
  );
}

interface EmptyProps {
  title: string;
  text: ComponentChildren;
  /** To be pasted into a terminal. */
  commands?: string[];
  action?: ComponentChildren;
}

/** Nothing yet: what would be here, and how to make the first one. */
export function Empty({ title, text, commands = [], action }: EmptyProps): JSX.Element {
  return (
    <div class="empty">
      <h2>{title}</h2>
      <p>{text}</p>
      {commands.map((command) => <Command key={command} text={command} />)}
      {action && <p class="row">{action}</p>}
    </div>
  );
}

/** A command to copy. */
export function Command({ text }: { text: string }): JSX.Element {
  return (
    <div class="command">
      <code>{text}</code>
      <Copy text={text} label={`command ${text}`} />
    </div>
  );
}

/** There is something, but the filter lets none of it through. */
export function NoMatch({ onClear }: { onClear: () => void }): JSX.Element {
  return (
    <div class="empty">
      <h2>Nothing matches</h2>
      <p>There may be more without the filter.</p>
      <p class="row"><button type="button" onClick={onClear}>Clear the filter</button></p>
    </div>
  );
}

/** What went wrong, why, what to do now, and what to pass on. */
export function ErrorBox({ error, onRetry }: { error: ApiError; onRetry?: () => void }): JSX.Element {
  const details = JSON.stringify(
    { code: error.code, status: error.status, message: error.message, request: error.request, at: error.at, context: error.context },
    null,
    2,
  );
  const reason = error.context["reason"] ?? error.context["detail"];
  return (
    <div class="notice bad error-box" role="alert">
      <Icon name="bad" />
      <div>
        <p class="what">{sentence(error.message)}</p>
        {typeof reason === "string" && <p>{sentence(reason)}</p>}
        {error.fix && <p>What now: {ended(error.fix)}</p>}
        <p class="hint path"><code>{error.code}</code> {error.request}</p>
      </div>
      <div class="error-acts">
        <Copy text={details} label="details of this error" />
        {onRetry && <button type="button" onClick={onRetry}>Try again</button>}
      </div>
    </div>
  );
}

const NOTICE_ICONS = { info: "help", ok: "ok", warn: "warn", bad: "bad" } as const;

export function Notice({ kind = "info", children }: { kind?: keyof typeof NOTICE_ICONS; children: ComponentChildren }): JSX.Element {
  return (
    <div class={`notice ${kind}`}>
      <Icon name={NOTICE_ICONS[kind]} />
      <div>{children}</div>
    </div>
  );
}

/** Where something will be; shows itself only when it takes long. */
export function Skeleton({ rows = 4 }: { rows?: number }): JSX.Element {
  return (
    <div class="skeleton" aria-busy="true">
      <span class="only-heard">Loading</span>
      {Array.from({ length: rows }, (_, index) => <span key={index} />)}
    </div>
  );
}

interface Tab {
  id: string;
  title: string;
  count?: number | null;
}

/** Views of one screen; which one is in the address. The first is the one without a name there. */
export function Tabs({ label, tabs, param = "tab" }: { label: string; tabs: Tab[]; param?: string }): JSX.Element {
  const first = tabs[0]?.id ?? "";
  const current = useTab(param, first);
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <Link
          key={tab.id}
          href={withQuery({ [param]: tab.id === first ? null : tab.id })}
          aria-current={tab.id === current ? "page" : undefined}
        >
          {tab.title}
          {tab.count != null && <span class="badge">{count(tab.count)}</span>}
        </Link>
      ))}
    </nav>
  );
}

export function useTab(param: string, fallback: string): string {
  return route.value.query.get(param) ?? fallback;
}

/** Rows that came since; they wait until the person wants them. */
export function Fresh({ fresh, isReordered, showFresh }: { fresh: number; isReordered?: boolean; showFresh: () => void }): JSX.Element {
  return (
    <div class="fresh" role="status">
      {(fresh > 0 || isReordered) && (
        <button type="button" onClick={showFresh}>
          {fresh > 0 ? `${exact(fresh)} new` : "The order has changed"}
          <kbd>.</kbd>
        </button>
      )}
    </div>
  );
}
