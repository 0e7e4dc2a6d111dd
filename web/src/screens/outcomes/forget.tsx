// Forget: erases an outcome, so that the next caller runs the work again, whatever happened before.

import { useState } from "preact/hooks";
import { PlannedAction } from "../../ui/action";
import { Field, Notice } from "../../ui/bits";
import type { OutcomeDetail } from "./models";

export function Forget({ found, onClose }: { found: OutcomeDetail; onClose: () => void }) {
  const [reason, setReason] = useState("");
  return (
    <PlannedAction
      title="Forget this outcome"
      onClose={onClose}
      form={
        <Field label="Reason" hint="Stored in the audit">
          <input type="text" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
        </Field>
      }
      path="/api/outcomes/forget"
      // A dry run wants a reason, too; the one that counts is what stands in the field.
      body={() => ({ scope: found.scope, key: found.key, reason: reason.trim() || "–", seen: found.version })}
      describe={() => (
        <Notice kind="warn">
          It is {found.state} now{found.has_result ? ", and its result is erased" : ""}. The next caller with this key
          runs the work again, whatever happened before.
        </Notice>
      )}
      refuse={() => (reason.trim() === "" ? "give a reason first" : null)}
      confirmWord="forget"
      confirmLabel={() => "Forget it"}
      success={() => `Forgotten: the next caller runs ${found.key}`}
    />
  );
}
