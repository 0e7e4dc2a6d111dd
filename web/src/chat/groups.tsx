// Groups: all conversations, as a page of their own and as a list beside one of them.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { plural } from "../core/format";
import { patiently } from "../core/patience";
import { type BoardItem, type GroupItem, pathOf } from "./models";
import { getBoard, getGroups } from "./server";
import { callOf, stateInList } from "./states";

const LOOK_MS = 3_000;
const LIST_LOOK_MS = 15_000;
/** At most one part in so many of the time is spent with looking. */
const SHARE = 10;
/** More than these are found by a part of their name. */
const SHOWN_MAX = 200;
const FILTER_FROM = 12;

/** All conversations, and what goes on in each. */
export function Groups({ onFailed }: { onFailed: (error: unknown) => void }): JSX.Element {
  const board = useWatched(getBoard, LOOK_MS, onFailed);
  if (!board) return <p class="hint slow">Loading…</p>;
  if (board.items.length === 0) return <Nothing />;
  return <Found items={board.items} list={(shown) => <ul class="cards">{shown.map((each) => <Card key={each.name} group={each} />)}</ul>} />;
}

/** The names of all conversations beside the one that is open. */
export function Beside({ current }: { current: string }): JSX.Element | null {
  const found = useWatched(getGroups, LIST_LOOK_MS);
  if (!found) return null;
  return (
    <nav id="groups" aria-label="All conversations">
      <h2>Conversations</h2>
      <Found
        items={found.items}
        list={(shown) => (
          <ul>
            {shown.map((each) => (
              <li key={each.name}>
                <a href={pathOf(each.name)} aria-current={each.name === current ? "page" : undefined}>{each.name}{each.isPaused && " (paused)"}</a>
              </li>
            ))}
          </ul>
        )}
      />
    </nav>
  );
}

function Nothing(): JSX.Element {
  return (
    <div class="empty">
      <p>There is no conversation yet. Each is a group with an agent; add one in a terminal:</p>
      <pre><code>onceward dispatch groups add demo --agent "python3 agent.py"</code></pre>
      <p>It appears here by itself.</p>
    </div>
  );
}

/** A list, and a field that finds in it by name once it is long. */
function Found<T extends GroupItem>({ items, list }: { items: T[]; list: (shown: T[]) => ComponentChildren }): JSX.Element {
  const id = useId();
  const [text, setText] = useState("");
  const wanted = text.trim().toLowerCase();
  const fits = items.filter(({ name }) => name.toLowerCase().includes(wanted));
  const more = fits.length - SHOWN_MAX;
  return (
    <>
      <div class="field" hidden={items.length < FILTER_FROM}>
        <label for={id}>Find by name</label>
        <input id={id} type="search" autoComplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </div>
      {list(fits.slice(0, SHOWN_MAX))}
      <p class="hint">{more > 0 ? `${more} more; type a part of the name.` : fits.length === 0 && "None has such a name."}</p>
    </>
  );
}

function Card({ group }: { group: BoardItem }): JSX.Element {
  const state = stateInList(group);
  const call = callOf(group);
  return (
    <li class="card">
      <a class="name" href={pathOf(group.name)}>{group.name}</a>
      <span class="standing">
        {group.pending > 0 && <span>{plural(group.pending, "message")} not handed out</span>}
        {group.dead > 0 && <Chip kind="bad" icon="⚠" word={plural(group.dead, "dead letter")} />}
        {state ? <Chip {...state} /> : <Chip kind="" icon="○" word="quiet" />}
      </span>
      {call && <span class="hint whole">{call}</span>}
    </li>
  );
}

/** A state: icon, word and colour, so that no one of them is needed alone. */
function Chip({ kind, icon, word }: { kind: string; icon: string; word: string }): JSX.Element {
  return <span class={`chip ${kind}`}><span aria-hidden="true">{icon}</span> {word}</span>;
}

/** What a question brings, asked again for as long as the page may be seen; less often where that takes long. */
function useWatched<T>(ask: (signal: AbortSignal) => Promise<T>, ms: number, onFailed?: (error: unknown) => void): T | undefined {
  const [found, setFound] = useState<T>();
  useEffect(() => {
    const control = new AbortController();
    void watch(ask, ms, setFound, control.signal).catch((error: unknown) => {
      if (!control.signal.aborted) onFailed?.(error);
    });
    return () => control.abort();
  }, []);
  return found;
}

async function watch<T>(ask: (signal: AbortSignal) => Promise<T>, ms: number, take: (found: T) => void, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const began = performance.now();
    take(await patiently(() => ask(signal), signal));
    const took = performance.now() - began;
    do await new Promise((resolve) => setTimeout(resolve, Math.max(ms, took * SHARE)));
    while (document.hidden && !signal.aborted);
  }
}
