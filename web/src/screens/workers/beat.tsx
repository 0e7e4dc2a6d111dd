// Beat: how much of a lease is used up since its last renewal.

import { duration } from "../../core/format";

const LATE = 0.5;

export function Beat({ seconds, lease }: { seconds: number; lease: number | null }) {
  const used = lease === null ? (seconds > 0 ? null : 1) : Math.min(1, Math.max(0, 1 - seconds / lease));
  const kind = seconds <= 0 ? "bad" : used !== null && used >= LATE ? "warn" : "ok";
  return (
    <span class={`beat beat-${kind}`}>
      {used !== null && (
        <span class="beat-bar" aria-hidden="true">
          <span style={{ width: `${Math.round(used * 100)}%` }} />
        </span>
      )}
      <span class="beat-text">{beatText(seconds, kind)}</span>
    </span>
  );
}

function beatText(seconds: number, kind: "ok" | "warn" | "bad"): string {
  if (kind === "bad") return `expired ${duration(-seconds)} ago`;
  return kind === "warn" ? `not renewed, ${duration(seconds)} left` : `${duration(seconds)} left`;
}
