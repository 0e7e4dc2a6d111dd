"""Held attempts: count and schedule the attempts of a failing message that blocks its cursor.

For `order="cursor"`. Attempts are stored by cursor and position, so the backoff survives restarts
of the worker.
"""

from __future__ import annotations

from onceward.retries.dead_letter_writes import lock_retries, write_dead_letter
from onceward.retries.models import (
    FAILURES_MAX,
    Attempt,
    Dead,
    Failure,
    Later,
    RetryMessage,
    failed_attempts,
    to_utc,
)
from onceward.retries.retry_schedule import MESSAGES, Schedule
from onceward.stores import Row, Store, Transaction
from onceward.system import Randomness
from onceward.system.crash_points import crash_point


class HeldAttempts:
    """The failed attempts of a store, by cursor and position."""

    def __init__(self, store: Store, randomness: Randomness) -> None:
        """Use this store."""
        self._store = store
        self._randomness = randomness

    def find(self, cursor: str, position: str) -> Attempt | None:
        """Return the failed attempts of a message; None if it never failed.

        Try it only once it is due: an earlier failure is not counted.
        """
        rows = self._store.read("attempt_read", cursor=cursor, position=position)
        return _attempt(rows[0]) if rows else None

    def positions(self, cursor: str) -> frozenset[str]:
        """Return the positions of failed messages that block their cursor."""
        return frozenset(row[0] for row in self._store.read("attempt_list", cursor=cursor))

    def fail(
        self,
        tx: Transaction,
        message: RetryMessage,
        failure: Failure,
        *,
        schedule: Schedule = MESSAGES,
    ) -> Later | Dead:
        """Count a failed attempt; after the last one the message is a dead letter.

        Call it in a transaction that guards the lease, after the handler's own was rolled back.
        When the answer is Dead, move the checkpoint past the message in the same transaction.
        """
        sequence = lock_retries(tx, message.cursor)
        place = {"cursor": message.cursor, "position": message.position}
        rows = tx.query("attempt_read", **place)
        known = _attempt(rows[0]) if rows else None
        if known is not None and not known.is_due:
            # Tried before its due time: the schedule is unchanged.
            return Later(attempt=known.attempt, seconds=known.wait_seconds)
        attempt = known.attempt + 1 if known else 1
        seconds = schedule.delay(attempt, self._randomness)
        if seconds is None:
            tx.query("attempt_forget", **place)
            crash_point("retries.attempt.before_dead")
            letter = write_dead_letter(
                tx,
                message,
                failure,
                sequence=sequence,
                attempt=attempt,
                earlier=known.failures if known else (),
                first_failed_at=known.first_failed_at if known else None,
            )
            return Dead(letter=letter)
        tx.query(
            "attempt_write",
            **place,
            sequence=sequence,
            attempt=attempt,
            delay=seconds,
            error=failure.summary,
            kept=FAILURES_MAX,
        )
        crash_point("retries.attempt.after_write")
        return Later(attempt=attempt, seconds=seconds)

    def succeed(self, tx: Transaction, cursor: str, position: str) -> None:
        """Delete the attempts of a message that succeeded."""
        place = {"cursor": cursor, "position": position}
        if tx.query("attempt_read", **place):
            lock_retries(tx, cursor)
            tx.query("attempt_forget", **place)


def _attempt(row: Row) -> Attempt:
    _, attempt, wait_seconds, due_at, failures, first_failed_at = row
    return Attempt(
        attempt=attempt,
        wait_seconds=wait_seconds,
        due_at=to_utc(due_at),
        failures=failed_attempts(failures),
        first_failed_at=to_utc(first_failed_at),
    )
