// Line: how far a group has come, drawn on one line: processed, in flight, read, arrived. The text says the same.

import type { Group } from "./models";

const WIDTH = 320;
const HEIGHT = 58;
const EDGE = 6;
const LINE = 28;
/** So many numbers before the first interesting one are shown. */
const LEAD_MIN = 4;

interface Mark {
  at: number;
  text: string;
  /** Above the line, so that two that are close stay readable. */
  isAbove: boolean;
}

export function PositionLine({ group }: { group: Group }) {
  const { processed, read, arrived, in_flight: flight } = group;
  if (arrived === 0) return <p class="hint">Nothing has arrived yet.</p>;
  // While a batch is in flight, `processed` already includes it, provisionally.
  const done = Math.min(flight ? flight.first_seq - 1 : processed, arrived);
  const from = Math.max(0, done - Math.max(LEAD_MIN, Math.ceil((arrived - done) / 2)));
  const x = (seq: number) => EDGE + ((Math.max(from, Math.min(seq, arrived)) - from) / Math.max(1, arrived - from)) * (WIDTH - 2 * EDGE);
  const summary = tell(group);
  return (
    <figure class="position">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={summary}>
        <line class="position-rest" x1={x(from)} y1={LINE} x2={x(arrived)} y2={LINE} />
        <line class="position-done" x1={x(from)} y1={LINE} x2={x(done)} y2={LINE} />
        {flight && <line class="position-flight" x1={x(flight.first_seq - 1)} y1={LINE} x2={x(flight.last_seq)} y2={LINE} />}
        {marks(done, read, arrived).map(({ at, text, isAbove }) => (
          <g key={text}>
            <line class="position-mark" x1={x(at)} y1={LINE - 8} x2={x(at)} y2={LINE + 8} />
            <text x={Math.min(Math.max(x(at), text.length * 3.4), WIDTH - text.length * 3.4)} y={isAbove ? 14 : 52} text-anchor="middle">{text}</text>
          </g>
        ))}
      </svg>
      <figcaption>{summary}</figcaption>
    </figure>
  );
}

/** What is at the same place is said at once. */
function marks(done: number, read: number, arrived: number): Mark[] {
  if (done === arrived) return [{ at: done, text: `processed, read, arrived ${arrived}`, isAbove: false }];
  const first = { at: done, text: done === read ? `processed, read ${done}` : `processed ${done}`, isAbove: false };
  const last = { at: arrived, text: read === arrived ? `read, arrived ${arrived}` : `arrived ${arrived}`, isAbove: true };
  const between = read !== done && read !== arrived ? [{ at: read, text: `read ${read}`, isAbove: false }] : [];
  return [first, ...between, last];
}

function tell({ processed, read, arrived, in_flight: flight, pending }: Group): string {
  const parts = [
    `Processed up to ${flight ? flight.first_seq - 1 : processed}`,
    flight && `in flight ${flight.first_seq === flight.last_seq ? flight.first_seq : `${flight.first_seq} to ${flight.last_seq}`}`,
    `read up to ${read}`,
    `last arrival ${arrived}`,
  ];
  return `${parts.filter(Boolean).join(", ")}; ${pending === 0 ? "nothing waits" : `${pending} ${pending === 1 ? "message waits" : "messages wait"}`}.`;
}
