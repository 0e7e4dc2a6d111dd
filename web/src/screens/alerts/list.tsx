// Alert list: what fires now first, then what is over.

import { Ago, Empty, State } from "../../ui/bits";
import { Link } from "../../core/router";
import { Table, type Column } from "../../ui/table";
import { alertLook, alertText, type Alert } from "./models";

const CURSOR: Column<Alert> = {
  key: "cursor",
  title: "Cursor",
  render: (each) => (
    <>
      <span class="breakable">{each.cursor}</span>
      <div class="cell-note">{each.rule}</div>
    </>
  ),
};
const OPEN: Column<Alert>[] = [
  CURSOR,
  { key: "state", title: "State", render: (each) => <State {...alertLook(each.state)} /> },
  { key: "text", title: "What", render: (each) => alertText(each) },
  { key: "since", title: "Since", render: (each) => <Ago at={each.pending_at} /> },
  { key: "sent", title: "Notified", hideNarrow: true, render: (each) => <Ago at={each.fired_sent_at} /> },
];
const OVER: Column<Alert>[] = [
  CURSOR,
  { key: "state", title: "State", render: (each) => <State {...alertLook(each.state)} /> },
  { key: "text", title: "What", render: (each) => alertText(each) },
  { key: "fired", title: "Fired", render: (each) => <Ago at={each.fired_at} /> },
  { key: "cleared", title: "Cleared", render: (each) => <Ago at={each.cleared_at} /> },
];

export function AlertList({ alerts }: { alerts: Alert[] }) {
  const open = alerts
    .filter((each) => each.state !== "cleared")
    .sort((a, b) => Number(b.state === "firing") - Number(a.state === "firing"));
  const over = alerts.filter((each) => each.state === "cleared");
  return (
    <>
      <section class="part" aria-label="Open alerts">
        <h2>Now</h2>
        <Table
          label="Open alerts"
          columns={OPEN}
          rows={open}
          rowKey={(each) => each.id}
          href={whereTo}
          empty={<Quiet isFirst={over.length === 0} />}
        />
      </section>
      {over.length > 0 && (
        <section class="part" aria-label="Alerts that are over">
          <h2>Over</h2>
          <Table label="Alerts that are over" columns={OVER} rows={over} rowKey={(each) => each.id} href={whereTo} empty={null} />
        </section>
      )}
    </>
  );
}

function Quiet({ isFirst }: { isFirst: boolean }) {
  return (
    <Empty
      title="Nothing fires"
      text={
        isFirst ? (
          <>
            When a cursor falls behind, loses its lease repeatedly, keeps failing or gets dead letters, it is
            shown here, logged, and sent to your webhook. <Link href="/alerts?tab=rules">See the rules</Link>.
          </>
        ) : (
          "All earlier alerts are resolved."
        )
      }
    />
  );
}

function whereTo(alert: Alert): string {
  if (alert.kind === "dead") return `/dead?${new URLSearchParams({ cursor: alert.cursor })}`;
  return `/cursors/${encodeURIComponent(alert.cursor)}`;
}
