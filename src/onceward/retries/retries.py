"""Retries: everything of a store that failed and waits, in one place."""

from __future__ import annotations

from onceward.retries.attempts import Attempts
from onceward.retries.dead import DeadLetters, turn
from onceward.retries.forgotten import CountBetween, Following, Shift, following
from onceward.retries.parked import ParkedMessages
from onceward.seams import Randomness, SystemRandomness
from onceward.stores import Store, Transaction


class Retries:
    """What failed, by what happens next: held, parked, or given up."""

    def __init__(self, store: Store, *, randomness: Randomness | None = None) -> None:
        """Keep it in this store; chance decides only where a schedule has jitter."""
        source = randomness or SystemRandomness()
        self._store = store
        #: Failing messages that hold their cursor.
        self.attempts = Attempts(store, source)
        #: Messages that were set aside.
        self.parked = ParkedMessages(store, source)
        #: Messages that were given up.
        self.dead = DeadLetters(store)

    def follow(  # noqa: PLR0913 - all by name
        self,
        tx: Transaction | None,
        *,
        cursor: str,
        from_position: str | None,
        to_position: str | None,
        count: CountBetween | None,
        seek: int | None,
        is_undo: bool,
    ) -> Following:
        """Think through what a move of a cursor means for what waits there.

        With the transaction that moves it, nobody changes what waits before its end, so that it can
        be applied. `seek` is the last one that was not undone before: an undo undoes it.
        """
        shift = Shift(
            cursor=cursor,
            from_position=from_position,
            to_position=to_position,
            count=count,
            seek=seek,
            is_undo=is_undo,
        )
        if tx is None:
            return following(self._store.read, shift)
        turn(tx, cursor, is_worker=False)
        return following(tx.query, shift)
