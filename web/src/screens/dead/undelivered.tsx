// Undelivered: messages of conversations that an agent failed at too often.

import { useState } from "preact/hooks";
import { usePages } from "../../core/live";
import { Link } from "../../core/router";
import { ActionButton, PlannedAction } from "../../ui/action";
import { Ago, Empty, Field, Notice, Num } from "../../ui/bits";
import { Table, type Column } from "../../ui/table";
import { Listed } from "../lists/listed";
import { messages, type Undelivered } from "./models";

type Verb = "redrive" | "drop";

const COLUMNS: Column<Undelivered>[] = [
  {
    key: "letter",
    title: "Letter",
    render: (each) => (
      <>
        <span class="mono">#{each.id}</span>
        <div class="cell-note">{spanText(each)}</div>
      </>
    ),
  },
  {
    key: "group",
    title: "Conversation",
    render: (each) => <Link href={`/conversations?${new URLSearchParams({ group: each.group })}`}>{each.group}</Link>,
  },
  { key: "error", title: "Last error", render: (each) => <span class="clip" title={each.error ?? ""}>{each.error ?? "–"}</span> },
  { key: "attempt", title: "Tries", align: "end", render: (each) => <Num value={each.attempt} /> },
  { key: "died", title: "Died", render: (each) => <Ago at={each.ended_at} /> },
];

export function UndeliveredTab() {
  const pages = usePages<Undelivered>(["dispatch"], "/api/dispatch/dead", {}, { rowKey });
  const [asked, setAsked] = useState<{ letter: Undelivered; verb: Verb } | null>(null);
  return (
    <>
      <Listed pages={pages}>
        <Table
          label="Dead letters of conversations"
          columns={COLUMNS}
          rows={pages.items}
          rowKey={rowKey}
          more={pages.more}
          empty={<Nothing />}
          actions={(each) => (
            <span class="acts-pair">
              <ActionButton label="Redrive…" name={`Redrive letter ${each.id}`} onClick={() => setAsked({ letter: each, verb: "redrive" })} />
              <ActionButton label="Drop…" kind="danger" name={`Drop letter ${each.id}`} onClick={() => setAsked({ letter: each, verb: "drop" })} />
            </span>
          )}
        />
      </Listed>
      {asked !== null && <Decision {...asked} onClose={() => setAsked(null)} />}
    </>
  );
}

function rowKey(letter: Undelivered): string {
  return String(letter.id);
}

function Nothing() {
  return (
    <Empty
      title="No dead letters"
      text="When an agent fails at the same messages too often, they are put here, and the conversation goes on without them. Put them back to let them arrive anew."
      commands={["onceward dispatch dead list"]}
    />
  );
}

const TELLING: Record<Verb, { text: string; label: string; done: string }> = {
  redrive: {
    text: "They arrive anew, behind all that was said since, and the agent is called.",
    label: "Let them arrive anew",
    done: "arrive anew",
  },
  drop: { text: "The agent never gets them. They stay to be read.", label: "Drop for good", done: "dropped for good" },
};

interface Plan {
  messages: number;
  is_open: boolean;
  sample: { seq: number; sender: string; text: string }[];
}

function Decision({ letter, verb, onClose }: { letter: Undelivered; verb: Verb; onClose: () => void }) {
  const [reason, setReason] = useState("");
  return (
    <PlannedAction<Plan>
      title={`${verb === "redrive" ? "Redrive" : "Drop"} letter ${letter.id} of ${letter.group}`}
      onClose={onClose}
      kind={verb === "drop" ? "danger" : "plain"}
      form={
        <Field label="Why" hint="Kept in the audit">
          <input type="text" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
        </Field>
      }
      path={`/api/dispatch/${verb}`}
      body={() => ({ id: letter.id, reason: reason.trim(), seen: letter.version })}
      describe={(plan) => (
        <>
          <p><strong class="plan-number">{messages(plan.messages)}</strong> of {letter.group}.</p>
          <Notice kind={verb === "drop" ? "warn" : "info"}>{TELLING[verb].text}</Notice>
          <ul class="plan-list" aria-label="Some of them">
            {plan.sample.map((each) => (
              <li key={each.seq}><span class="hint">{each.seq}</span> {each.sender}: <span class="breakable">{each.text}</span></li>
            ))}
          </ul>
        </>
      )}
      refuse={(plan) => {
        if (!plan.is_open) return "somebody has decided already";
        return verb === "drop" && reason.trim() === "" ? "say why first" : null;
      }}
      confirmLabel={() => TELLING[verb].label}
      success={() => `Letter ${letter.id}: ${TELLING[verb].done}`}
    />
  );
}

function spanText(letter: Undelivered): string {
  if (letter.first_seq === letter.last_seq) return `message ${letter.first_seq}`;
  return `messages ${letter.first_seq} to ${letter.last_seq}`;
}
