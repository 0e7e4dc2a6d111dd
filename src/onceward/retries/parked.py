"""Parked messages: hold failed messages for a retry while their cursor moves on, in key order.

For `order="key"` and `order="none"`. The first parked message of a key is its head; only heads
become due. Every change is part of the caller's transaction, together with the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from onceward.errors import InvalidArgument, Superseded
from onceward.retries.dead_letter_writes import lock_retries, message_params, write_dead_letter
from onceward.retries.models import (
    FAILURES_MAX,
    Attempt,
    Dead,
    Failure,
    Later,
    Order,
    Parked,
    ParkedSummary,
    RetryMessage,
    failed_attempts,
    failures_text,
    to_utc,
)
from onceward.retries.retry_schedule import MESSAGES, Schedule
from onceward.stores import Row, Store, Transaction
from onceward.system import Randomness, timestamp
from onceward.system.crash_points import crash_point


class ParkedMessages:
    """The parked messages of a store."""

    def __init__(self, store: Store, randomness: Randomness) -> None:
        """Use this store."""
        self._store = store
        self._randomness = randomness

    def blocked_keys(self, cursor: str, keys: Iterable[str]) -> frozenset[str]:
        """Return those of these keys that are blocked by a parked message."""
        wanted = orjson.dumps(sorted(set(keys))).decode()
        rows = self._store.read("parked_blocked", cursor=cursor, keys=wanted)
        return frozenset(row[0] for row in rows)

    def park(  # noqa: PLR0913 - all by name
        self,
        tx: Transaction,
        message: RetryMessage,
        *,
        failure: Failure | None = None,
        order: Order = "key",
        schedule: Schedule = MESSAGES,
        known: Attempt | None = None,
    ) -> Later | Dead:
        """Park a message, in the transaction that moves the checkpoint past it.

        With a failure it waits for its retry; without one it is blocked by its key.
        `known` are its failed attempts while it blocked its cursor. Parking the same position again
        changes nothing. A message without a key blocks only itself.
        """
        sequence = lock_retries(tx, message.cursor)
        attempt = (known.attempt if known else 0) + bool(failure)
        seconds = schedule.delay(attempt, self._randomness) if failure else 0.0
        is_alone = order == "none" or message.key is None
        earlier = known.failures if known else ()
        first = known.first_failed_at if known else None
        if failure is not None and seconds is None:
            letter = write_dead_letter(
                tx,
                message,
                failure,
                sequence=sequence,
                is_alone=is_alone,
                attempt=attempt,
                earlier=earlier,
                first_failed_at=first,
            )
            return Dead(letter=letter)
        assert seconds is not None
        tx.query(
            "parked_insert",
            **message_params(message, sequence=sequence, is_alone=is_alone),
            attempt=attempt,
            delay=seconds if failure else None,
            error=failure.summary if failure else None,
            earlier=failures_text(earlier[1 - FAILURES_MAX :]),
            kept=FAILURES_MAX,
            first_failed_at=timestamp(first) if first else None,
        )
        crash_point("retries.park.after_insert")
        return Later(attempt=attempt, seconds=seconds)

    def due_heads(self, cursor: str, limit: int = 100) -> list[Parked]:
        """Return the messages to try now, in the order of parking: the head of each key, if due.

        A head is due right after its due time, not at that exact time.
        """
        if limit < 1:
            message = f"limit: must be at least 1, not {limit}"
            raise InvalidArgument(message, fix="pass 1 or more, or leave it out", field="limit")
        rows = self._store.read("parked_due", cursor=cursor, limit=limit)
        return [_parked(cursor, row) for row in rows]

    def waiting(self, cursor: str) -> ParkedSummary:
        """Return the numbers of parked messages and keys, and when the next retry is due."""
        ((messages, keys, seconds),) = self._store.read("parked_waiting", cursor=cursor)
        return ParkedSummary(messages=messages, keys=keys, next_seconds=seconds)

    def count(self, cursor: str) -> int:
        """Return the number of parked messages; triggers count them, so this is always cheap."""
        rows = self._store.read("parked_number", cursor=cursor)
        return int(rows[0][0]) if rows else 0

    def next_seconds(self, cursor: str) -> float | None:
        """Return the seconds until the next message is due; None when nothing is parked."""
        ((seconds,),) = self._store.read("parked_next", cursor=cursor)
        return None if seconds is None else float(seconds)

    def due_cursors(self) -> list[str]:
        """Return the cursors that have a message to try now."""
        return [row[0] for row in self._store.read("parked_due_cursors")]

    def succeed(self, tx: Transaction, parked: Parked) -> None:
        """Remove a head that succeeded; the next message of its key becomes due now.

        Raises Superseded, which rolls back the caller's transaction, when another transaction
        changed it since it was read.
        """
        lock_retries(tx, parked.message.cursor)
        _remove(tx, parked)
        crash_point("retries.succeed.after_remove")
        promote(tx, parked.message.cursor, parked.message.key)

    def fail(
        self,
        tx: Transaction,
        parked: Parked,
        failure: Failure,
        *,
        schedule: Schedule = MESSAGES,
    ) -> Later | Dead:
        """Reschedule a head, or after its last attempt make it a dead letter and unblock its key.

        Raises Superseded when another transaction changed it since it was read.
        """
        message = parked.message
        lock_retries(tx, message.cursor)
        attempt = parked.attempt + 1
        seconds = schedule.delay(attempt, self._randomness)
        if seconds is not None:
            changed = tx.query(
                "parked_reschedule",
                id=parked.id,
                attempt=attempt,
                delay=seconds,
                error=failure.summary,
                kept=FAILURES_MAX,
            )
            if not changed:
                raise _superseded(parked)
            crash_point("retries.fail.after_reschedule")
            return Later(attempt=attempt, seconds=seconds)
        sequence = _remove(tx, parked)
        promote(tx, message.cursor, message.key)
        crash_point("retries.fail.before_dead")
        letter = write_dead_letter(
            tx,
            message,
            failure,
            sequence=sequence,
            is_alone=parked.order == "none",
            attempt=attempt,
            earlier=parked.failures,
            first_failed_at=parked.first_failed_at,
        )
        return Dead(letter=letter)


def promote(tx: Transaction, cursor: str, key: str | None) -> None:
    """Make the earliest parked message of a key its head, if it has one."""
    if key is not None:
        tx.query("parked_promote", cursor=cursor, key=key)


def _remove(tx: Transaction, parked: Parked) -> int:
    """Remove a parked message and return its sequence number, which may have changed since."""
    rows = tx.query("parked_remove", id=parked.id, attempt=parked.attempt)
    if not rows:
        raise _superseded(parked)
    return int(rows[0][0])


def _superseded(parked: Parked) -> Superseded:
    cursor, position = parked.message.cursor, parked.message.position
    message = (
        f"the parked message at {position:.60} of {cursor} was changed by another transaction; "
        "nothing was written"
    )
    return Superseded(message, cursor=cursor, position=position)


def _parked(cursor: str, row: Row) -> Parked:
    id_, position, sequence, key, alone, raw, attempt, due_at, failures, first, parked_at = row
    return Parked(
        id=id_,
        message=RetryMessage(cursor=cursor, position=position, raw=raw, key=key),
        sequence=sequence,
        attempt=attempt,
        order="none" if alone else "key",
        due_at=to_utc(due_at) if due_at is not None else None,
        failures=failed_attempts(failures),
        first_failed_at=to_utc(first) if first is not None else None,
        parked_at=to_utc(parked_at),
    )
