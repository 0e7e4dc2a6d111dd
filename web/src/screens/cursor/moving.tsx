// Moving: seek and undo, thought through by the server before anything is done.

import { useState } from "preact/hooks";
import { ApiError, get } from "../../core/api";
import { count, exact, when } from "../../core/format";
import { Code, Facts, Field, Notice } from "../../ui/bits";
import { PlannedAction } from "../../ui/action";
import type { CursorDetail, Moving, Sample } from "./types";
import { position, shortWorker } from "./words";

const PLACES_MAX = 12;
const UNKNOWN = "unknown: only its source can count";

interface Props {
  cursor: CursorDetail;
  onClose: () => void;
  onDone: () => void;
}

export function SeekDialog({ cursor, onClose, onDone }: Props) {
  const [isStart, setStart] = useState(false);
  const [target, setTarget] = useState(cursor.position ?? "");
  const [reason, setReason] = useState("");
  const places = earlier(cursor.samples, cursor.position);
  const form = (
    <div class="seek-form">
      <fieldset>
        <legend>Where to</legend>
        <label class="choice">
          <input type="radio" name="where" checked={!isStart} onChange={() => setStart(false)} /> After a position
        </label>
        <label class="choice">
          <input type="radio" name="where" checked={isStart} onChange={() => setStart(true)} /> The start
        </label>
      </fieldset>
      {!isStart && (
        <Field label="Position" hint="Resume after this position (exclusive).">
          <input type="text" value={target} spellcheck={false} onInput={(event) => setTarget(event.currentTarget.value)} />
        </Field>
      )}
      {!isStart && places.length > 0 && (
        <Field label="Or its position at a time">
          <select value="" onChange={(event) => event.currentTarget.value && setTarget(event.currentTarget.value)}>
            <option value="">Choose a time</option>
            {places.map((each) => (
              <option key={each.taken_at} value={each.position!}>
                {when(each.taken_at).absolute} ({each.position})
              </option>
            ))}
          </select>
        </Field>
      )}
      <Field label="Reason" hint="Stored in the history.">
        <input type="text" value={reason} maxLength={2000} required onInput={(event) => setReason(event.currentTarget.value)} />
      </Field>
    </div>
  );
  return (
    <PlannedAction<Moving>
      title={`Seek ${cursor.name}`}
      onClose={onClose}
      form={form}
      path="/api/cursors/seek"
      body={() => ({ name: cursor.name, position: isStart ? null : target, reason, seen: cursor.version })}
      describe={(plan) => <Plan plan={plan} cursor={cursor} />}
      refuse={() => (reason.trim() === "" ? "Give a reason first" : null)}
      confirmWord={cursor.name}
      confirmLabel={(plan) => `Move to ${position(plan.move.to_position)}`}
      success={(done) => `${cursor.name} is at ${position(done.move.to_position)}, epoch ${done.move.epoch}.`}
      undo={undoOf(cursor.name)}
      onDone={onDone}
    />
  );
}

export function UndoDialog({ cursor, onClose, onDone }: Props) {
  return (
    <PlannedAction<Moving>
      title={`Undo the last seek of ${cursor.name}`}
      onClose={onClose}
      path="/api/cursors/undo"
      body={() => ({ name: cursor.name, reason: "", seen: cursor.version })}
      describe={(plan) => <Plan plan={plan} cursor={cursor} />}
      confirmLabel={(plan) => `Move back to ${position(plan.move.to_position)}`}
      success={(done) => `${cursor.name} is back at ${position(done.move.to_position)}, epoch ${done.move.epoch}.`}
      onDone={onDone}
    />
  );
}

/** Undoes this move, not one that was made since. */
function undoOf(name: string) {
  const body = async ({ move }: Moving): Promise<object> => {
    const now = await get<CursorDetail>("/api/cursors/show", { name });
    const last = now.undoable;
    if (last === null || last.from_position !== move.from_position || last.to_position !== move.to_position) {
      throw new ApiError(409, "CONFLICT", `the cursor ${name} was moved again since`, { fix: "look at its history, then decide" });
    }
    return { name, reason: "", seen: now.version };
  };
  return { path: "/api/cursors/undo", body, success: `${name} is back where it was` };
}

function Plan({ plan, cursor }: { plan: Moving; cursor: CursorDetail }) {
  const move = plan.move;
  const isSame = move.from_position === move.to_position;
  return (
    <div class="seek-plan">
      <Facts
        items={[
          ["From", <Code>{position(move.from_position)}</Code>],
          ["To", <Code>{position(move.to_position)}</Code>],
          ["Repeated", <Tally number={move.repeated} text="will be processed a second time" />],
          ["Skipped", <Tally number={move.skipped} text="will never be processed" isLoss />],
          ["Discarded", <Tally number={move.discarded} text="parked here, and read again instead" unknown="unknown: parked messages stay" />],
          ["Restored", <Tally number={move.restored} text="parked before the seek, and back" />],
          ["Interrupts", move.interrupts === null ? "no worker" : <Code>{shortWorker(move.interrupts)}</Code>],
        ]}
      />
      {isSame && <Notice kind="info">The cursor is already there. Its current holder is interrupted all the same.</Notice>}
      {!cursor.can_count && move.repeated === null && (
        <Notice kind="info">
          To have it counted, pass the app that reads this cursor to the console: <Code>onceward up --app module:name</Code>
        </Notice>
      )}
      {plan.sample !== undefined && plan.sample.length > 0 && (
        <>
          <h3>Some of what will be repeated</h3>
          <ul class="seek-sample">
            {plan.sample.map((each, index) => (
              <li key={index}>
                <Code>{typeof each === "string" ? each : JSON.stringify(each)}</Code>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

interface TallyProps {
  number: number | null;
  text: string;
  unknown?: string;
  isLoss?: boolean;
}

function Tally({ number, text, unknown = UNKNOWN, isLoss = false }: TallyProps) {
  if (number === null) return <span class="hint">{unknown}</span>;
  if (number === 0) return <span>none</span>;
  return (
    <span class={isLoss ? "loss" : undefined} title={exact(number)}>
      <strong>{count(number)}</strong> {number === 1 ? "message" : "messages"} {text}
    </span>
  );
}

/** Where it was, the newest first, spread over the time that was measured. */
function earlier(samples: Sample[], now: string | null): Sample[] {
  const distinct = samples.filter(
    (each, index) => each.position !== null && each.position !== now && each.position !== samples[index - 1]?.position,
  );
  const step = Math.max(1, Math.ceil(distinct.length / PLACES_MAX));
  return distinct.reverse().filter((_, index) => index % step === 0);
}
