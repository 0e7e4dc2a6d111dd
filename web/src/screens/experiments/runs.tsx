// Runs: what was imported to be judged. Metrics stay out of the list: they would bias the judge.

import { Link, route, setQuery, withQuery } from "../../core/router";
import { nameOfRun, reviewPage, type Run } from "../../lab/models";
import { Ago, Empty, ErrorBox, Fresh, NoMatch, SearchBox, Skeleton, State } from "../../ui/bits";
import { type Column, Table } from "../../ui/table";
import { Rail } from "../lists/rail";
import { hrefOf } from "./addresses";
import { useLabPages } from "./pages";

const COLUMNS: Column<Run>[] = [
  { key: "name", title: "Run", render: (run) => nameOfRun(run) },
  { key: "rated", title: "State", render: (run) => (run.lastOverall === null ? <State kind="wait" word="not rated yet" /> : <State kind="ok" word="rated" />) },
  { key: "overall", title: "Last overall", align: "end", render: (run) => run.lastOverall ?? "–" },
  { key: "video", title: "Video", hideNarrow: true, render: (run) => (run.videoPath ? "yes" : "no") },
  { key: "path", title: "Directory", hideNarrow: true, render: (run) => <span class="path">{run.artifactsDir}</span> },
  { key: "created", title: "Imported", render: (run) => <Ago at={run.createdAt} /> },
];

export function Runs() {
  const { query } = route.value;
  const [q, state] = [(query.get("q") ?? "").toLowerCase(), query.get("state")];
  const list = useLabPages<Run>("/api/runs", (run) => run.runId);
  const isOpen = (run: Run) => run.lastOverall === null;
  const rows = list.items.filter(
    (run) => `${nameOfRun(run)} ${run.artifactsDir}`.toLowerCase().includes(q) && (state === null || (state === "open") === isOpen(run)),
  );
  if (list.error && !list.isLoaded) return <ErrorBox error={list.error} />;
  if (!list.isLoaded) return <Skeleton />;
  if (list.items.length === 0) return <NothingYet />;
  return (
    <>
      <div class="filters">
        <SearchBox label="Find by name or directory" />
        <Rail
          label="State"
          param="state"
          choices={[
            { value: null, title: "All" },
            { value: "open", title: "Not rated", count: list.items.filter(isOpen).length },
            { value: "done", title: "Rated" },
          ]}
        />
        <Fresh fresh={list.fresh} showFresh={list.showFresh} />
      </div>
      {list.error && <ErrorBox error={list.error} />}
      <Table
        label="Runs of the Lab"
        columns={COLUMNS}
        rows={rows}
        rowKey={(run) => run.runId}
        href={(run) => hrefOf(reviewPage(run.runId))}
        empty={<NoMatch onClear={() => setQuery({ q: null, state: null })} />}
        more={list.more}
      />
    </>
  );
}

function NothingYet() {
  return (
    <Empty
      title="No run has been imported yet"
      text="A run is a directory with what an agent made: a video, a script, or any text, Markdown or image file that its lab.json names."
      commands={["onceward lab review PATH"]}
      action={<Link href={withQuery({ tab: "new", page: null })}>Import a run</Link>}
    />
  );
}
