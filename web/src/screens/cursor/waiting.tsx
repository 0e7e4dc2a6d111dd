// Waiting: what holds a cursor up, what was set aside beside it, and what was given up.

import { Link } from "../../core/router";
import { Ago, Facts, Num } from "../../ui/bits";
import type { Attempt, CursorDetail } from "./types";

export function WaitingPanel({ cursor }: { cursor: CursorDetail }) {
  const attempts = [cursor.attempts].flat().filter((each): each is Attempt => each !== null);
  const dead = `/dead?${new URLSearchParams({ cursor: cursor.name })}`;
  return (
    <section class="card part" aria-labelledby="waiting">
      <h2 id="waiting">Failures</h2>
      <Facts
        items={[
          ["Blocked by", attempts.length === 0 ? "nothing" : attempts.map((each) => <Trying key={each.attempt} attempt={each} />)],
          ["Failures in a row", <Num value={cursor.error_count} />],
          ["Parked messages", <Num value={cursor.parked} />],
          ["Dead letters", cursor.dead === 0 ? "none" : <Link href={dead}><Num value={cursor.dead} /> to decide about</Link>],
          ["Processed in total", <Num value={cursor.processed_count} />],
          ["Last processed", cursor.last_processed_at === null ? "never" : <Ago at={cursor.last_processed_at} />],
        ]}
      />
    </section>
  );
}

function Trying({ attempt }: { attempt: Attempt }) {
  return (
    <span class="trying">
      a message that failed {attempt.attempt} × ({attempt.error}); next try{" "}
      {attempt.due_at === null ? "now" : <Ago at={attempt.due_at} />}
    </span>
  );
}
