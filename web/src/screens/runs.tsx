// Runs: what the agents are doing, newest first, over all workspaces.

import { usePages } from "../core/live";
import { route, setQuery } from "../core/router";
import { Ago, Empty, NoMatch, Num, SearchBox, State } from "../ui/bits";
import { Page } from "../ui/page";
import { Table, type Column } from "../ui/table";
import { Listed } from "./lists/listed";
import { useRemembered } from "./lists/neighbours";
import { takeApart } from "./lists/qualifiers";
import { Rail, type Choice } from "./lists/rail";
import { runHref, runLook, type RunItem } from "./run/models";

const STATES = ["running", "crashed", "failed", "stopped", "done"];
const CHOICES: Choice[] = [
  { value: null, title: "all" },
  ...STATES.map((each) => ({ value: each, title: each })),
];
const COLUMNS: Column<RunItem>[] = [
  {
    key: "run",
    title: "Run",
    render: (each) => (
      <>
        <span class="mono run-id">{each.run_id}</span>
        <div class="cell-note">{each.goal ?? each.tasks.join(", ")}</div>
      </>
    ),
  },
  { key: "status", title: "State", render: (each) => <Standing run={each} /> },
  { key: "at", title: "At", hideNarrow: true, render: (each) => <Place run={each} /> },
  {
    key: "workspace",
    title: "Workspace",
    hideNarrow: true,
    render: (each) => <span title={each.workspace.path}>{each.workspace.path.split("/").filter(Boolean).slice(-2).join("/")}</span>,
  },
  { key: "steps", title: "Steps", align: "end", render: (each) => <Num value={each.steps} /> },
  { key: "resumed", title: "Resumed", align: "end", render: (each) => (each.resumed === 0 ? "–" : `${each.resumed} ×`) },
  { key: "updated", title: "Last record", render: (each) => <Ago at={each.updated_at} /> },
];

export default function Screen() {
  const query = route.value.query;
  const asked = takeApart(query.get("q") ?? "", ["status"]);
  const status = asked.named.status ?? query.get("status");
  const pages = usePages<RunItem>(["runs"], "/api/orchestrator/runs", { status, q: asked.rest || null }, { rowKey });
  useRemembered("runs", pages.items.map(runHref));
  const isAsked = status !== null || asked.rest !== "";
  return (
    <Page title="Runs" question="What are the agents doing?">
      <div class="filters">
        <Rail label="State" param="status" choices={CHOICES} />
        <SearchBox label="Search runs" suggestions={STATES.map((each) => `status:${each}`)} />
      </div>
      <Listed pages={pages}>
        <Table
          label="Runs"
          columns={COLUMNS}
          rows={pages.items}
          rowKey={rowKey}
          href={runHref}
          more={pages.more}
          empty={isAsked ? <NoMatch onClear={() => setQuery({ q: null, status: null })} /> : <Nothing />}
        />
      </Listed>
    </Page>
  );
}

function rowKey(run: RunItem): string {
  return `${run.workspace.id} ${run.run_id}`;
}

function Nothing() {
  return (
    <Empty
      title="No runs yet"
      text="A run gives tasks to agents, one command after the other, and records every answer, so that it goes on where it was after any crash. Start one in a directory of your own, and it shows up here:"
      commands={["onceward init", "onceward run --task T-0001"]}
    />
  );
}

function Standing({ run }: { run: RunItem }) {
  const unchecked = run.unchecked.length > 0 ? `unchecked: ${run.unchecked.join(", ")}` : null;
  const note = run.reason ?? (run.damaged > 0 ? "its ledger is damaged" : unchecked);
  return (
    <>
      <State {...runLook(run)} />
      {note !== null && <div class="cell-note clip" title={note}>{note}</div>}
    </>
  );
}

function Place({ run }: { run: RunItem }) {
  if (run.stage === null) return <>–</>;
  const round = run.round !== null && run.round > 1 ? `, round ${run.round}` : "";
  return <>{`${run.task_id ?? ""} ${run.stage}${round}`}</>;
}
