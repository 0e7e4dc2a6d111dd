// Group: one conversation: where it stands, what was handed to its agent, what that said, and the chat itself.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Away } from "../../chat/away";
import { Conversation } from "../../chat/conversation";
import { pathOf } from "../../chat/models";
import { callOf as agentCallOf } from "../../chat/states";
import { type ApiError, asApiError } from "../../core/api";
import { useLive } from "../../core/live";
import { Link } from "../../core/router";
import { Ago, Empty, ErrorBox, Facts, Notice, Num, Skeleton, State, Tabs, useTab } from "../../ui/bits";
import { Page } from "../../ui/page";
import { Sheet } from "../../ui/sheet";
import type { Column } from "../../ui/table";
import { PositionLine } from "./line";
import {
  callOf, type Delivery, DELIVERY_KINDS, DELIVERY_WORDS, type Group, type Move, type Saying, SAYING_KINDS, SAYING_WORDS, standingOf,
} from "./models";
import { PauseButton } from "./pausing";
import { ReplayButton } from "./replaying";

const BACK = { href: "/conversations", label: "Conversations" };

export function GroupView({ name }: { name: string }) {
  const tab = useTab("tab", "chat");
  const isChat = !["deliveries", "outbox", "moves"].includes(tab);
  const { data, error, reload } = useLive<Group>(["dispatch"], "/api/dispatch/group", { name });
  return (
    <Page
      title={name}
      question="How far was this conversation processed, and was everything answered once?"
      back={BACK}
      actions={data && <><PauseButton group={name} isPaused={data.is_paused} /><ReplayButton group={data} /></>}
    >
      {error && (error.status === 404 ? <Empty title="There is no such conversation" text="It was removed, or belongs to another store." /> : <ErrorBox error={error} onRetry={reload} />)}
      {!data && !error && <Skeleton />}
      {data && (
        <>
          <Troubles group={data} />
          <Tabs
            label={`About ${name}`}
            tabs={[
              { id: "chat", title: "Chat" },
              { id: "deliveries", title: "Deliveries", count: data.deliveries.length },
              { id: "outbox", title: "Outbox", count: data.outbox.length },
              { id: "moves", title: "Moves", count: data.history.length },
            ]}
          />
          <div class={isChat ? "conversation beside" : "conversation"}>
            <div>
              {tab === "deliveries" && <Deliveries group={data} />}
              {tab === "outbox" && <Outbox group={data} />}
              {tab === "moves" && <Moves group={data} />}
              {isChat && <Chat group={data} />}
            </div>
            <Summary group={data} />
          </div>
        </>
      )}
    </Page>
  );
}

function Troubles({ group }: { group: Group }) {
  return (
    <>
      {group.holder === null && group.is_called && (
        <Notice kind="warn">No dispatcher runs the agents of this store, so messages wait. Start one: <code>onceward dispatch serve</code></Notice>
      )}
      {group.last_error && group.retry_at && <Notice kind="warn">Attempt {group.attempts} failed, and is repeated: {group.last_error}</Notice>}
      {deadOf(group) > 0 && <Notice kind="bad">Messages failed too often. Redrive or drop their <Link href={deadHref(group.name)}>dead letters</Link>.</Notice>}
    </>
  );
}

function deadOf(group: Group): number {
  return group.dead;
}

function Summary({ group }: { group: Group }) {
  const flight = group.in_flight;
  const standing = standingOf({
    isPaused: group.is_paused,
    isRunning: flight !== null,
    isCalled: group.is_called,
    isHeld: group.holder !== null,
    retryAt: group.retry_at,
    pending: group.pending,
    dead: deadOf(group),
  });
  const facts: [string, JSX.Element | string][] = [
    ["State", <State {...standing} />],
    ["Pending", <Num value={group.pending} />],
    ["In flight", flight ? <>{`${rangeOf(flight)}, attempt ${flight.attempt}${flight.agent?.pid ? `, process ${flight.agent.pid}` : ""}, `}<Ago at={flight.started_at} /></> : "nothing"],
    ["Next attempt", group.retry_at ? <Ago at={group.retry_at} /> : "–"],
    ["Unsent", <Num value={group.unsent} />],
    ["Dead letters", <Num value={deadOf(group)} />],
    ["Trigger", callOf(group)],
    ["Agent", <code class="path">{group.command.join(" ")}</code>],
    ["Run by", group.holder ? <span class="path">{group.holder}</span> : "no dispatcher"],
  ];
  return (
    <aside class="conversation-facts" aria-label={`Where ${group.name} stands`}>
      <PositionLine group={group} />
      <Facts items={facts} />
    </aside>
  );
}

function Chat({ group }: { group: Group }) {
  const [failure, setFailure] = useState<ApiError | null>(null);
  if (failure) return <ErrorBox error={failure} onRetry={() => setFailure(null)} />;
  return (
    <section class="chat" aria-label={`Chat of ${group.name}`}>
      <p class="chat-bar"><a href={pathOf(group.name)} target="_blank" rel="noopener">Open in a new tab</a></p>
      <Away />
      <div class="talk">
        <Conversation group={group.name} hint={agentCallOf(group)} onFailed={(error) => setFailure(asApiError(error))} />
      </div>
    </section>
  );
}

const DELIVERIES: Column<Delivery>[] = [
  { key: "range", title: "Messages", render: (each) => rangeOf(each) },
  { key: "state", title: "State", render: (each) => <State kind={DELIVERY_KINDS[each.state] ?? "off"} word={each.state} title={DELIVERY_WORDS[each.state]} /> },
  { key: "attempt", title: "Attempt", align: "end", render: (each) => each.attempt },
  { key: "started", title: "Started", render: (each) => <Ago at={each.started_at} /> },
  { key: "ended", title: "Ended", render: (each) => <Ago at={each.ended_at} /> },
  { key: "agent", title: "Process", align: "end", hideNarrow: true, render: (each) => each.agent?.pid ?? "–" },
  { key: "error", title: "Error", render: (each) => (each.error ? <span class="delivery-error">{each.error}</span> : <span class="nothing">–</span>) },
  {
    key: "decide",
    title: "Decide",
    render: (each) => (each.state === "dead" ? <Link href={deadHref(each.group)}>Dead letters</Link> : <span class="nothing">–</span>),
  },
];

function deadHref(group: string): string {
  return `/dead?${new URLSearchParams({ group })}`;
}

function rangeOf({ first_seq: first, last_seq: last }: { first_seq: number; last_seq: number }): string {
  return first === last ? String(first) : `${first}–${last}`;
}

function Deliveries({ group }: { group: Group }) {
  if (group.deliveries.length === 0) return <Empty title="Nothing was handed out yet" text="When a message triggers the agent, everything since its last run is handed over at once; each such delivery is listed here." />;
  return <Sheet label={`Deliveries of ${group.name}`} columns={DELIVERIES} rows={group.deliveries} rowKey={(each) => String(each.id)} />;
}

const OUTBOX: Column<Saying>[] = [
  { key: "text", title: "Reply", render: (each) => <span class="saying-text">{each.text}{each.is_cut && "…"}</span> },
  { key: "state", title: "State", render: (each) => <State kind={SAYING_KINDS[each.state] ?? "off"} word={each.state} title={each.error ?? SAYING_WORDS[each.state]} /> },
  { key: "said", title: "Said", render: (each) => <Ago at={each.created_at} /> },
  { key: "sent", title: "Sent", render: (each) => (each.sent_at ? <Ago at={each.sent_at} /> : each.retry_at ? <>again <Ago at={each.retry_at} /></> : <span class="nothing">–</span>) },
  { key: "attempts", title: "Attempts", align: "end", hideNarrow: true, render: (each) => each.attempts },
];

function Outbox({ group }: { group: Group }) {
  if (group.outbox.length === 0) return <Empty title="The agent has not replied yet" text="A reply is stored here before it is sent, under a key that stays the same, so that it is sent once." />;
  const states = [...new Set(group.outbox.map((each) => each.state))];
  return (
    <>
      <Sheet label={`Outbox of ${group.name}`} columns={OUTBOX} rows={group.outbox} rowKey={(each) => String(each.id)} />
      <dl class="saying-states">
        {states.map((state) => (
          <div key={state}>
            <dt><State kind={SAYING_KINDS[state] ?? "off"} word={state} /></dt>
            <dd>{SAYING_WORDS[state]}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

const MOVES: Column<Move>[] = [
  { key: "at", title: "When", render: (each) => <Ago at={each.at} /> },
  { key: "way", title: "From, to", render: (each) => `${each.from} → ${each.to}` },
  { key: "reason", title: "Why", render: (each) => each.reason || "–" },
  { key: "actor", title: "By", render: (each) => each.actor },
];

function Moves({ group }: { group: Group }) {
  if (group.history.length === 0) return <Empty title="The cursor was never moved" text="Processing moves it onward. When an attempt fails, or an operator replays messages, it moves back, and that is listed here." />;
  return <Sheet label={`Moves of ${group.name}`} columns={MOVES} rows={group.history} rowKey={(each) => `${each.at} ${each.from} ${each.to}`} />;
}
