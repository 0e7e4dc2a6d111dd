// Drop: gives a message up for good, with a reason; its letter stays to be read.

import { useState } from "preact/hooks";
import { PlannedAction } from "../../ui/action";
import { Field, Notice } from "../../ui/bits";
import { placeOf, type LetterDetail } from "./models";

export function DropDialog({ letter, onClose }: { letter: LetterDetail; onClose: () => void }) {
  const [reason, setReason] = useState("");
  return (
    <PlannedAction
      title={`Drop dead letter ${letter.id}`}
      onClose={onClose}
      kind="danger"
      form={
        <Field label="Reason" hint="Stored with the letter">
          <input type="text" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
        </Field>
      }
      path="/api/dead/drop"
      // A dry run wants a reason, too; the one that counts is what stands in the field.
      body={() => ({ id: letter.id, reason: reason.trim() || "–", seen: letter.version })}
      describe={() => (
        <Notice kind="warn">
          <code>{letter.cursor}</code>, {placeOf(letter)}: dropped and not retried. The letter stays
          readable.
        </Notice>
      )}
      refuse={() => (reason.trim() === "" ? "give a reason first" : null)}
      confirmLabel={() => "Drop it for good"}
      success={() => `Dead letter ${letter.id} dropped`}
    />
  );
}
