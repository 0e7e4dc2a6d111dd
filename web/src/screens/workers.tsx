// Workers: who holds what, and who is a zombie.

import { useLive } from "../core/live";
import { Link } from "../core/router";
import { Ago, Copy, Empty, ErrorBox, Skeleton, State, Tabs, useTab } from "../ui/bits";
import { Lanes } from "../ui/charts";
import { Page } from "../ui/page";
import { Table } from "../ui/table";
import { useElapsed, useEvery } from "./cursor/ticking";
import { cursorHref, shortWorker } from "./cursor/words";
import { Beat } from "./workers/beat";
import { drawn, view } from "./workers/lanes";
import type { Lease, Worker, Workers } from "./workers/types";

const MINUTES = "10";
const WINDOWS = [
  { id: MINUTES, title: "10 min" },
  { id: "60", title: "1 h" },
];
const RELOAD_SECONDS = 2;

export default function Screen() {
  const minutes = useTab("minutes", MINUTES);
  const found = useLive<Workers>(["workers", "cursors"], "/api/console/workers", { minutes });
  useEvery(RELOAD_SECONDS, found);
  const elapsed = useElapsed(found.data);
  return (
    <Page title="Workers" question="Which process holds which lease, and which one is stale?">
      {found.error && <ErrorBox error={found.error} />}
      {found.data === undefined ? (
        !found.error && <Skeleton />
      ) : found.data.workers.length === 0 && found.data.lanes.length === 0 ? (
        <NoneYet />
      ) : (
        <Found data={found.data} elapsed={elapsed} />
      )}
    </Page>
  );
}

function Found({ data, elapsed }: { data: Workers; elapsed: number }) {
  const { from, to } = view(data);
  return (
    <>
      <section class="part" aria-labelledby="lanes">
        <h2 id="lanes">Leases over time</h2>
        <Tabs label="How far back" param="minutes" tabs={WINDOWS} />
        <Lanes label={`Leases since ${clock(from)}`} from={from} to={to} lanes={drawn(data)} />
      </section>
      <section class="part" aria-labelledby="processes">
        <h2 id="processes">Processes</h2>
        <Table<Worker>
          label="Processes"
          rows={data.workers}
          rowKey={(worker) => worker.worker}
          columns={[
            { key: "process", title: "Process", render: (worker) => <Process worker={worker} /> },
            { key: "state", title: "State", render: (worker) => <Condition worker={worker} elapsed={elapsed} /> },
            { key: "heard", title: "Last seen", render: (worker) => <Heard worker={worker} /> },
            { key: "reads", title: "Reads", hideNarrow: true, render: (worker) => <Reads worker={worker} /> },
            { key: "leases", title: "Leases", width: "44%", render: (worker) => <Leases leases={worker.leases} elapsed={elapsed} /> },
          ]}
          actions={(worker) => <Copy text={JSON.stringify(worker, null, 2)} label={`what is known of ${shortWorker(worker.worker)}`} />}
          empty={<p class="hint">No process works on this store now.</p>}
        />
      </section>
    </>
  );
}

function clock(at: number): string {
  return new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

function Process({ worker }: { worker: Worker }) {
  if (worker.pid === null) return <span title={worker.worker}>{shortWorker(worker.worker)}</span>;
  return (
    <span title={worker.worker}>
      {worker.host}
      <span class="below">pid {worker.pid}</span>
    </span>
  );
}

function Reads({ worker }: { worker: Worker }) {
  if (worker.consumers.length === 0) return <span class="hint">unknown</span>;
  return <span class="worker-reads">{worker.consumers.join(", ")}</span>;
}

/** One word for a process: expired leases first, because other workers wait for them. */
function Condition({ worker, elapsed }: { worker: Worker; elapsed: number }) {
  const isExpired = worker.leases.some((lease) => lease.expires_in_seconds - elapsed <= 0);
  if (isExpired) return <State kind="bad" word="expired" />;
  if (worker.stopped_at !== null) return <State kind="off" word="stopped" />;
  if (worker.is_silent) return <State kind="warn" word="silent" />;
  if (worker.leases.length > 0) return <State kind="ok" word="working" />;
  return worker.seen_at === null ? <State kind="off" word="holds nothing" /> : <State kind="wait" word="waiting" />;
}

function Heard({ worker }: { worker: Worker }) {
  if (worker.stopped_at !== null) {
    return (
      <>
        stopped <Ago at={worker.stopped_at} />
      </>
    );
  }
  return worker.seen_at === null ? <span class="hint">only by its leases</span> : <Ago at={worker.seen_at} />;
}

function Leases({ leases, elapsed }: { leases: Lease[]; elapsed: number }) {
  if (leases.length === 0) return <span class="hint">none</span>;
  return (
    <ul class="worker-leases">
      {leases.map((lease) => (
        <li key={lease.cursor}>
          <Link href={cursorHref(lease.cursor)}>{lease.cursor}</Link>
          <span class="hint">epoch {lease.epoch}</span>
          <Beat seconds={lease.expires_in_seconds - elapsed} lease={lease.lease_seconds} />
        </li>
      ))}
    </ul>
  );
}

function NoneYet() {
  return (
    <Empty
      title="No workers yet"
      text="A worker is a process that runs the consumers of an app. Each holds the cursors it works on for as long as it renews their leases; when it dies, another takes over under a higher epoch."
      commands={["onceward worker my_app:app --processes 2"]}
    />
  );
}
