// Outcomes: every key that work was claimed under, and the state of its outcome.

import type { Schemas } from "../api/types";
import { useLive, usePages } from "../core/live";
import { route, setQuery } from "../core/router";
import { Ago, Code, Copy, Empty, NoMatch, SearchBox, State } from "../ui/bits";
import { Page } from "../ui/page";
import { Table, type Column } from "../ui/table";
import { Listed } from "./lists/listed";
import { useRemembered } from "./lists/neighbours";
import { takeApart } from "./lists/qualifiers";
import { Chip, Rail } from "./lists/rail";
import { MEANINGS, outcomeLook, outcomeHref, STATES, type Outcome, type OutcomeState } from "./outcomes/models";

const EXAMPLE = '@ow.once(key=lambda order: f"charge#{order}")';
const COLUMNS: Column<Outcome>[] = [
  {
    key: "key",
    title: "Key",
    render: (each) => (
      <>
        <span class="mono breakable">{each.key}</span>
        <div class="cell-note">{each.scope}</div>
      </>
    ),
  },
  { key: "state", title: "Outcome", render: (each) => <State {...outcomeLook(each.state)} /> },
  { key: "what", title: "Result", hideNarrow: true, render: (each) => <Came outcome={each} /> },
  { key: "claimed", title: "First seen", hideNarrow: true, render: (each) => <Ago at={each.claimed_at} /> },
  { key: "updated", title: "Changed", render: (each) => <Ago at={each.updated_at} /> },
];

export default function Screen() {
  const query = route.value.query;
  const asked = takeApart(query.get("q") ?? "", ["state", "scope"]);
  const state = asked.named.state ?? query.get("state");
  const scope = asked.named.scope ?? query.get("scope");
  const pages = usePages<Outcome>(["outcomes"], "/api/outcomes", { state, scope, q: asked.rest || null }, { rowKey });
  const counts: Partial<Record<OutcomeState, number | null>> | undefined = useLive<Schemas["CountsResponse"]>(["outcomes"], "/api/console/counts").data;
  useRemembered("outcomes", pages.items.map(outcomeHref));
  const choices = [
    { value: null, title: "all" },
    ...STATES.map((each) => ({ value: each, title: each, count: counts?.[each], hint: MEANINGS[each] })),
  ];
  const isAsked = state !== null || scope !== null || asked.rest !== "";
  const clear = () => setQuery({ q: null, state: null, scope: null });
  return (
    <Page title="Outcomes" question="Which calls ran, and with what result?">
      <div class="filters">
        <Rail label="Outcome" param="state" choices={choices} />
        <Chip param="scope" />
        <SearchBox
          label="Search keys"
          suggestions={[...STATES.map((each) => `state:${each}`), ...scopesOf(pages.items)]}
        />
      </div>
      <Listed pages={pages}>
        <Table
          label="Outcomes"
          columns={COLUMNS}
          rows={pages.items}
          rowKey={rowKey}
          href={outcomeHref}
          more={pages.more}
          empty={isAsked ? <None more={pages.more} onClear={clear} /> : <Nothing />}
        />
      </Listed>
    </Page>
  );
}

function rowKey(outcome: Outcome): string {
  return JSON.stringify([outcome.scope, outcome.key]);
}

/** The server looks at some thousands of rows at a time, so nothing yet is not nothing at all. */
function None({ more, onClear }: { more: (() => void) | null; onClear: () => void }) {
  if (more === null) return <NoMatch onClear={onClear} />;
  return (
    <Empty
      title="Nothing that fits so far"
      text="The newest keys were searched, and there are older ones."
      action={<button type="button" onClick={more}>Search further back</button>}
    />
  );
}

function Nothing() {
  return (
    <Empty
      title="No outcomes yet"
      text="Work under a key has one outcome for all callers and retries. Give a function a key and call it twice: the second call gets the first result, and both are one row here:"
      action={
        <span class="key-text">
          <Code>{EXAMPLE}</Code>
          <Copy text={EXAMPLE} label="line" />
        </span>
      }
    />
  );
}

function Came({ outcome }: { outcome: Outcome }) {
  if (outcome.failure !== null) {
    return <span class="clip" title={outcome.failure.message}>{`${outcome.failure.type}: ${outcome.failure.message}`}</span>;
  }
  if (outcome.state === "running") return <>by <span class="mono">{outcome.owner}</span></>;
  if (outcome.state === "ambiguous") return <>needs a decision</>;
  return <>{outcome.has_result ? "a result" : "–"}</>;
}

function scopesOf(items: Outcome[]): string[] {
  return [...new Set(items.map((each) => each.scope))].slice(0, 8).map((each) => `scope:${each}`);
}
