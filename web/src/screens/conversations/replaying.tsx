// Replaying: hand messages out again that were handed out before; first what that repeats, then it does.

import { useState } from "preact/hooks";
import type { Schemas } from "../../api/types";
import { ActionButton, PlannedAction } from "../../ui/action";
import { Field } from "../../ui/bits";
import type { Group } from "./models";

type Replay = Schemas["ReplayResult"];

export function ReplayButton({ group }: { group: Group }) {
  const [isOpen, setOpen] = useState(false);
  const reason = group.in_flight ? "The agent is at work on this group; wait, or pause it" : group.processed === 0 ? "Nothing was handed out yet" : null;
  return (
    <>
      <ActionButton label="Replay…" name={`Replay messages of ${group.name}`} disabledReason={reason} isHarmless onClick={() => setOpen(true)} />
      {isOpen && <ReplayDialog group={group} onClose={() => setOpen(false)} />}
    </>
  );
}

function ReplayDialog({ group, onClose }: { group: Group; onClose: () => void }) {
  const [since, setSince] = useState(String(group.processed));
  const [reason, setReason] = useState("");
  return (
    <PlannedAction<Replay>
      title={`Replay messages of ${group.name}`}
      onClose={onClose}
      path="/api/dispatch/replay"
      body={() => ({ group: group.name, since: Number(since) || 0, reason: reason.trim(), seen: String(group.processed) })}
      form={
        <>
          <Field label="From message number" hint={`1 to ${group.processed}; the numbers stand beside the deliveries.`}>
            <input type="number" min="1" max={group.processed} value={since} autoComplete="off" onInput={(event) => setSince(event.currentTarget.value)} />
          </Field>
          <Field label="Reason" hint="Stored in the history of the cursor.">
            <input type="text" value={reason} autoComplete="off" onInput={(event) => setReason(event.currentTarget.value)} />
          </Field>
        </>
      }
      describe={(plan) => <ReplayPlan plan={plan} />}
      refuse={(plan) => (plan.messages === 0 ? "Nothing would be repeated" : reason.trim() === "" ? "Give a reason first" : null)}
      confirmLabel={(plan) => `Replay ${counted(plan.messages)}`}
      success={(done) => `${counted(done.messages)} of ${done.group} ${done.messages === 1 ? "is" : "are"} handed out again.`}
    />
  );
}

function ReplayPlan({ plan }: { plan: Replay }) {
  return (
    <>
      <p>
        The agent hears <strong>{counted(plan.messages)}</strong> again and answers again. The group goes back from {plan.from_position} to {plan.to_position}.
      </p>
      {plan.sample.length > 0 && (
        <ol class="replay-first">
          {plan.sample.map((each) => <li key={each.seq}><span class="num">{each.seq}</span> <strong>{each.sender}</strong>: {each.text}</li>)}
        </ol>
      )}
      {plan.messages > plan.sample.length && <p class="hint">And {plan.messages - plan.sample.length} more.</p>}
      {!plan.is_called && <p>None of them triggers the agent, so they wait as context for one that does.</p>}
    </>
  );
}

function counted(messages: number): string {
  return `${messages} ${messages === 1 ? "message" : "messages"}`;
}
