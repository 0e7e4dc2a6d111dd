"""Retries: everything of a store that failed and waits, in one place."""

from __future__ import annotations

from collections.abc import Callable

from onceward.crash import crash_point
from onceward.retries.attempts import Attempts
from onceward.retries.dead import DeadLetters, turn
from onceward.retries.parked import ParkedMessages, promote
from onceward.seams import Randomness, SystemRandomness
from onceward.stores import Store, Transaction


class Retries:
    """What failed, by what happens next: held, parked, or given up."""

    def __init__(self, store: Store, *, randomness: Randomness | None = None) -> None:
        """Keep it in this store; chance decides only where a schedule has jitter."""
        source = randomness or SystemRandomness()
        #: Failing messages that hold their cursor.
        self.attempts = Attempts(store, source)
        #: Messages that were set aside.
        self.parked = ParkedMessages(store, source)
        #: Messages that were given up.
        self.dead = DeadLetters(store)

    def forget_from(
        self, tx: Transaction, cursor: str, at_or_after: Callable[[str], bool] | int
    ) -> int:
        """Forget what waits at or after the place that a cursor is moved back to, and how much.

        The source will give those messages again. Positions are opaque here: pass a function that
        compares them, or, where the source cannot, the number of a parked message: it and all that
        failed first after it are forgotten. Dead letters stay.
        """
        turn(tx, cursor)

        def is_meant(position: str, sequence: int) -> bool:
            return (
                sequence >= at_or_after if isinstance(at_or_after, int) else at_or_after(position)
            )

        parked = [row for row in tx.query("parked_list", cursor=cursor) if is_meant(row[0], row[1])]
        held = [row for row in tx.query("attempt_list", cursor=cursor) if is_meant(row[0], row[1])]
        for _, _, id_, _, _ in parked:
            tx.query("parked_delete", id=id_)
        crash_point("retries.forget.after_remove")
        for key in sorted({key for _, _, _, key, is_alone in parked if not is_alone}):
            promote(tx, cursor, key)
        for position, _ in held:
            tx.query("attempt_forget", cursor=cursor, position=position)
        return len(parked) + len(held)
