// Restoring: the way back from a deletion: what would come back, counted, and then it does.

import { useState } from "preact/hooks";
import type { Schemas } from "../../api/types";
import { ActionButton, PlannedAction } from "../../ui/action";

type Restored = Schemas["RestoreResult"];

export function RestoreButton({ name, change, what = "entity" }: { name: string; change?: number; what?: string }) {
  const [isOpen, setOpen] = useState(false);
  const label = `Restore ${what === "entity" ? name : `the ${what}`}`;
  return (
    <>
      <ActionButton label="Restore…" name={label} isHarmless onClick={() => setOpen(true)} />
      {isOpen && (
        <PlannedAction<Restored>
          title={label}
          onClose={() => setOpen(false)}
          path="/api/memory/restore"
          body={() => (change === undefined ? { name } : { change })}
          describe={(plan) =>
            total(plan) === 0 ? (
              <p>{plan.changes.length ? "It is there. What was taken from it is restored under History, change by change." : "Nothing would come back: it is all there already."}</p>
            ) : (
              <p>This brings back <strong>{counted(plan)}</strong>, as they were. What was written since stays.</p>
            )
          }
          refuse={(plan) => (total(plan) === 0 ? "Nothing would come back" : null)}
          confirmLabel={(plan) => (total(plan) === 0 ? "Restore" : `Restore ${counted(plan)}`)}
          success={(done) => (total(done) === 0 ? "It was all there already." : `Restored: ${counted(done)}.`)}
        />
      )}
    </>
  );
}

function total({ entities, observations, relations }: Restored): number {
  return entities + observations + relations;
}

function counted({ entities, observations, relations }: Restored): string {
  const parts = [
    [entities, entities === 1 ? "entity" : "entities"],
    [observations, observations === 1 ? "fact" : "facts"],
    [relations, relations === 1 ? "relation" : "relations"],
  ] as const;
  return parts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`).join(", ");
}
