// Dead letter detail: the message, every attempt at it, the error, and what to do with it.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useLive } from "../core/live";
import { when } from "../core/format";
import { Link, route } from "../core/router";
import { ActionButton } from "../ui/action";
import { Ago, Copy, ErrorBox, Facts, Notice, Skeleton, State } from "../ui/bits";
import { Page } from "../ui/page";
import { Bytes } from "./dead/bytes";
import { DropDialog } from "./dead/drop";
import { conversationHref, letterLook, overReason, placeOf, type LetterDetail } from "./dead/models";
import { RedriveDialog } from "./dead/redrive";
import { Neighbours } from "./lists/neighbours";

export default function Screen() {
  const id = route.value.parts[1] ?? "";
  const { data, error, reload } = useLive<LetterDetail>(["dead"], "/api/dead/show", { id });
  const [asked, setAsked] = useState<"redrive" | "drop" | null>(null);
  const reason = overReason(data);
  const actions = (
    <>
      <ActionButton label="Redrive…" disabledReason={reason} onClick={() => setAsked("redrive")} />
      <ActionButton label="Drop…" kind="danger" disabledReason={reason} onClick={() => setAsked("drop")} />
    </>
  );
  const close = () => setAsked(null);
  return (
    <Page
      title={`Dead letter ${id}`}
      question="Why did this message fail for good, and should it be tried again?"
      back={{ href: "/dead", label: "Dead letters" }}
      actions={actions}
    >
      <Neighbours list="dead" here={`/dead/${id}`} noun="dead letter" />
      {error !== undefined && <ErrorBox error={error} onRetry={reload} />}
      {error === undefined && data === undefined && <Skeleton />}
      {data !== undefined && (
        <>
          <Head letter={data} />
          <Failures letter={data} />
          {data.source === "chat" ? <Messages letter={data} /> : <Bytes letter={data} />}
          <Trace text={data.error_trace} />
          {asked === "redrive" && <RedriveDialog what={{ ids: [data.id] }} letters={[data]} onClose={close} />}
          {asked === "drop" && <DropDialog letter={data} onClose={close} />}
        </>
      )}
    </Page>
  );
}

function Head({ letter }: { letter: LetterDetail }) {
  return (
    <section class="part" aria-label="The letter in short">
      <p class="run-headline">
        <State {...letterLook(letter.state)} /> <span>{standing(letter)}</span>
      </p>
      <Notice kind={letter.state === "dead" ? "bad" : "info"}>
        <strong>{letter.error_type}</strong>: <span class="breakable">{letter.error_message || "no message"}</span>
      </Notice>
      <Facts
        items={[
          ...placeFacts(letter),
          ["Tries", String(letter.attempts)],
          ["First failed", <Ago at={letter.first_failed_at} />],
          ["Died", <Ago at={letter.dead_at} />],
          ["Redriven", letter.redrive_count === 0 ? "never" : `${letter.redrive_count} ×`],
        ]}
      />
    </section>
  );
}

function placeFacts(letter: LetterDetail): [string, JSX.Element | string][] {
  if (letter.group !== null) {
    return [
      ["Conversation", <Link href={conversationHref(letter.group)}>{letter.group}</Link>],
      ["Messages", placeOf(letter)],
    ];
  }
  return [
    ["Cursor", <Link href={`/cursors/${encodeURIComponent(letter.cursor)}`}>{letter.cursor}</Link>],
    ["Position", <span class="mono breakable">{letter.position}</span>],
    ["Key", letter.key === null ? "none" : <span class="mono breakable">{letter.key}</span>],
    ["Bytes", letter.raw_size.toLocaleString("en")],
  ];
}

function Messages({ letter }: { letter: LetterDetail }) {
  const rest = letter.messages_count - letter.messages.length;
  return (
    <section class="part" aria-label="The messages">
      <h2>The messages</h2>
      {letter.messages_count === 0 && <p class="hint">They are pending again, under other numbers.</p>}
      <ol class="replay-first">
        {letter.messages.map((each) => (
          <li key={each.seq}>
            <span class="num">{each.seq}</span> <strong>{each.sender}</strong>: <span class="breakable">{each.text}{each.is_cut && "…"}</span>
          </li>
        ))}
      </ol>
      {rest > 0 && <p class="hint">and {rest.toLocaleString("en")} more</p>}
    </section>
  );
}

function standing(letter: LetterDetail): string {
  const why = letter.reason === "" ? "" : `: ${letter.reason}`;
  if (letter.state === "redriven") return `Redriven by ${letter.changed_by}${why}`;
  if (letter.state === "dropped") return `Dropped by ${letter.changed_by}${why}`;
  return "Waits for an operator: it is not retried automatically";
}

function Failures({ letter }: { letter: LetterDetail }) {
  if (letter.failures.length === 0) return null;
  return (
    <section class="part" aria-label="Attempts">
      <h2>Attempts</h2>
      <ol class="sequence">
        {letter.failures.map((each) => (
          <li key={`${each.attempt} ${each.at}`} class="sequence-item is-failed">
            <strong>Attempt {each.attempt}</strong>
            <span class="sequence-detail">{each.error}</span>
            <time class="sequence-time" dateTime={each.at} title={when(each.at).relative}>{when(each.at).absolute}</time>
          </li>
        ))}
        <li class="sequence-item is-dead">
          <strong>Dead letter</strong>
          <span class="sequence-detail">after {letter.attempts === 1 ? "one attempt" : `${letter.attempts} attempts`}</span>
          <time class="sequence-time" dateTime={letter.dead_at} title={when(letter.dead_at).relative}>
            {when(letter.dead_at).absolute}
          </time>
        </li>
      </ol>
    </section>
  );
}

function Trace({ text }: { text: string }) {
  if (text === "") return null;
  return (
    <section class="part" aria-label="Trace">
      <div class="section-head">
        <h2>Trace</h2>
        <Copy text={text} label="trace" />
      </div>
      <pre class="file-text" tabIndex={0} role="region" aria-label="Trace of the last error">{text}</pre>
    </section>
  );
}
