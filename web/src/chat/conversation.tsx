// Conversation: its log, what goes on, and where one writes. Stands by itself, and inside the console.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Composer } from "./composer";
import { Log } from "./log";
import { stateOf } from "./states";
import { Talk } from "./talk";
import { unsentOf } from "./unsent";

interface Props {
  group: string;
  /** What calls its agent. */
  hint: string;
  /** Whether one comes here to write; elsewhere the focus stays where it is. */
  isMain?: boolean;
  /** Hears why it cannot be shown. */
  onFailed: (error: unknown) => void;
}

export function Conversation({ group, hint, isMain = false, onFailed }: Props): JSX.Element | null {
  const unsent = unsentOf(group);
  const talk = useMemo(() => new Talk(group, unsent), [group]);
  const composer = useRef<Composer>(null);
  const failed = useRef(onFailed);
  failed.current = onFailed;
  useEffect(() => {
    const control = new AbortController();
    talk.follow(control.signal).catch((error: unknown) => {
      if (!control.signal.aborted) failed.current(error);
    });
    return () => control.abort();
  }, [talk]);
  const items = talk.items.value;
  const isThere = items !== null;
  useEffect(() => {
    // A finger would get a keyboard over the half of what it wants to read.
    if (isMain && isThere && matchMedia("(hover: hover)").matches) composer.current?.focus();
  }, [isMain, isThere]);
  if (items === null) return <p class="hint slow">Loading…</p>;
  return (
    <>
      <Log
        key={talk.turn.value}
        label={`Conversation ${group}`}
        items={items}
        outgoing={unsent.items.value}
        onEarlier={talk.before.value === null ? null : () => void talk.addEarlier().catch(failed.current)}
        onRetry={(id) => unsent.retry(id)}
        onTakeBack={({ id, text }) => {
          unsent.drop(id);
          composer.current?.takeBack(text);
        }}
      />
      <Going talk={talk} />
      <Composer place={composer} group={group} hint={hint} send={(name, text) => unsent.add(name, text)} />
    </>
  );
}

function Going({ talk }: { talk: Talk }): JSX.Element {
  const lost = talk.lost.value;
  const now = talk.state.value && stateOf(talk.state.value);
  return (
    <p class={`going ${lost ? "bad" : now?.kind ?? ""}`} role="status">
      {lost ? `⚠ ${lost}` : now && `${now.icon} ${now.text}`}
    </p>
  );
}
