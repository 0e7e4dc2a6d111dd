// Commands: what the run asked of its agents, one row each, in order.

import { duration } from "../../core/format";
import { Empty, Num, State } from "../../ui/bits";
import { Table, type Column } from "../../ui/table";
import { commandLook, stageText, tookSeconds, type Command, type RunDetail } from "./models";
import { times } from "./step";
import { tabHref } from "./tabs";

const COLUMNS: Column<Command>[] = [
  {
    key: "step",
    title: "Step",
    render: (each) => (
      <>
        {each.step}. {stageText(each)}
        <div class="cell-note">{each.task_id}, by {each.agent}</div>
      </>
    ),
  },
  { key: "state", title: "State", render: (each) => <State {...commandLook(each.state)} /> },
  { key: "answer", title: "Answer", render: (each) => each.problem ?? each.status ?? each.event ?? "–" },
  { key: "sent", title: "Sent", render: (each) => times(each.sent) },
  { key: "artifacts", title: "Artifacts", align: "end", hideNarrow: true, render: (each) => <Num value={each.artifacts.length} /> },
  { key: "took", title: "Took", align: "end", render: (each) => duration(tookSeconds(each.asked_at, each.answered_at)) },
];

export function Commands({ run }: { run: RunDetail }) {
  return (
    <Table
      label="Commands of this run"
      columns={COLUMNS}
      rows={run.commands}
      rowKey={(each) => String(each.step)}
      href={(each) => tabHref(run, "timeline", { step: String(each.step) })}
      empty={<Empty title="No commands yet" text="The run has not asked an agent for anything so far." />}
    />
  );
}
