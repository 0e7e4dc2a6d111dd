// Cursor: one cursor, how it went on, who holds it, what failed, and what can be done about it.

import { useState } from "preact/hooks";
import type { Schemas } from "../api/types";
import { get } from "../core/api";
import { eventWord } from "../core/format";
import { useKeys } from "../core/keys";
import { useLive } from "../core/live";
import { go, route } from "../core/router";
import { ActionButton } from "../ui/action";
import { Ago, Code, ErrorBox, Notice, Skeleton, State } from "../ui/bits";
import { Page } from "../ui/page";
import { Table } from "../ui/table";
import { Grants, LeasePanel, Refusals } from "./cursor/lease";
import { SeekDialog, UndoDialog } from "./cursor/moving";
import { PauseButton } from "./cursor/pausing";
import { Progress } from "./cursor/progress";
import { useEvery } from "./cursor/ticking";
import type { CursorDetail, HistoryEntry } from "./cursor/types";
import { WaitingPanel } from "./cursor/waiting";
import { STATE_KINDS, behind, cursorHref, holding, position, shortWorker, spoken } from "./cursor/words";

const BACK = { href: "/cursors", label: "Cursors" };
const QUESTION = "What is its position, who holds the lease, and what failed?";
const RELOAD_SECONDS = 5;
const NEIGHBOURS_MAX = 500;

export default function Screen() {
  const name = route.value.parts.slice(1).join("/");
  const found = useLive<CursorDetail>(["cursors", "workers", "dead"], "/api/cursors/show", { name });
  useEvery(RELOAD_SECONDS, found);
  useNeighbours(name);
  const cursor = found.data?.name === name ? found.data : undefined;
  if (cursor === undefined) {
    return (
      <Page title={name} question={QUESTION} back={BACK}>
        {found.error ? <ErrorBox error={found.error} /> : <Skeleton />}
      </Page>
    );
  }
  return <Detail cursor={cursor} reload={found.reload} error={found.error} />;
}

interface DetailProps {
  cursor: CursorDetail;
  reload: () => void;
  error: Parameters<typeof ErrorBox>[0]["error"] | undefined;
}

function Detail({ cursor, reload, error }: DetailProps) {
  const [dialog, setDialog] = useState<"seek" | "undo" | null>(null);
  const props = { cursor, onClose: () => setDialog(null), onDone: reload };
  return (
    <Page
      title={cursor.name}
      question={QUESTION}
      back={BACK}
      actions={
        <>
          <PauseButton cursor={cursor} onDone={reload} />
          <ActionButton label="Seek…" isHarmless onClick={() => setDialog("seek")} />
          <ActionButton
            label="Undo the last seek…"
            isHarmless
            disabledReason={cursor.undoable === null ? "There is no seek to undo." : null}
            onClick={() => setDialog("undo")}
          />
        </>
      }
    >
      {error && <ErrorBox error={error} />}
      <p class="headline">
        <State kind={STATE_KINDS[cursor.state]} word={cursor.state} /> {holding(cursor)} {behind(cursor)}
      </p>
      {cursor.blocked_because !== null && (
        <Notice kind="warn">
          <strong>Blocked because</strong> {spoken(cursor.blocked_because)}.
        </Notice>
      )}
      <Progress cursor={cursor} />
      <div class="panels">
        <LeasePanel cursor={cursor} />
        <WaitingPanel cursor={cursor} />
      </div>
      <Refusals refusals={cursor.refusals} />
      <Grants grants={cursor.grants} />
      <History entries={cursor.history} />
      {dialog === "seek" && <SeekDialog {...props} />}
      {dialog === "undo" && <UndoDialog {...props} />}
    </Page>
  );
}

function History({ entries }: { entries: HistoryEntry[] }) {
  return (
    <section class="part" aria-labelledby="history">
      <h2 id="history">History</h2>
      <Table<HistoryEntry>
        label="History"
        rows={entries}
        rowKey={(each) => String(each.id)}
        columns={[
          { key: "when", title: "When", render: (each) => <Ago at={each.happened_at} /> },
          { key: "what", title: "Action", render: (each) => eventWord(each.kind) },
          { key: "from", title: "From", render: (each) => moved(each, each.from_position) },
          { key: "to", title: "To", render: (each) => moved(each, each.to_position) },
          { key: "epoch", title: "Epoch", align: "end", render: (each) => each.epoch },
          { key: "who", title: "Actor", render: (each) => <span title={each.actor}>{shortWorker(each.actor)}</span> },
          { key: "why", title: "Reason", render: (each) => each.reason },
        ]}
        empty={<p class="hint">No events yet.</p>}
      />
    </section>
  );
}

function moved(entry: HistoryEntry, at: string | null) {
  return entry.from_position === entry.to_position ? <span class="nothing">–</span> : <Code>{position(at)}</Code>;
}

/** `[` and `]` walk through the cursors by name. */
function useNeighbours(name: string): void {
  const walk = async (step: 1 | -1) => {
    const { items } = await get<Schemas["Page_CursorItem_"]>("/api/cursors", { limit: NEIGHBOURS_MAX });
    const here = items.findIndex((each) => each.name === name);
    const next = here < 0 ? undefined : items[here + step];
    if (next !== undefined) go(cursorHref(next.name));
  };
  useKeys(
    {
      "[": { text: "The cursor before", run: () => void walk(-1) },
      "]": { text: "The next cursor", run: () => void walk(1) },
    },
    "Cursor",
  );
}
