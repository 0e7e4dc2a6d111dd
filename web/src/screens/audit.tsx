// Audit: who did what through the console, and what came of it, newest first.

import { useState } from "preact/hooks";
import type { Schemas } from "../api/types";
import { usePages } from "../core/live";
import { Ago, Copy, Empty, Facts, Json, State } from "../ui/bits";
import { Dialog } from "../ui/dialog";
import { Page } from "../ui/page";
import { Table, type Column } from "../ui/table";
import { Listed } from "./lists/listed";

type Entry = Schemas["AuditEntry"];

const COLUMNS: Column<Entry>[] = [
  {
    key: "action",
    title: "What",
    render: (each) => (
      <>
        <span class="mono">{each.action}</span>
        <div class="cell-note breakable">{each.target}</div>
      </>
    ),
  },
  { key: "outcome", title: "Outcome", render: (each) => <Ending entry={each} /> },
  { key: "actor", title: "Who", render: (each) => each.actor },
  { key: "via", title: "Through", hideNarrow: true, render: (each) => each.via },
  { key: "when", title: "When", render: (each) => <Ago at={each.happened_at} /> },
];

export default function Screen() {
  const pages = usePages<Entry>(["audit"], "/api/console/audit", {}, { rowKey });
  const [shown, setShown] = useState<Entry | null>(null);
  return (
    <Page title="Audit" question="Who did what, and with what result?">
      <Listed pages={pages}>
        <Table
          label="Actions"
          columns={COLUMNS}
          rows={pages.items}
          rowKey={rowKey}
          more={pages.more}
          actions={(each) => (
            <button type="button" aria-label={`Details of ${each.action} ${each.target}`} onClick={() => setShown(each)}>
              Details
            </button>
          )}
          empty={
            <Empty
              title="Nothing was done here yet"
              text="Every pause, seek, redrive, decision and restore made through this console is recorded here, including rejected ones: who, when, what they saw, and the result."
            />
          }
        />
      </Listed>
      {shown !== null && <Details entry={shown} onClose={() => setShown(null)} />}
    </Page>
  );
}

function rowKey(entry: Entry): string {
  return String(entry.id);
}

function Ending({ entry }: { entry: Entry }) {
  return entry.outcome === "done" ? <State kind="ok" word="done" /> : <State kind="warn" word="refused" />;
}

function Details({ entry, onClose }: { entry: Entry; onClose: () => void }) {
  return (
    <Dialog title={`${entry.action} ${entry.target}`} onClose={onClose} kind="wide">
      <Facts
        items={[
          ["Outcome", <Ending entry={entry} />],
          ["Who", entry.actor],
          ["Through", entry.via],
          ["When", <Ago at={entry.happened_at} full />],
          [
            "Request",
            entry.request_id === null ? "–" : (
              <span class="key-text"><code class="breakable">{entry.request_id}</code> <Copy text={entry.request_id} label="request id" /></span>
            ),
          ],
        ]}
      />
      <h3>What was asked</h3>
      <Json value={entry.details} label="what was asked" />
      <h3>{entry.outcome === "done" ? "Result" : "Reason of the rejection"}</h3>
      <Json value={entry.result} label="result" />
    </Dialog>
  );
}
