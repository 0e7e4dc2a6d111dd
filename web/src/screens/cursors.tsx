// Cursors: how far behind each consumer is, and whether it moves.

import { count, duration } from "../core/format";
import { usePages } from "../core/live";
import { route, setQuery } from "../core/router";
import { Code, Empty, ErrorBox, Fresh, NoMatch, Num, SearchBox, Seconds, Skeleton, State, Tabs } from "../ui/bits";
import { Spark } from "../ui/charts";
import { Page } from "../ui/page";
import { Table, type Column } from "../ui/table";
import { PauseButton } from "./cursor/pausing";
import type { CursorItem } from "./cursor/types";
import { SHAPES, STATE_KINDS, cursorHref, draining, position, shortWorker, spoken } from "./cursor/words";

const LIMIT = 200;
const STATES = ["held", "free", "expired", "paused"] as const;
const TABS = [{ id: "", title: "all" }, ...STATES.map((id) => ({ id, title: id }))];

export default function Screen() {
  const query = route.value.query;
  const params = { q: query.get("q"), state: query.get("state"), sort: query.get("sort") ?? "lag" };
  const list = usePages<CursorItem>(["cursors", "workers", "dead"], "/api/cursors", params, { limit: LIMIT });
  const isFiltered = Boolean(params.q || params.state);
  return (
    <Page title="Cursors" question="How far behind is each consumer, and is it moving?">
      <div class="filters">
        <SearchBox label="Find cursors" suggestions={STATES.map((state) => `state:${state}`)} />
        <Tabs label="Cursors by state" param="state" tabs={TABS} />
      </div>
      {list.error && <ErrorBox error={list.error} />}
      <Fresh fresh={list.fresh} showFresh={list.showFresh} />
      {list.isLoading && list.items.length === 0 ? (
        <Skeleton />
      ) : list.items.length === 0 && !isFiltered && !list.error ? (
        <NoneYet />
      ) : (
        <Table<CursorItem>
          label="Cursors"
          rows={list.items}
          rowKey={(cursor) => cursor.name}
          href={(cursor) => cursorHref(cursor.name)}
          columns={COLUMNS}
          sort={{ by: params.sort, onSort: (by) => setQuery({ sort: by }) }}
          actions={(cursor) => <PauseButton cursor={cursor} />}
          more={list.more}
          empty={<NoMatch onClear={() => setQuery({ q: null, state: null })} />}
        />
      )}
    </Page>
  );
}

const COLUMNS: Column<CursorItem>[] = [
  { key: "name", title: "Cursor", sortKey: "name", render: (cursor) => cursor.name },
  { key: "state", title: "State", render: (cursor) => <Condition cursor={cursor} /> },
  { key: "position", title: "Position", hideNarrow: true, render: (cursor) => <Code>{position(cursor.position)}</Code> },
  { key: "lag", title: "Lag", align: "end", sortKey: "lag", render: (cursor) => <Lag cursor={cursor} /> },
  { key: "rate", title: "Out / min", align: "end", render: (cursor) => <Rate cursor={cursor} /> },
  { key: "shape", title: "Trend", render: (cursor) => <Trend cursor={cursor} /> },
  { key: "holder", title: "Holder", render: (cursor) => <Holder cursor={cursor} /> },
  { key: "trouble", title: "Trouble", render: (cursor) => <Trouble cursor={cursor} /> },
];

/** Its state, and why it does not go on. */
function Condition({ cursor }: { cursor: CursorItem }) {
  return (
    <>
      <State kind={STATE_KINDS[cursor.state]} word={cursor.state} />
      {cursor.blocked_because !== null && <span class="below wraps">{spoken(cursor.blocked_because)}</span>}
    </>
  );
}

/** By time, which decides; the number of messages below it. */
function Lag({ cursor: { measure } }: { cursor: CursorItem }) {
  if (measure === null) return <span class="hint">not measured</span>;
  if (measure.lag_messages === 0) return <>none</>;
  return (
    <>
      <Seconds value={measure.lag_seconds} />
      <span class="below">
        <Num value={measure.lag_messages} /> {measure.lag_messages === 1 ? "message" : "messages"}
      </span>
    </>
  );
}

/** How many go out, and how long it takes until none is left. */
function Rate({ cursor }: { cursor: CursorItem }) {
  const { measure } = cursor;
  if (measure === null || measure.rate_per_minute === null) return <Num value={null} />;
  const seconds = draining(cursor);
  return (
    <>
      <Num value={Math.round(measure.rate_per_minute * 10) / 10} />
      {measure.lag_messages !== 0 && (
        <span class="below wraps">{seconds === null ? "never drained" : `drained in ${duration(seconds)}`}</span>
      )}
    </>
  );
}

function Trend({ cursor }: { cursor: CursorItem }) {
  const shape = SHAPES[cursor.shape];
  return (
    <span class="trend">
      {cursor.spark.length > 1 && <Spark values={cursor.spark.map((each) => each ?? 0)} label={`Lag of ${cursor.name}`} />}
      {cursor.shape === "unknown" ? <span class="hint">too new</span> : <State kind={shape.kind} word={cursor.shape} title={shape.text} />}
    </span>
  );
}

function Holder({ cursor }: { cursor: CursorItem }) {
  if (cursor.lease_owner === null) return <span class="hint">none</span>;
  return (
    <span title={cursor.lease_owner}>
      {shortWorker(cursor.lease_owner)}
      <span class="below">epoch {cursor.epoch}</span>
    </span>
  );
}

function Trouble({ cursor }: { cursor: CursorItem }) {
  const { error_count: failures, parked, dead } = cursor;
  if (failures + parked + dead === 0) return <span class="hint">none</span>;
  return (
    <>
      {dead > 0 && <State kind="bad" word={`${count(dead)} dead`} title="Given up; a person decides." />}
      {parked > 0 && <span class="line">{count(parked)} parked</span>}
      {failures > 0 && <span class="line">{count(failures)} failed</span>}
    </>
  );
}

function NoneYet() {
  return (
    <Empty
      title="No cursors yet"
      text="A cursor remembers how far a consumer has read, and is held by one worker at a time. The first one is made when a worker starts to read."
      commands={["onceward worker my_app:app", "onceward up --demo"]}
    />
  );
}
