"""Dead letter writes: write the dead letter of a failed message, and unblock the next of its key.

`write_dead_letter` inserts the letter; `choose_head` makes the oldest parked message of a key the
one to retry. All functions run in the caller's transaction.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from onceward.retries.models import (
    FAILURES_MAX,
    ChatRange,
    FailedAttempt,
    Failure,
    LetterId,
    RetryMessage,
    failures_text,
)
from onceward.stores import Transaction
from onceward.system import timestamp


def lock_retries(tx: Transaction, cursor: str, *, is_worker: bool = True) -> int:
    """Lock a cursor's retries until the transaction ends, and return the next sequence number.

    A worker also locks the cursor against moves. An operator does not, so that a long change does
    not block the worker.
    """
    ((sequence,),) = tx.query("retry_sequence_next", cursor=cursor, is_worker=is_worker)
    assert isinstance(sequence, int)
    return sequence


def choose_head(tx: Transaction, cursor: str, key: str) -> None:
    """Make the earliest parked message of a key its head, and no other."""
    tx.query("parked_demote", cursor=cursor, key=key)
    tx.query("parked_promote", cursor=cursor, key=key)


def message_params(message: RetryMessage, *, sequence: int, is_alone: bool) -> dict[str, Any]:
    """Return the query parameters that store a message."""
    return {
        "cursor": message.cursor,
        "position": message.position,
        "sequence": sequence,
        "key": message.key,
        "alone": is_alone,
        "raw": message.raw,
    }


def write_dead_letter(  # noqa: PLR0913 - the fields of a letter
    tx: Transaction,
    message: RetryMessage,
    failure: Failure,
    *,
    sequence: int,
    attempt: int,
    is_alone: bool = True,
    earlier: tuple[FailedAttempt, ...] = (),
    first_failed_at: datetime | None = None,
    chat: ChatRange | None = None,
) -> LetterId:
    """Write the dead letter of a message whose retries are exhausted, or reopen its letter."""
    ((letter,),) = tx.query(
        "dead_write",
        **message_params(message, sequence=sequence, is_alone=is_alone),
        error_type=failure.type,
        error_message=failure.message,
        error_trace=failure.trace,
        error=failure.summary,
        attempt=attempt,
        failures=failures_text(earlier),
        kept=FAILURES_MAX,
        first_failed_at=timestamp(first_failed_at) if first_failed_at else None,
        source="chat" if chat else "worker",
        group=chat.group if chat else None,
        first=chat.first_seq if chat else None,
        last=chat.last_seq if chat else None,
        delivery=chat.delivery if chat else None,
    )
    return LetterId(letter)
