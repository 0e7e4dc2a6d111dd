"""Retries: held attempts, parked messages and dead letters of a store."""

from __future__ import annotations

from onceward.retries.dead_letter_writes import lock_retries
from onceward.retries.dead_letters import DeadLetters
from onceward.retries.discarded import CountBetween, CursorMove, MovePlan, plan_move
from onceward.retries.held_attempts import HeldAttempts
from onceward.retries.parked import ParkedMessages
from onceward.stores import Store, Transaction
from onceward.system import Randomness, SystemRandomness


class Retries:
    """The failed messages of a store: held, parked, or dead letters."""

    def __init__(self, store: Store, *, randomness: Randomness | None = None) -> None:
        """Use this store; the randomness is for schedules with jitter."""
        source = randomness or SystemRandomness()
        self._store = store
        #: Attempts of failed messages that block their cursor.
        self.attempts = HeldAttempts(store, source)
        #: Parked messages.
        self.parked = ParkedMessages(store, source)
        #: The dead-letter queue.
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
    ) -> MovePlan:
        """Plan how a move of a cursor changes its parked messages and attempts.

        With the transaction that moves it, they are locked until its end, so that the plan can be
        applied. `seek` is the last one that was not undone before: an undo undoes it.
        """
        move = CursorMove(
            cursor=cursor,
            from_position=from_position,
            to_position=to_position,
            count=count,
            seek=seek,
            is_undo=is_undo,
        )
        if tx is None:
            return plan_move(self._store.read, move)
        lock_retries(tx, cursor, is_worker=False)
        return plan_move(tx.query, move)
