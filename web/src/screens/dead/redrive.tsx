// Redrive: puts messages back to be tried at once, after showing how many, where, and in front of whom.

import { PlannedAction } from "../../ui/action";
import { Code, Notice } from "../../ui/bits";
import { messages, placeOf, type Letter, type Redrive } from "./models";

export type What = { ids: number[] } | { cursor: string } | { group: string };

interface RedriveProps {
  what: What;
  /** As they are shown now: what is done is done to these versions. */
  letters: Pick<Letter, "id" | "version">[];
  onClose: () => void;
  onDone?: () => void;
}

export function RedriveDialog({ what, letters, onClose, onDone }: RedriveProps) {
  return (
    <PlannedAction<Redrive>
      title="Redrive dead letters"
      onClose={onClose}
      path="/api/dead/redrive"
      body={() => bodyOf(what, letters)}
      describe={(plan) => <Plan plan={plan} />}
      refuse={(plan) => (plan.count === 0 ? "there is nothing to redrive" : null)}
      confirmLabel={(plan) => `Redrive ${messages(plan.count)}`}
      success={(done) => `${messages(done.count)} redriven, to be tried at once`}
      onDone={onDone}
    />
  );
}

function bodyOf(what: What, letters: RedriveProps["letters"]): object {
  if (!("ids" in what)) return what;
  const meant = letters.filter((each) => what.ids.includes(each.id));
  return { ids: what.ids, seen: Object.fromEntries(meant.map((each) => [String(each.id), each.version])) };
}

function Plan({ plan }: { plan: Redrive }) {
  const queues = (plan.lines ?? []).filter((each) => each.key !== null && each.waiting > 0);
  return (
    <>
      <p>
        <strong class="plan-number">{messages(plan.count)}</strong> {plan.count === 1 ? "is" : "are"} tried again at
        once, as if for the first time: earlier attempts no longer count.
      </p>
      {plan.cursors !== undefined && plan.cursors.length > 0 && (
        <ul class="plan-list">
          {plan.cursors.map((each) => <li key={each.cursor}><Code>{each.cursor}</Code> {messages(each.count)}</li>)}
        </ul>
      )}
      {queues.length > 0 && (
        <Notice kind="info">
          They go back to the place in their key's line that they had:
          <ul>
            {queues.map((each) => (
              <li key={`${each.cursor} ${each.key}`}>
                <Code>{each.key}</Code>: {each.count} with {messages(each.waiting)} waiting
              </li>
            ))}
          </ul>
        </Notice>
      )}
      {plan.is_cut && <Notice>There are more than one request handles. Redrive again for the rest.</Notice>}
      {plan.skipped.length > 0 && (
        <p class="hint">{messages(plan.skipped.length)} skipped: already settled.</p>
      )}
      <Sample plan={plan} />
    </>
  );
}

function Sample({ plan }: { plan: Redrive }) {
  if (plan.sample.length === 0) return null;
  const rest = plan.count - plan.sample.length;
  return (
    <ul class="plan-sample" aria-label="Some of them">
      {plan.sample.map((each) => (
        <li key={each.id}>
          <span class="mono">#{each.id}</span> <span class="mono breakable">{placeOf(each)}</span>
          <div class="cell-note clip">{`${each.error_type}: ${each.error_message}`}</div>
        </li>
      ))}
      {rest > 0 && <li class="hint">and {rest.toLocaleString("en")} more</li>}
    </ul>
  );
}
