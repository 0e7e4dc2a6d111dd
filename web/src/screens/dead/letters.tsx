// Letters: dead letters of workers and conversations, filtered, and redriven one by one or many at once.

import { useSignal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Schemas } from "../../api/types";
import { useLive, usePages } from "../../core/live";
import { route, setQuery } from "../../core/router";
import { ActionButton } from "../../ui/action";
import { Ago, Empty, NoMatch, Num, SearchBox, State } from "../../ui/bits";
import { Table, type Column } from "../../ui/table";
import { Listed } from "../lists/listed";
import { useRemembered } from "../lists/neighbours";
import { qualifier, takeApart } from "../lists/qualifiers";
import { Chip, Rail } from "../lists/rail";
import { letterHref, letterLook, messages, placeOf, type Letter } from "./models";
import { RedriveDialog, type What } from "./redrive";

/** What one redrive takes at the most. */
const IDS_MAX = 1_000;
const COLUMNS: Column<Letter>[] = [
  {
    key: "letter",
    title: "Letter",
    render: (each) => (
      <>
        <span class="mono">#{each.id}</span> <span class="breakable">{each.cursor}</span>
        <div class="cell-note">{placeOf(each)}</div>
      </>
    ),
  },
  { key: "state", title: "State", render: (each) => <State {...letterLook(each.state)} /> },
  {
    key: "error",
    title: "Last error",
    render: (each) => (
      <span class="clip" title={each.error_message}>{each.error_type}: {each.error_message}</span>
    ),
  },
  { key: "attempts", title: "Tries", align: "end", render: (each) => <Num value={each.attempts} /> },
  { key: "size", title: "Bytes", align: "end", hideNarrow: true, render: (each) => each.source === "chat" ? "–" : <Num value={each.raw_size} /> },
  { key: "died", title: "Died", render: (each) => <Ago at={each.dead_at} /> },
];

export function Letters() {
  const query = route.value.query;
  const asked = takeApart(query.get("q") ?? "", ["state", "cursor", "group", "source", "error"]);
  const state = asked.named.state ?? query.get("state") ?? "dead";
  const cursor = asked.named.cursor ?? query.get("cursor");
  const group = asked.named.group ?? query.get("group");
  const source = asked.named.source ?? query.get("source");
  const error = asked.named.error ?? query.get("error");
  const wanted = { state, cursor, group, source, error, q: asked.rest || null };
  const pages = usePages<Letter>(["dead"], "/api/dead", wanted, { rowKey });
  const counts = useLive<Schemas["CountsResponse"]>(["dead"], "/api/console/counts").data;
  const selected = useSignal(new Set<string>());
  const [what, setWhat] = useState<What | null>(null);
  useRemembered("dead", pages.items.map(letterHref));
  useEffect(() => {
    selected.value = new Set();
  }, [state, cursor, group, source, error, asked.rest]);
  const chosen = pages.items.filter((each) => selected.value.has(String(each.id)));
  const isAsked = state !== "dead" || [cursor, group, source, error].some((each) => each !== null) || asked.rest !== "";
  return (
    <>
      <div class="filters">
        <Rail
          label="State"
          param="state"
          choices={[
            { value: null, title: "dead", count: counts?.dead },
            { value: "redriven", title: "redriven" },
            { value: "dropped", title: "dropped" },
            { value: "all", title: "all" },
          ]}
        />
        <Rail
          label="Source"
          param="source"
          choices={[
            { value: null, title: "all" },
            { value: "worker", title: "workers" },
            { value: "chat", title: "conversations", count: counts?.conversations_dead },
          ]}
        />
        <Chip param="cursor" />
        <Chip param="group" />
        <SearchBox label="Search dead letters" suggestions={cursorsOf(pages.items)} />
      </div>
      <Bulk chosen={chosen} cursor={cursor} group={group} onRedrive={setWhat} onClear={() => (selected.value = new Set())} />
      <Listed pages={pages}>
        <Table
          label="Dead letters"
          columns={COLUMNS}
          rows={pages.items}
          rowKey={rowKey}
          rowName={(each) => `letter ${each.id}`}
          href={letterHref}
          selected={selected}
          more={pages.more}
          empty={isAsked ? <NoMatch onClear={() => setQuery({ q: null, state: null, cursor: null, group: null, source: null, error: null })} /> : <Nothing />}
        />
      </Listed>
      {what !== null && (
        <RedriveDialog what={what} letters={pages.items} onClose={() => setWhat(null)} onDone={() => (selected.value = new Set())} />
      )}
    </>
  );
}

function rowKey(letter: Letter): string {
  return String(letter.id);
}

interface BulkProps {
  chosen: Letter[];
  cursor: string | null;
  group: string | null;
  onRedrive: (what: What) => void;
  onClear: () => void;
}

function Bulk({ chosen, cursor, group, onRedrive, onClear }: BulkProps) {
  const alive = chosen.filter((each) => each.state === "dead");
  return (
    <div class="bulk" role="group" aria-label="What to do with dead letters">
      <span class="bulk-count" aria-live="polite">
        {chosen.length === 0 ? "None selected" : `${chosen.length} selected`}
      </span>
      <ActionButton
        label={alive.length === 0 ? "Redrive selected…" : `Redrive ${messages(alive.length)}…`}
        disabledReason={bulkReason(chosen, alive)}
        onClick={() => onRedrive({ ids: alive.map((each) => each.id) })}
      />
      {cursor !== null && (
        <ActionButton label={`Redrive all of ${cursor}…`} onClick={() => onRedrive({ cursor })} />
      )}
      {group !== null && cursor === null && (
        <ActionButton label={`Redrive all of ${group}…`} onClick={() => onRedrive({ group })} />
      )}
      {chosen.length > 0 && <button type="button" class="quiet" onClick={onClear}>Clear selection</button>}
      <span class="hint bulk-keys"><kbd>x</kbd> selects, <kbd>Shift</kbd>+<kbd>x</kbd> up to here</span>
    </div>
  );
}

function bulkReason(chosen: Letter[], alive: Letter[]): string | null {
  if (chosen.length === 0) return "select letters first";
  if (alive.length === 0) return "none of those selected is dead any more";
  if (alive.length > IDS_MAX) return `at most ${IDS_MAX} at once; filter by cursor to redrive more`;
  return null;
}

function Nothing() {
  return (
    <Empty
      title="No dead letters"
      text="A message that fails at all its retries, or cannot be decoded, is put here with its errors, so that its cursor or conversation can go on. Fix the cause, then redrive it."
      commands={["onceward dead list"]}
    />
  );
}

function cursorsOf(items: Letter[]): string[] {
  return [...new Set(items.map((each) => each.cursor))].map((each) => qualifier("cursor", each));
}
