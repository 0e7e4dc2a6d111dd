// Effects: the finer steps inside one piece of work, each known before it happened.

import { Ago, Code, State } from "../../ui/bits";
import { Table, type Column } from "../../ui/table";
import { effectLook, type Effect, type OutcomeDetail } from "./models";

const COLUMNS: Column<Effect>[] = [
  { key: "name", title: "Step", render: (each) => <span class="mono breakable">{each.name}</span> },
  { key: "state", title: "State", render: (each) => <State {...effectLook(each.state)} /> },
  { key: "came", title: "Result", render: (each) => <Came effect={each} /> },
  { key: "updated", title: "Changed", render: (each) => <Ago at={each.updated_at} /> },
];

export function Effects({ found }: { found: OutcomeDetail }) {
  if (found.effects.length === 0) return null;
  return (
    <section class="part" aria-label="Steps of the call">
      <h2>Steps of the call</h2>
      <Table
        label="Steps of the call"
        columns={COLUMNS}
        rows={found.effects}
        rowKey={(each) => each.name}
        empty={null}
      />
    </section>
  );
}

function Came({ effect }: { effect: Effect }) {
  if (effect.failure !== null) return <>{`${effect.failure.type}: ${effect.failure.message}`}</>;
  if (effect.state === "done") return <Code>{cut(JSON.stringify(effect.result))}</Code>;
  if (effect.state === "intended") return <>started but never reported a result</>;
  return <>–</>;
}

function cut(text: string): string {
  return text.length > 120 ? `${text.slice(0, 119)}…` : text;
}
