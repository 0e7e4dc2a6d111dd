// Effects: the finer steps inside one piece of work, each known before it happened.

import { Ago, Code, Json, State } from "../../ui/bits";
import { Table, type Column } from "../../ui/table";
import { effectLook, type Effect, type OutcomeDetail } from "./models";

const LINE_CHARACTERS_MAX = 120;
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
  if (effect.state === "done") return <Result value={effect.result} label={`result of ${effect.name}`} />;
  if (effect.state === "intended") return <>started but never reported a result</>;
  return <>–</>;
}

/** What is short is on the line; the rest opens in lines of its own. */
function Result({ value, label }: { value: unknown; label: string }) {
  const text = JSON.stringify(value);
  if (text.length <= LINE_CHARACTERS_MAX) return <Code>{text}</Code>;
  return (
    <details>
      <summary><Code>{`${text.slice(0, LINE_CHARACTERS_MAX - 1)}…`}</Code></summary>
      <Json value={value} label={label} />
    </details>
  );
}
