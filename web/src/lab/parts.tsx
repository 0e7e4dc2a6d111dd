// Parts: small pieces that several screens of the Lab share.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, asApiError } from "../core/api";
import { sentence } from "../core/format";
import { problemOf } from "../core/patience";
import { Link } from "../core/router";
import { Notice, Skeleton } from "../ui/bits";
import * as standalone from "../ui/standalone";
import { RUNS_PAGE } from "./models";
import { addressOf, heard, useHeading } from "./place";

/** A link to a page of the Lab. */
export function LabLink({ page, children, ...rest }: { page: string; children: ComponentChildren; class?: string; "aria-label"?: string }): JSX.Element {
  return <Link href={addressOf(page)} {...rest}>{children}</Link>;
}

/** Content that is shown when asked for, and is not in the page at all before. */
export function Reveal({ summary, children, id, isOpen = false }: { summary: string; children: () => ComponentChildren; id?: string; isOpen?: boolean }): JSX.Element {
  const [wasOpened, setOpened] = useState(isOpen);
  return (
    <details class="reveal" id={id} open={isOpen || undefined} onToggle={(event) => { if (event.currentTarget.open) setOpened(true); }}>
      <summary>{summary}</summary>
      {wasOpened && <div>{children()}</div>}
    </details>
  );
}

/** A button that stays pressed. */
export function Toggle({ isOn, onChange, children, title, id }: { isOn: boolean; onChange: (isOn: boolean) => void; children: ComponentChildren; title?: string; id?: string }): JSX.Element {
  return <button type="button" id={id} aria-pressed={isOn} title={title} onClick={() => onChange(!isOn)}>{children}</button>;
}

/** A key as it is printed on a control. Screen readers hear it through aria-keyshortcuts instead. */
export function Keycap({ children }: { children: string }): JSX.Element {
  return <kbd aria-hidden="true">{children}</kbd>;
}

/** A text that was asked for, scrollable with the keyboard. */
export function Prompt({ children, label }: { children: ComponentChildren; label: string }): JSX.Element {
  return <pre class="prompt" tabIndex={0} role="region" aria-label={label}>{children}</pre>;
}

/** What a change of the page is called to those who cannot see it. */
export function Heard(): JSX.Element {
  return <p class="only-heard" role="status">{heard.value}</p>;
}

/** Says that the server does not answer, and that no draft is lost by it. */
export function Away(): JSX.Element {
  return <standalone.Away kept="Nothing you entered is lost: drafts are kept in this browser. Trying again by itself." />;
}

/** Load what a screen shows, once; an error is one that asking again would not mend. */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, about: string): { data: T | null; error: unknown } {
  const [shown, setShown] = useState<{ data: T | null; error: unknown }>({ data: null, error: null });
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const ending = new AbortController();
    latest.current(ending.signal)
      .then((data) => { if (!ending.signal.aborted) setShown({ data, error: null }); })
      .catch((error: unknown) => { if (!ending.signal.aborted) setShown({ data: null, error }); });
    return () => ending.abort();
  }, [about]);
  return shown;
}

/** In place of a screen whose data is not there. */
export function Unloaded({ error }: { error: unknown }): JSX.Element {
  return error === null ? <Skeleton /> : <Failure error={error} />;
}

const MISSING = "Check the address. It may also belong to the Lab of another server.";
const RELOAD = "Reload the page; if that does not help, look into the server’s log.";

export function Failure({ error }: { error: unknown }): JSX.Element {
  const isMissing = error instanceof ApiError && error.status === 404;
  useHeading(isMissing ? "Not here" : "This page cannot be shown");
  const { code, status, fix } = asApiError(error);
  return (
    <>
      <Notice kind="warn">{`${problemOf(error)} ${isMissing ? MISSING : sentence(fix ?? RELOAD)}`}</Notice>
      <p><LabLink page={RUNS_PAGE}>Go to all runs and comparisons</LabLink></p>
      {status > 0 && <p class="hint">{`${code}, ${status}`}</p>}
    </>
  );
}
