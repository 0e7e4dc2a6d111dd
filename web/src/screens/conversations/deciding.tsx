// Deciding: what a person does about messages that an agent failed at too often.

import { useState } from "preact/hooks";
import { ActionButton, PlannedAction } from "../../ui/action";
import { Field } from "../../ui/bits";
import type { Delivery } from "./models";

interface Decided {
  messages?: number;
  is_open?: boolean;
  is_done?: boolean;
  sample?: { seq: number; sender: string; text: string }[];
}

const WAYS = {
  redrive: {
    label: "Redrive…", verb: "Redrive", done: "The messages arrived anew.", kind: "plain",
    told: "Its messages arrive anew, behind everything else, and the agent is called for them.",
  },
  drop: {
    label: "Drop…", verb: "Drop", done: "The messages are given up for good.", kind: "danger",
    told: "Its messages are given up for good. They stay in the conversation, and nobody answers them.",
  },
} as const;

export function DecideButton({ way, delivery }: { way: keyof typeof WAYS; delivery: Delivery }) {
  const [isOpen, setOpen] = useState(false);
  const [reason, setReason] = useState("");
  const { label, verb, told, done, kind } = WAYS[way];
  const range = rangeOf(delivery);
  return (
    <>
      <ActionButton label={label} name={`${verb} messages ${range}`} kind={kind} isHarmless onClick={() => setOpen(true)} />
      {isOpen && (
        <PlannedAction<Decided>
          title={`${verb} messages ${range}`}
          onClose={() => setOpen(false)}
          path={`/api/dispatch/${way}`}
          body={() => ({ id: delivery.id, reason: reason.trim(), seen: delivery.version })}
          form={
            <Field label="Reason" hint="It is kept in the audit.">
              <input type="text" value={reason} autoComplete="off" onInput={(event) => setReason(event.currentTarget.value)} />
            </Field>
          }
          describe={(plan) => (
            <>
              <p><strong>{counted(plan)}.</strong> {told}</p>
              <ol class="replay-first">
                {plan.sample?.map((each) => <li key={each.seq}><span class="num">{each.seq}</span> <strong>{each.sender}</strong>: {each.text}</li>)}
              </ol>
            </>
          )}
          refuse={(plan) => (plan.is_open === false ? "Somebody has decided already" : reason.trim() === "" ? "Say why first" : null)}
          confirmLabel={(plan) => `${verb} ${counted(plan)}`}
          success={(result) => (result.is_done ? done : "Somebody had decided already; nothing was changed.")}
          kind={kind}
        />
      )}
    </>
  );
}

export function rangeOf({ first_seq: first, last_seq: last }: { first_seq: number; last_seq: number }): string {
  return first === last ? String(first) : `${first}–${last}`;
}

function counted({ messages = 0 }: Decided): string {
  return `${messages} ${messages === 1 ? "message" : "messages"}`;
}
