// Finder: the search, and the entities that it finds; the newest when nothing is asked for.

import { useRef } from "preact/hooks";
import { useKeys } from "../../core/keys";
import { usePages } from "../../core/live";
import { go, Link, route, setQuery, withQuery } from "../../core/router";
import { Empty, ErrorBox, Field, Fresh, NoMatch, SearchBox, Skeleton } from "../../ui/bits";
import { type Found, KNOWN_TYPES } from "./models";

const COMMANDS = ["onceward memory serve", "onceward memory capture -- make test"];
const seenTypes = new Set(KNOWN_TYPES);

export function Finder() {
  const { query } = route.value;
  const [q, type, name] = [query.get("q") ?? "", query.get("type") ?? "", query.get("name")];
  const found = usePages<Found>(["memory"], "/api/memory/search", { q, type }, { rowKey: (row) => row.name });
  const list = useRef<HTMLUListElement>(null);
  for (const each of found.items) seenTypes.add(each.entity_type);
  useKeys(
    {
      j: { text: "Next entity of the list", run: () => step(list.current, 1) },
      k: { text: "Previous entity of the list", run: () => step(list.current, -1) },
    },
    "Memory",
  );
  const isFiltered = q !== "" || type !== "";
  return (
    <section class="memory-finder" aria-label="Find entities">
      <SearchBox label="Search the memory" />
      <Field label="Type">
        <select value={type} onChange={(event) => setQuery({ type: event.currentTarget.value || null }, { replace: true })}>
          <option value="">Any type</option>
          {[...new Set([...seenTypes, type])].filter(Boolean).sort().map((each) => <option key={each} value={each}>{each}</option>)}
        </select>
      </Field>
      {found.error && <ErrorBox error={found.error} />}
      {!found.isLoaded && !found.error && <Skeleton />}
      <Fresh fresh={found.fresh} showFresh={found.showFresh} />
      <ul class="memory-list" ref={list} aria-label="Entities">
        {found.items.map((each) => (
          <li key={each.name}>
            <Link href={withQuery({ name: each.name, also: null })} aria-current={each.name === name ? "true" : undefined}>
              <span class="memory-name">{each.name}</span>
              <span class="memory-about">
                <span class="memory-type">{each.entity_type}</span>
                {each.headline && <span class="memory-headline">{each.headline}</span>}
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {found.more && <button type="button" onClick={found.more}>More</button>}
      {found.isLoaded && !found.isLoading && !found.error && found.items.length === 0 && <Nothing q={q} isFiltered={isFiltered} />}
    </section>
  );
}

function Nothing({ q, isFiltered }: { q: string; isFiltered: boolean }) {
  if (!isFiltered) {
    return (
      <Empty
        title="Nothing is remembered yet"
        text="Agents write entities, facts about them and relations between them. Give them the memory over MCP, or capture a command."
        commands={COMMANDS}
      />
    );
  }
  return (
    <>
      <NoMatch onClear={() => setQuery({ q: null, type: null })} />
      {q !== "" && (
        <p class="hint">
          What was deleted is not found by a search.{" "}
          <Link href={withQuery({ name: q, also: null })}>Look at “{q}” by its exact name</Link>
        </p>
      )}
    </>
  );
}

/** Move along the list; what is reached has the focus, and Enter opens it. */
function step(list: HTMLUListElement | null, by: number): void {
  const links = [...(list?.querySelectorAll<HTMLAnchorElement>("a") ?? [])];
  const focused = links.findIndex((each) => each === document.activeElement);
  const from = focused >= 0 ? focused : links.findIndex((each) => each.getAttribute("aria-current"));
  const next = from < 0 ? 0 : Math.min(Math.max(from + by, 0), links.length - 1);
  links[next]?.focus();
}

/** Show another entity; what was expanded belongs to the one before. */
export function openEntity(name: string): void {
  go(withQuery({ name, also: null }));
}
