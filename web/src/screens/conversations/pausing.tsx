// Pausing: the button that lets a group rest and go on again.

import { ActionButton, useAction } from "../../ui/action";

export function PauseButton({ group, isPaused }: { group: string; isPaused: boolean }) {
  const [verb, back] = isPaused ? ["resume", "pause"] : ["pause", "resume"];
  const action = useAction<object>({
    path: `/api/dispatch/${verb}`,
    body: () => ({ group, seen: isPaused ? "paused" : "open" }),
    success: () => (isPaused ? `${group} goes on.` : `${group} is paused: messages come in and wait.`),
    undo: { path: `/api/dispatch/${back}`, body: { group } },
  });
  const label = isPaused ? "Resume" : "Pause";
  return <ActionButton label={label} name={`${label}, ${group}`} isBusy={action.isBusy} onClick={() => void action.run()} />;
}
