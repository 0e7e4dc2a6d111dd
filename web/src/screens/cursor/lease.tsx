// Lease: who holds a cursor, who held it before, and whose late words were refused.

import { duration } from "../../core/format";
import { Ago, Code, Copy, Facts, State } from "../../ui/bits";
import { Table } from "../../ui/table";
import type { CursorDetail, Grant, Refusal } from "./types";
import { secondsBetween, useElapsed } from "./ticking";
import { STATE_KINDS, shortWorker } from "./words";

const ENDINGS: Record<string, { kind: "warn" | "off"; word: string }> = {
  released: { kind: "off", word: "released" },
  stolen: { kind: "warn", word: "taken over" },
  moved: { kind: "off", word: "moved" },
};

export function LeasePanel({ cursor }: { cursor: CursorDetail }) {
  const elapsed = useElapsed(cursor);
  const ends = cursor.lease_expires_at;
  const left = ends === null ? null : secondsBetween(cursor.as_of, ends) - elapsed;
  const grant = cursor.grants.find((each) => each.ended_at === null);
  return (
    <section class="card part" aria-labelledby="lease">
      <h2 id="lease">Lease</h2>
      <Facts
        items={[
          ["State", <State kind={STATE_KINDS[cursor.state]} word={cursor.state} />],
          ["Holder", cursor.lease_owner === null ? "none" : <Worker id={cursor.lease_owner} />],
          ["Epoch", <Code>{String(cursor.epoch)}</Code>],
          [left !== null && left < 0 ? "Expired" : "Expires", left === null ? "no lease" : inTime(left)],
          ["Held since", grant === undefined ? "not held" : <Ago at={grant.granted_at} />],
          ["Taken over", cursor.steal_count === 0 ? "never" : `${cursor.steal_count} ×`],
        ]}
      />
    </section>
  );
}

function inTime(seconds: number): string {
  return seconds < 0 ? `${duration(-seconds)} ago` : `in ${duration(seconds)} unless it is renewed`;
}

export function Worker({ id }: { id: string }) {
  return (
    <span class="worker-id" title={id}>
      {shortWorker(id)} <Copy text={id} label={`the whole name of ${shortWorker(id)}`} />
    </span>
  );
}

export function Grants({ grants }: { grants: Grant[] }) {
  return (
    <section class="part" aria-labelledby="grants">
      <h2 id="grants">Lease history</h2>
      <Table<Grant>
        label="Lease history"
        rows={grants}
        rowKey={(each) => String(each.epoch)}
        columns={[
          { key: "epoch", title: "Lease", render: (each) => `epoch ${each.epoch}` },
          { key: "worker", title: "Worker", render: (each) => <span title={each.worker}>{shortWorker(each.worker)}</span> },
          { key: "granted", title: "Granted", render: (each) => <Ago at={each.granted_at} /> },
          { key: "held", title: "For", align: "end", render: (each) => held(each) },
          { key: "ending", title: "Ended", render: (each) => <Ending grant={each} /> },
        ]}
        empty={<p class="hint">No lease has been granted yet.</p>}
      />
    </section>
  );
}

function held(grant: Grant): string {
  return grant.ended_at === null ? "until now" : duration(secondsBetween(grant.granted_at, grant.ended_at));
}

function Ending({ grant }: { grant: Grant }) {
  if (grant.ending === null) return <State kind="ok" word="holds it" />;
  const ending = ENDINGS[grant.ending] ?? { kind: "off" as const, word: grant.ending };
  return <State kind={ending.kind} word={ending.word} />;
}

export function Refusals({ refusals }: { refusals: Refusal[] }) {
  if (refusals.length === 0) return null;
  return (
    <section class="part" aria-labelledby="refused">
      <h2 id="refused">Rejected stale writes</h2>
      <p class="hint">Writes of workers whose lease had been taken over. None of them changed anything.</p>
      <Table<Refusal>
        label="Rejected stale writes"
        rows={refusals}
        rowKey={(each) => `${each.epoch} ${each.what} ${each.happened_at}`}
        columns={[
          { key: "when", title: "When", render: (each) => <Ago at={each.happened_at} /> },
          { key: "what", title: "What", render: (each) => each.what },
          { key: "why", title: "Why", render: (each) => why(each) },
          { key: "worker", title: "From", render: (each) => <span title={each.worker}>{shortWorker(each.worker)}</span> },
          { key: "holder", title: "Holder at that time", render: (each) => (each.current_owner === null ? "none" : <span title={each.current_owner}>{shortWorker(each.current_owner)}</span>) },
        ]}
        empty={null}
      />
    </section>
  );
}

function why(refusal: Refusal): string {
  const current = refusal.current_epoch === null ? "the cursor is gone" : `current ${refusal.current_epoch}`;
  return `epoch ${refusal.epoch}, ${current}`;
}
