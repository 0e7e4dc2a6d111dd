// Overview: is anything wrong, and what needs a person? Then how everything is, and what happened last.

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { Schemas } from "../api/types";
import { count, eventWord } from "../core/format";
import { useLive } from "../core/live";
import { Link } from "../core/router";
import { Ago, Command, ErrorBox, Num, Seconds, Skeleton, State } from "../ui/bits";
import { Spark } from "../ui/charts";
import { Page } from "../ui/page";
import { useEvery } from "./cursor/ticking";

type Attention = Schemas["AttentionItem"];
type Activity = Schemas["ActivityItem"];
type Measured = Schemas["Measured"];
type Tiles = Schemas["Tiles"];
type OverviewData = Schemas["Overview"];

const RELOAD_SECONDS = 5;
/** How many of the last measures make the rate. */
const RATE_MEASURES = 6;

export default function Screen() {
  const found = useLive<OverviewData>(
    ["cursors", "workers", "outcomes", "dead", "alerts", "runs", "dispatch", "audit"],
    "/api/console/overview",
  );
  useEvery(RELOAD_SECONDS, found);
  const data = found.data;
  return (
    <Page title="Overview" question="Is anything wrong, and what needs a decision?">
      {found.error && <ErrorBox error={found.error} onRetry={found.reload} />}
      {data === undefined ? (
        !found.error && <Skeleton />
      ) : data.is_empty ? (
        <FirstSteps />
      ) : (
        <>
          <NeedsAttention items={data.attention} asOf={data.as_of} />
          <Health tiles={data.tiles} />
          <Lately activity={data.activity} />
        </>
      )}
    </Page>
  );
}

function NeedsAttention({ items, asOf }: { items: Attention[]; asOf: string }) {
  return (
    <section class="part" aria-labelledby="attention">
      <h2 id="attention">Needs attention</h2>
      {items.length === 0 ? (
        <p class="all-quiet">
          <State kind="ok" word="No action needed" /> <span class="hint">checked <Ago at={asOf} /></span>
        </p>
      ) : (
        <ul class="attention">
          {items.map((each) => (
            <Needed key={each.id} item={each} />
          ))}
        </ul>
      )}
    </section>
  );
}

function Needed({ item }: { item: Attention }) {
  const id = useId();
  const isUrgent = item.severity === "person";
  return (
    <li class={item.severity}>
      <State kind={isUrgent ? "bad" : "warn"} word={isUrgent ? "action needed" : "watch"} />
      <span id={id} class="attention-text">{item.text}</span>
      <Link href={item.href} aria-describedby={id}>{item.action}</Link>
    </li>
  );
}

function Health({ tiles }: { tiles: Tiles }) {
  const { leases, outcomes } = tiles;
  return (
    <section class="part" aria-labelledby="health">
      <h2 id="health">Key figures</h2>
      <div class="tiles">
        <Tile href="/cursors" title="Longest lag" history={tiles.lag_history}>
          {tiles.max_lag_seconds === 0 ? "none" : <Seconds value={tiles.max_lag_seconds} />}
        </Tile>
        <Tile href="/cursors?sort=name" title="Processed per minute" history={tiles.rate_history}>
          <Num value={rate(tiles.rate_history)} />
        </Tile>
        <Tile href="/workers" title="Leases held">
          <Num value={leases?.held ?? null} />
          <Also number={leases?.expired} word="expired" isBad />
          <Also number={leases?.paused} word="paused" />
        </Tile>
        <Tile href="/outcomes?state=ambiguous" title="Ambiguous outcomes">
          <Num value={outcomes.ambiguous} />
          <Also number={outcomes.running} word="running" />
        </Tile>
        <Tile href="/dead" title="Dead letters">
          <Num value={tiles.dead} />
          <Also number={tiles.parked} word="parked" />
        </Tile>
      </div>
    </section>
  );
}

interface TileProps {
  href: string;
  title: string;
  history?: Measured[];
  children: ComponentChildren;
}

function Tile({ href, title, history = [], children }: TileProps) {
  return (
    <div class="tile">
      <h3>
        <Link href={href}>{title}</Link>
      </h3>
      <p class="tile-value">{children}</p>
      {history.length > 1 && <Spark values={history.map((each) => each.value)} label={`${title} in the last hour`} />}
    </div>
  );
}

function Also({ number, word, isBad }: { number: number | null | undefined; word: string; isBad?: boolean }) {
  if (number == null) return null;
  return <span class={isBad && number > 0 ? "also bad" : "also"}>{count(number)} {word}</span>;
}

/** Messages in the last minute, by what was measured of it. */
function rate(history: Measured[]): number | null {
  const last = history.slice(-RATE_MEASURES);
  const [first, end] = [last[0], last.at(-1)];
  if (first === undefined || end === undefined || first === end) return null;
  const seconds = (Date.parse(end.at) - Date.parse(first.at)) / 1000;
  const messages = last.slice(1).reduce((sum, each) => sum + each.value, 0);
  return seconds > 0 ? Math.round((60 * messages) / seconds) : null;
}

function Lately({ activity }: { activity: Activity[] }) {
  return (
    <section class="part" aria-labelledby="lately">
      <h2 id="lately">Recent events</h2>
      {activity.length === 0 ? (
        <p class="hint">No events yet.</p>
      ) : (
        <ol class="activity">
          {activity.map((each, index) => (
            <li key={`${each.at} ${each.text} ${index}`}>
              <Ago at={each.at} />
              <span class="activity-kind">{eventWord(each.kind)}</span>
              <Link href={each.href}>{each.text}</Link>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

/** Commands that work with what a newcomer has, and the page that goes on from there. */
const BEGINNINGS = [
  { have: "A test suite", command: "onceward memory capture -- pytest -q", tutorial: "memory" },
  { have: "Two outputs to compare", command: "onceward lab compare out/a out/b", tutorial: "lab" },
  { have: "A coding agent", command: "onceward init demo --example", tutorial: "orchestrator" },
  { have: "A table of orders, leads or webhooks", command: "onceward worker my_app:app", tutorial: "workers" },
  { have: "A minute", command: "onceward up --demo", tutorial: "first-ten-minutes" },
];

function FirstSteps() {
  return (
    <div class="empty first-steps">
      <h2>Nothing here yet</h2>
      <p>This page shows what your workers, agents, outcomes, experiments and conversations do, and which of them need a decision. Begin with something you have:</p>
      <dl>
        {BEGINNINGS.map(({ have, command, tutorial }) => (
          <div key={command}>
            <dt>
              {have} · <a href={`/manual/docs/tutorial/${tutorial}.md`} aria-label={`Tutorial: ${have}`}>tutorial</a>
            </dt>
            <dd><Command text={command} /></dd>
          </div>
        ))}
      </dl>
      <p><a href="/manual/docs/index.md">Documentation</a></p>
    </div>
  );
}
