// Comparisons: what is to be judged, and what was decided.

import { route, setQuery, withQuery, Link } from "../../core/router";
import { comparePage, type Experiment, isOpen, nameOfExperiment } from "../../lab/models";
import { Ago, Empty, ErrorBox, Fresh, NoMatch, SearchBox, Skeleton, State } from "../../ui/bits";
import { type Column, Table } from "../../ui/table";
import { Rail } from "../lists/rail";
import { hrefOf } from "./addresses";
import { useLabPages } from "./pages";

const COLUMNS: Column<Experiment>[] = [
  { key: "name", title: "Comparison", render: (each) => nameOfExperiment(each) },
  { key: "state", title: "State", render: (each) => stateOf(each) },
  { key: "outcome", title: "Chosen", render: (each) => (each.status === "done" ? outcomeOf(each) : <span class="hint">hidden until decided</span>) },
  { key: "sides", title: "Sides", align: "end", render: (each) => each.variants.length + 1 },
  { key: "questions", title: "Questions", align: "end", hideNarrow: true, render: (each) => each.questions.length },
  { key: "created", title: "Set up", render: (each) => <Ago at={each.createdAt} /> },
  { key: "updated", title: "Decided", hideNarrow: true, render: (each) => <Ago at={each.status === "done" ? each.updatedAt : null} /> },
];

export function Comparisons() {
  const { query } = route.value;
  const [q, state] = [(query.get("q") ?? "").toLowerCase(), query.get("state")];
  const list = useLabPages<Experiment>("/api/experiments", (each) => each.experimentId);
  const rows = list.items.filter(
    (each) => nameOfExperiment(each).toLowerCase().includes(q) && (state === null || (state === "open") === isOpen(each)),
  );
  if (list.error && !list.isLoaded) return <ErrorBox error={list.error} />;
  if (!list.isLoaded) return <Skeleton />;
  if (list.items.length === 0) return <NothingYet />;
  return (
    <>
      <div class="filters">
        <SearchBox label="Find by name" />
        <Rail
          label="State"
          param="state"
          choices={[
            { value: null, title: "All" },
            { value: "open", title: "To judge", count: list.items.filter(isOpen).length },
            { value: "done", title: "Decided" },
          ]}
        />
        <Fresh fresh={list.fresh} showFresh={list.showFresh} />
      </div>
      {list.error && <ErrorBox error={list.error} />}
      <Table
        label="Comparisons"
        columns={COLUMNS}
        rows={rows}
        rowKey={(each) => each.experimentId}
        href={(each) => hrefOf(comparePage(each.experimentId))}
        empty={<NoMatch onClear={() => setQuery({ q: null, state: null })} />}
        more={list.more}
      />
    </>
  );
}

function stateOf(each: Experiment) {
  if (each.status === "done") return <State kind="ok" word="decided" />;
  if (each.status === "failed") return <State kind="off" word="failed" />;
  return <State kind="wait" word="to judge" />;
}

/** What a decided comparison came to, in words. */
function outcomeOf({ outcome, winner, variants }: Experiment): string {
  if (outcome === "tie") return "a tie";
  if (outcome === "both_bad") return variants.length > 1 ? "all bad" : "both bad";
  if (!winner) return "no outcome";
  return winner.variantId === "baseline" ? "baseline" : (variants.find((each) => each.variantId === winner.variantId)?.label ?? winner.variantId);
}

function NothingYet() {
  return (
    <Empty
      title="Nothing has been compared yet"
      text="A comparison shows two or more runs side by side, without their names, until a decision is made. Import runs and tick two of them, or ask for a judgement from a program."
      commands={["onceward lab compare BASELINE_DIR VARIANT_DIR"]}
      action={<Link href={withQuery({ tab: "new", page: null })}>Import runs and set a comparison up</Link>}
    />
  );
}
