// Pausing: the button that stops a cursor and lets it go on, in a row and on its own page.

import { useRef } from "preact/hooks";
import type { Schemas } from "../../api/types";
import { ActionButton, useAction } from "../../ui/action";
import type { CursorItem } from "./types";

/** The second press of a double click must not take back what the first has done. */
const REST_MS = 600;

export function PauseButton({ cursor, onDone }: { cursor: CursorItem; onDone?: () => void }) {
  const name = cursor.name;
  const [verb, back] = cursor.is_paused ? ["resume", "pause"] : ["pause", "resume"];
  const restsUntil = useRef(0);
  const press = () => {
    if (performance.now() >= restsUntil.current) void action.run();
  };
  const action = useAction<Schemas["CursorChange"]>({
    path: `/api/cursors/${verb}`,
    body: () => ({ name, reason: "", seen: cursor.version }),
    success: () => (verb === "pause" ? `${name} is paused; what runs may finish.` : `${name} may go on.`),
    undo: { path: `/api/cursors/${back}`, body: (done) => ({ name, reason: `undo of ${verb}`, seen: done.cursor.version }) },
    onDone: () => {
      restsUntil.current = performance.now() + REST_MS;
      onDone?.();
    },
  });
  const label = verb === "pause" ? "Pause" : "Resume";
  return <ActionButton label={label} name={`${label}, ${name}`} isBusy={action.isBusy} onClick={press} />;
}
