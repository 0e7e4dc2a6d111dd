// Groups: every conversation and where it stands.

import { useLive } from "../../core/live";
import { route, setQuery } from "../../core/router";
import { Ago, Empty, ErrorBox, NoMatch, Notice, Num, SearchBox, Skeleton, State } from "../../ui/bits";
import { type Column, Table } from "../../ui/table";
import { Rail } from "../lists/rail";
import { type Board, callOf, groupHref, type GroupRow, standingOf } from "./models";
import { PauseButton } from "./pausing";

const ADD = 'onceward dispatch groups add demo --agent "python3 agent.py"';

export function Groups() {
  const { query } = route.value;
  const [q, state] = [(query.get("q") ?? "").toLowerCase(), query.get("state")];
  const { data, error, reload } = useLive<Board>(["dispatch"], "/api/dispatch/status");
  if (error && !data) return <ErrorBox error={error} onRetry={reload} />;
  if (!data) return <Skeleton />;
  if (data.items.length === 0) {
    return (
      <Empty
        title="There is no conversation yet"
        text="A conversation is a group with an agent. What people write is durable when it is answered, and the agent answers it once. Add a group in a terminal; it appears here by itself."
        commands={[ADD]}
      />
    );
  }
  const chosen = data.items.filter((each) => each.name.toLowerCase().includes(q) && fits(each, data, state));
  const counted = (which: string) => data.items.filter((each) => fits(each, data, which)).length;
  return (
    <>
      {error && <ErrorBox error={error} onRetry={reload} />}
      {!data.isHeld && (
        <Notice kind="warn">
          This server does not run the agents. If no other server runs them, messages wait; start one: <code>onceward dispatch serve</code>
        </Notice>
      )}
      <div class="filters">
        <SearchBox label="Find by name" />
        <Rail
          label="State"
          param="state"
          choices={[
            { value: null, title: "All" },
            { value: "work", title: "At work", count: counted("work") },
            { value: "waiting", title: "Waiting", count: counted("waiting") },
            { value: "trouble", title: "Failing", count: counted("trouble") },
            { value: "paused", title: "Paused", count: counted("paused") },
          ]}
        />
      </div>
      <p class="hint">Messages are numbered as they arrive, over all groups, so the numbers of one group have gaps: {summary(data)}</p>
      <Table
        label="Conversations"
        columns={columns(data)}
        rows={chosen}
        rowKey={(each) => each.name}
        href={(each) => groupHref(each.name)}
        empty={<NoMatch onClear={() => setQuery({ q: null, state: null })} />}
        actions={(each) => <PauseButton group={each.name} isPaused={each.isPaused} />}
      />
    </>
  );
}

function columns({ isHeld }: Board): Column<GroupRow>[] {
  return [
    { key: "name", title: "Group", render: (each) => each.name },
    { key: "state", title: "State", render: (each) => <State {...standingOf({ ...each, isHeld, isRunning: each.inFlight !== null })} /> },
    { key: "arrived", title: "Arrived", align: "end", hideNarrow: true, render: (each) => <Num value={each.arrived} /> },
    { key: "processed", title: "Processed", align: "end", render: (each) => <Num value={each.processed} /> },
    { key: "pending", title: "Pending", align: "end", render: (each) => <Num value={each.pending} /> },
    { key: "flight", title: "In flight", render: (each) => <InFlight group={each} /> },
    { key: "retry", title: "Next attempt", render: (each) => (each.retryAt ? <Ago at={each.retryAt} /> : <span class="nothing">–</span>) },
    { key: "unsent", title: "Unsent", align: "end", render: (each) => <Num value={each.unsent} /> },
    { key: "dead", title: "Dead", align: "end", render: (each) => <Num value={each.dead} /> },
    { key: "call", title: "Trigger", hideNarrow: true, render: (each) => <span class="hint">{callOf(each)}</span> },
  ];
}

function InFlight({ group: { inFlight } }: { group: GroupRow }) {
  if (!inFlight) return <span class="nothing">–</span>;
  const range = inFlight.firstSeq === inFlight.lastSeq ? String(inFlight.firstSeq) : `${inFlight.firstSeq}–${inFlight.lastSeq}`;
  return <span>{range}, attempt {inFlight.attempt}, <Ago at={inFlight.startedAt} /></span>;
}

function fits(each: GroupRow, { isHeld }: Board, state: string | null): boolean {
  if (state === null) return true;
  if (state === "work") return each.inFlight !== null;
  if (state === "paused") return each.isPaused;
  if (state === "waiting") return each.pending > 0 && each.inFlight === null;
  return each.dead > 0 || each.retryAt !== null || (each.isCalled && !isHeld);
}

function summary({ arrived, read }: Board): string {
  if (arrived === 0) return "nothing has arrived yet.";
  return read === arrived ? `the last is ${arrived}, and all are read.` : `the last is ${arrived}, read up to ${read}.`;
}
