"""Lease: the right of one worker to move one cursor, until it runs out or somebody takes it.

Every statement names owner and epoch, so that a handle that is no longer the holder's changes
nothing, whatever its process believes. A handle that does not know its position stops by itself.
Knows neither sources nor handlers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from onceward.crash import crash_point
from onceward.cursors.models import (
    HEARTBEATS_PER_LEASE,
    Epoch,
    Renewal,
    check_position,
    state_of,
)
from onceward.cursors.refusals import Refusals, Tried
from onceward.errors import InvalidArgument, LeaseLost
from onceward.stores import Row, Store, Transaction
from onceward.stores.commit import is_unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceward.cursors.heartbeat import Heartbeat


class Lease:
    """A grant of one cursor to one worker; `Cursors.acquire` makes it."""

    def __init__(  # noqa: PLR0913 - all by name
        self,
        *,
        store: Store,
        heartbeat: Heartbeat,
        refusals: Refusals,
        name: str,
        worker: str,
        epoch: Epoch,
        position: str | None,
        lease_seconds: float,
    ) -> None:
        """Stand for what the store granted."""
        self._store = store
        self._heartbeat = heartbeat
        self._refusals = refusals
        #: Name of the cursor.
        self.name = name
        #: Who holds it.
        self.worker = worker
        #: Under which epoch; no other grant of this cursor has the same.
        self.epoch = epoch
        #: The last position that was processed, as far as this handle knows; None is the start.
        self.position = position
        #: How long it lasts from each renewal or checkpoint on.
        self.lease_seconds = lease_seconds
        #: Set once it is known that somebody else holds the cursor, or moved it, or that nobody
        #: knows whether our own last checkpoint did.
        self.lost = threading.Event()
        #: Whether the last renewal found the cursor paused: what runs may finish, no more.
        self.is_paused = False
        #: Set by `release`, whatever became of it.
        self.is_released = False
        self._current_epoch: int | None = None
        self._is_in_doubt = False
        #: What the database refuses if it refuses a transaction of ours.
        self._trying: Tried = "write"
        self._on_lost: list[Callable[[], None]] = []
        self._mutex = threading.Lock()

    def __repr__(self) -> str:
        return f"<Lease of {self.name!r} for {self.worker!r}, epoch {self.epoch}>"

    @property
    def heartbeat_seconds(self) -> float:
        """Return how often it should be renewed."""
        return self.lease_seconds / HEARTBEATS_PER_LEASE

    def renew(self) -> Renewal:
        """Extend it, in a commit of its own; LeaseLost when it is not ours any more."""
        self._check_doubt()
        rows = self._write("cursor_renew", "renew", seconds=self.lease_seconds)
        crash_point("cursor.renew.after_commit")
        self.is_paused = bool(rows[0][0])
        return Renewal.PAUSED if self.is_paused else Renewal.RENEWED

    def checkpoint(
        self,
        position: str,
        tx: Transaction | None = None,
        *,
        count: int = 1,
        failed: int | None = None,
    ) -> None:
        """Move the cursor, with everything else in `tx` or on its own; renews the lease.

        Inside `tx` it is the last statement: when the lease is lost, leaving the block raises
        LeaseLost and nothing of the transaction stays. `count` messages are counted as processed.
        The number of failures in a row becomes 0; with `failed` it rises by so many instead.

        OutcomeUnknown means that nobody knows where the cursor is. This handle is of no use then:
        acquire the cursor again, and look.
        """
        if count < 0:
            message = f"count: must not be negative, was {count}"
            raise InvalidArgument(message, fix="count the messages of the batch", field="count")
        if failed is not None and failed < 0:
            message = f"failed: must not be negative, was {failed}"
            raise InvalidArgument(message, fix="count the attempts that failed", field="failed")
        params: dict[str, object] = {
            "position": check_position(position),
            "count": count,
            "seconds": self.lease_seconds,
        }
        query = "cursor_checkpoint"
        if failed is not None:
            query, params["failed"] = "cursor_pass", failed
        if tx is None:
            self._checkpoint_alone(query, position, params)
            return
        self._check_doubt(tx)

        def moved() -> None:
            self.position = position

        def check(rows: list[Row]) -> Callable[[], None]:
            if not rows:
                lost = self._lost_to(self._store.read("cursor_show", name=self.name))
                self._note(lost, "checkpoint")
                raise lost
            return moved  # Only once it is durable: a handle that is ahead would skip a message.

        tx.query_last(query, check, **self.fence, **params)
        tx.on_unknown(self._doubt)
        self._trying = "checkpoint"
        tx.on_lost(self._refused)

    def _checkpoint_alone(self, query: str, position: str, params: dict[str, object]) -> None:
        self._check_doubt()
        try:
            self._write(query, "checkpoint", **params)
            self.position = position
        except BaseException as exc:
            if is_unknown(exc):
                self._doubt()
            raise
        crash_point("cursor.checkpoint.after_commit")

    def guard(self, tx: Transaction) -> None:
        """Let a transaction happen only while the lease is ours; nobody takes it before the end.

        On PostgreSQL from now on. On SQLite from the transaction's first write on, which takes
        the write lock: slow work before it blocks nobody.
        """
        self._check_doubt(tx)
        self.watch(tx)

        def check() -> None:
            try:
                if not tx.query("cursor_guard", **self.fence):
                    raise self._lost_to(tx.query("cursor_show", name=self.name))
            except LeaseLost as lost:
                self._note(lost, "guard")
                tx.doom()  # A handler that swallows this must not commit what it did.
                raise

        if self._store.engine == "sqlite" and not tx.is_writing:
            tx.on_first_write(check)
        check()

    def mark(self, tx: Transaction) -> None:
        """Watch a transaction, and let whoever takes the lease over end it in the database.

        On PostgreSQL a client that is frozen in it would keep its locks for ever. On SQLite nobody
        can take over before it ends.
        """
        self.watch(tx)
        if not tx.is_writing:
            self._trying = "write"
            tx.on_lost(self._refused)
            tx.query_first("cursor_mark", **self.fence)

    def watch(self, tx: Transaction) -> None:
        """Let the next write of a transaction raise LeaseLost once a heartbeat found it lost."""
        tx.before_every_write(self.check)

    def check(self) -> None:
        """Raise LeaseLost if the lease is known to be lost; asks nobody."""
        if self.lost.is_set():
            is_in_doubt = self._is_in_doubt
            raise LeaseLost(self.name, self.epoch, self._current_epoch, is_in_doubt=is_in_doubt)

    def hold(self, heartbeat_seconds: float | None = None) -> AbstractContextManager[None]:
        """Renew it in the background while the block runs, a third of the lease apart.

        A lost lease cancels the asyncio task that is inside the block, which then raises LeaseLost.
        """
        return self._heartbeat.hold(self, heartbeat_seconds or self.heartbeat_seconds)

    def fail(self, tx: Transaction | None = None) -> int:
        """Count a failure, once the handler's transaction is rolled back; return how many in a row.

        In a commit of its own, or with everything else in `tx`, which must guard the lease.
        """
        if tx is not None:
            ((count,),) = tx.query("cursor_fail", **self.fence)
            return int(count)
        self._check_doubt()
        return int(self._write("cursor_fail", "fail")[0][0])

    def release(self) -> None:
        """Give it back, so that others need not wait; this handle is of no use afterwards."""
        self.is_released = True
        self._heartbeat.drop(self)
        crash_point("cursor.release.before_commit")
        self._write("cursor_release", None)

    @contextmanager
    def when_lost(self, call: Callable[[], None]) -> Iterator[None]:
        """Call this, in any thread, if the loss is noticed while the block runs, or was before."""
        with self._mutex:
            self._on_lost.append(call)
            is_lost = self.lost.is_set()
        if is_lost:
            call()
        try:
            yield
        finally:
            with self._mutex:
                self._on_lost.remove(call)

    @property
    def fence(self) -> dict[str, Any]:
        """Return what every statement of the holder names."""
        return {"name": self.name, "worker": self.worker, "epoch": self.epoch}

    def _check_doubt(self, tx: Transaction | None = None) -> None:
        """Raise LeaseLost if nobody knows the position; of any other loss the store knows best."""
        if not self._is_in_doubt:
            return
        if tx is not None:
            tx.doom()  # A handler that swallows this must not commit what it did.
        self.check()

    def _write(self, query: str, tried: Tried | None, **params: object) -> list[Row]:
        """Run a statement in a commit of its own; one that finds no row is an error."""

        # Not `write_query`: PostgreSQL ends a client that is frozen between two statements of a
        # transaction, but not one that is frozen while it sends them all at once.
        def operation(tx: Transaction) -> tuple[list[Row], list[Row]]:
            rows = tx.query(query, **self.fence, **params)
            return rows, [] if rows else tx.query("cursor_show", name=self.name)

        try:
            rows, shown = self._store.write_apart(operation)
            if not rows:
                raise self._lost_to(shown)
        except LeaseLost as lost:
            self._note(lost, tried)
            raise
        return rows

    def _note(self, lost: LeaseLost, tried: Tried | None) -> None:
        """Remember that the store refused something, and record what; None is not worth a note."""
        self._note_loss(lost.current_epoch)
        # A heartbeat may meet its own release.
        if tried is not None and not (tried == "renew" and self.is_released):
            self._refusals.add(self.name, self.worker, self.epoch, tried)

    def _refused(self, lost: LeaseLost) -> None:
        """Take it from the database that a transaction of ours is too late."""
        if (lost.cursor, lost.held_epoch) == (self.name, self.epoch):
            self._note(lost, self._trying)

    def _lost_to(self, shown: list[Row]) -> LeaseLost:
        """Return the error for a statement that found no row; `shown` is the cursor as it is."""
        return LeaseLost(self.name, self.epoch, state_of(shown[0]).epoch if shown else None)

    def _doubt(self) -> None:
        """Stop: the last checkpoint may or may not be stored, so `position` may be behind."""
        self._is_in_doubt = True
        self._note_loss(self.epoch)

    def _note_loss(self, current_epoch: int | None) -> None:
        self._current_epoch = current_epoch
        with self._mutex:
            self.lost.set()
            calls = list(self._on_lost)
        self._heartbeat.drop(self)
        for call in calls:
            call()
