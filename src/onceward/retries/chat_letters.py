"""Chat letters: dead letters of chat messages, written and redriven in the caller's transaction.

A chat letter names the messages of a group, which stay in the conversation. A redrive gives them
new arrival numbers, so that the group's agent gets them after all later messages. The SQL of the
letters is in `stores/queries/retries.sql`, that of the messages in `dispatch.sql` and `dual.sql`.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceward.retries.dead_letter_writes import write_dead_letter
from onceward.retries.models import (
    CHAT_CURSOR,
    ChatRange,
    FailedAttempt,
    Failure,
    LetterId,
    RetryMessage,
    chat_cursor,
)
from onceward.stores import Transaction
from onceward.system.crash_points import crash_point

#: The error type of every chat letter; its message is what the agent or dispatcher reported.
AGENT_FAILED = "AgentFailed"


def write_chat_letter(
    tx: Transaction,
    chat: ChatRange,
    error: str,
    *,
    attempt: int,
    earlier: Sequence[FailedAttempt] = (),
) -> LetterId:
    """Write the dead letter of chat messages that are not delivered again automatically.

    Call it in the transaction that marks the delivery as dead. `earlier` are the attempts that
    failed before the last one, oldest first.
    """
    message = RetryMessage(cursor=chat_cursor(chat.group), position=str(chat.first_seq), raw=b"")
    letter = write_dead_letter(
        tx,
        message,
        Failure(type=AGENT_FAILED, message=error),
        sequence=chat.first_seq,
        attempt=attempt,
        earlier=tuple(earlier),
        first_failed_at=earlier[0].at if earlier else None,
        chat=chat,
    )
    crash_point("dispatch.fail.after_letter")
    return letter


def lock_arrivals(tx: Transaction) -> None:
    """Lock the arrival counter of chat, which comes before all other locks of a chat redrive.

    An arriving message also takes the counter first, so the two transactions cannot deadlock.
    """
    tx.query("dual_sequence_lock", dual=CHAT_CURSOR)


def requeue_chat(tx: Transaction, group: str, first: int, last: int) -> None:
    """Make the messages of a chat letter pending again, in their order, and trigger the agent."""
    drawn = 0
    for (seq,) in tx.query("dispatch_message_numbers", group=group, first=first, last=last):
        ((drawn,),) = tx.query("dual_sequence", dual=CHAT_CURSOR)
        tx.query("dual_arrived", dual=CHAT_CURSOR, group=group, position=drawn)
        tx.query("dispatch_message_renumber", group=group, old=seq, seq=drawn)
    if drawn:
        # The redrive triggers the agent, also in groups where not every message does.
        tx.query("dispatch_group_called", name=group, seq=drawn)
    crash_point("dispatch.redrive.before_commit")
