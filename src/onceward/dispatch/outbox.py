"""Outbox: what agents say, kept before it is sent, sent in order, shown once.

A channel whose replies are read from the store shows a saying by its being there: keeping and
sending are one transaction. Every other channel is told, and what a crash leaves in between is sent
again only if the channel takes keys; else nobody knows, and that is what is noted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from onceward.crash import crash_point
from onceward.cursors import DualCursor
from onceward.cursors.dual_models import Arrival
from onceward.dispatch.models import DUAL, TEXT_BYTES_MAX, Delivery, Saying, SayingState
from onceward.errors import InvalidArgument, Superseded
from onceward.retries.schedule import DISPATCH, Schedule
from onceward.seams import Randomness, SystemRandomness
from onceward.stores import Store, Transaction

ERROR_CHARACTERS_MAX: Final = 2_000


class Outbox:
    """What is on its way out, in one store."""

    def __init__(
        self,
        store: Store,
        *,
        schedule: Schedule = DISPATCH,
        randomness: Randomness | None = None,
    ) -> None:
        """Use this store, and try again as the schedule says."""
        self._store = store
        self._schedule = schedule
        self._randomness = randomness or SystemRandomness()
        self._dual = DualCursor(store, DUAL)

    def say(  # noqa: PLR0913 - all but what is said by name
        self,
        delivery: Delivery,
        text: str,
        *,
        key: str,
        is_stored: bool,
        is_over: bool = False,
        upto: int | None = None,
    ) -> bool:
        """Keep what an agent says; False when it said this before, under the same key.

        `upto`: how far it had looked at what it was handed; without, all of it. `is_stored`: its
        channel shows what the store holds, so it is sent with this. `is_over`: the agent said it
        after it was done. Superseded when others ended the delivery: whoever says this was
        replaced.
        """
        body = text.encode(errors="replace")
        if len(body) > TEXT_BYTES_MAX:
            message = f"a saying has {len(body)} bytes, more than {TEXT_BYTES_MAX}"
            raise InvalidArgument(message, fix="say it in parts, or put it into a file")
        batch = delivery.batch
        reached = batch.position if upto is None else max(batch.previous, min(upto, batch.position))
        position = Arrival(reached)
        with self._store.transaction() as tx:
            # The counter first and the group's turn second, as everybody takes them.
            seq = self._dual.next_sequence(tx) if is_stored else None
            if not is_over:
                self._dual.check(batch)
            tx.query("dispatch_outbox_forget", key=key, group=delivery.group)
            added = tx.query(
                "dispatch_outbox_add",
                key=key,
                group=delivery.group,
                number=batch.number,
                position=position,
                body=body,
                state=str(SayingState.SENT if is_stored else SayingState.PENDING),
                seq=seq,
            )
            if added and is_stored and not is_over:
                # What was said before under this key shows nothing new.
                self._dual.output_sent(replace(batch, position=position))
            crash_point("dispatch.said.before_commit")
        crash_point("dispatch.said.after_commit")
        return bool(added)

    def open(self) -> list[Saying]:
        """Return what is to be sent next: of each group the first, for the others wait behind."""
        return [_saying(row) for row in self._store.read("dispatch_outbox_open")]

    def of(self, group: str, number: int) -> list[Saying]:
        """Return what was said in answer to one delivery."""
        rows = self._store.read("dispatch_outbox_of", group=group, number=number)
        return [_saying(row) for row in rows]

    def sending(self, saying: Saying) -> bool:
        """Mark that it goes out now; False when it was taken back before."""
        with self._store.transaction() as tx:
            # The group's turn first: whoever decides about a failure has it, and we wait.
            batch = next((b for b in self._dual.in_flight() if b.group == saying.group), None)
            if batch is not None and batch.number == saying.number:
                # As far as the agent had been handed messages when it said this.
                # It may be over by now: then the state of the saying tells how that ended.
                with suppress(Superseded):
                    self._dual.output_sent(replace(batch, position=Arrival(saying.position)))
            # Whoever read it before somebody else sent it is too late.
            if not tx.query("dispatch_outbox_sending", **_named(saying)):
                return False
        crash_point("dispatch.send.after_mark")
        return True

    def sent(self, saying: Saying) -> None:
        """Note that the channel has it."""
        with self._store.transaction() as tx:
            seq = self._dual.next_sequence(tx)
            tx.query("dispatch_outbox_sent", id=saying.id, seq=seq)

    def refused(self, saying: Saying, error: str) -> None:
        """Note that the channel will never take it; an earlier try may still have been seen."""
        is_doubtful = saying.is_doubtful
        self._settle(saying, SayingState.MAYBE_SENT if is_doubtful else SayingState.FAILED, error)

    def doubtful(self, saying: Saying, error: str) -> None:
        """Note that nobody knows whether the channel has it."""
        self._settle(saying, SayingState.MAYBE_SENT, error)

    def later(self, saying: Saying, error: str, *, is_unseen: bool) -> None:
        """Let it wait for its next try; when there is none it is given up.

        `is_unseen`: the channel says that nobody can have seen it. Whoever marked it since then
        decides instead, as with every end but a good one.
        """
        is_unseen = is_unseen and not saying.is_doubtful
        seconds = self._schedule.delay(saying.attempts, self._randomness)
        if seconds is None:
            (self.refused if is_unseen else self.doubtful)(saying, error)
            return
        state = SayingState.PENDING if is_unseen else SayingState.SENDING
        told = {"error": _cut(error), "seconds": seconds, "state": str(state), **_named(saying)}
        with self._store.transaction() as tx, self._taking_back(tx, saying, is_wanted=is_unseen):
            tx.query("dispatch_outbox_later", **told)

    def _settle(self, saying: Saying, state: SayingState, error: str) -> None:
        is_unseen = state is SayingState.FAILED
        with self._store.transaction() as tx, self._taking_back(tx, saying, is_wanted=is_unseen):
            # People may have seen it, so it has a place in the conversation, marked as uncertain.
            seq = None if is_unseen else self._dual.next_sequence(tx)
            told = {"state": str(state), "error": _cut(error), "seq": seq, **_named(saying)}
            tx.query("dispatch_outbox_doubt", **told)

    @contextmanager
    def _taking_back(self, tx: Transaction, saying: Saying, *, is_wanted: bool) -> Iterator[None]:
        """Let a delivery not count as seen any more because of a saying that nobody saw."""
        flying = self._dual.in_flight() if is_wanted else []
        batch = next((each for each in flying if each.group == saying.group), None)
        if batch is None or batch.number != saying.number:
            yield
            return
        with suppress(Superseded):  # Over by now, and decided.
            self._dual.check(batch)
        yield
        place = {"group": saying.group, "number": saying.number}
        ((seen,),) = tx.query("dispatch_outbox_seen", **place)
        with suppress(Superseded):
            self._dual.output_unsent(batch, seen)


def _named(saying: Saying) -> dict[str, int]:
    """Return what tells this try to send it from later ones."""
    return {"id": saying.id, "attempts": saying.attempts}


def _cut(error: str) -> str:
    return error.replace("\0", "�")[:ERROR_CHARACTERS_MAX]


def _saying(row: tuple[Any, ...]) -> Saying:
    id_, key, group, number, position, body, state, attempts, wait = row
    return Saying(
        id=id_,
        key=key,
        group=group,
        number=number,
        position=position,
        text=bytes(body).decode(),
        state=SayingState(state),
        attempts=attempts,
        wait_seconds=float(wait),
    )
