"""Lease: one worker's right to move a cursor; SQL checks its fencing token (epoch) at each write.

It lasts until it expires or is taken over. Every statement names owner and epoch, so that stale
writes are rejected in the database. A lease whose position is ambiguous stops by itself.
Knows neither sources nor handlers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from onceward.cursors.fence_log import AttemptedWrite, FenceLog
from onceward.cursors.models import (
    HEARTBEATS_PER_LEASE,
    Epoch,
    Renewal,
    check_position,
    state_of,
)
from onceward.errors import InvalidArgument, LeaseLost
from onceward.stores import Row, Store, Transaction
from onceward.stores.commit import is_unknown
from onceward.system.crash_points import crash_point

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceward.cursors.heartbeat import LeaseHeartbeat


class Lease:
    """A grant of one cursor to one worker; `Cursors.acquire` makes it."""

    def __init__(  # noqa: PLR0913 - all by name
        self,
        *,
        store: Store,
        heartbeat: LeaseHeartbeat,
        fence_log: FenceLog,
        name: str,
        worker: str,
        epoch: Epoch,
        position: str | None,
        lease_seconds: float,
    ) -> None:
        """Describe a lease that the store granted."""
        self._store = store
        self._heartbeat = heartbeat
        self._fence_log = fence_log
        #: Name of the cursor.
        self.name = name
        #: The worker that holds it.
        self.worker = worker
        #: The fencing token; each grant of this cursor has a higher one.
        self.epoch = epoch
        #: The last position that this lease has checkpointed, or acquired; None is the start.
        self.position = position
        #: How long it lasts from each renewal or checkpoint.
        self.lease_seconds = lease_seconds
        #: Set once the cursor is known to be taken over or moved, or once it is unknown whether the
        #: last checkpoint of this lease was stored.
        self.lost = threading.Event()
        #: Whether the last renewal found the cursor paused: only the running batch may finish.
        self.is_paused = False
        #: Set by `release`, even if that fails.
        self.is_released = False
        self._current_epoch: int | None = None
        self._is_ambiguous = False
        #: What to record if the database rejects a transaction of this lease.
        self._attempted: AttemptedWrite = "write"
        self._loss_callbacks: list[Callable[[], None]] = []
        self._mutex = threading.Lock()

    def __repr__(self) -> str:
        return f"<Lease of {self.name!r} for {self.worker!r}, epoch {self.epoch}>"

    @property
    def heartbeat_seconds(self) -> float:
        """Return how often it should be renewed."""
        return self.lease_seconds / HEARTBEATS_PER_LEASE

    def renew(self) -> Renewal:
        """Extend the lease, in its own commit; LeaseLost when another grant has replaced it."""
        self._check_not_ambiguous()
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
        """Move the cursor, in `tx` or in its own commit; renews the lease.

        Inside `tx` it is the last statement: when the lease is lost, leaving the block raises
        LeaseLost and nothing of the transaction stays. `count` messages are counted as processed.
        The error count becomes 0; with `failed` it rises by that number instead.

        OutcomeUnknown means that the position is ambiguous. The lease cannot be used then: acquire
        the cursor again, and read its position.
        """
        if count < 0:
            message = f"count: must not be negative, was {count}"
            fix = "pass the number of messages that were processed"
            raise InvalidArgument(message, fix=fix, field="count")
        if failed is not None and failed < 0:
            message = f"failed: must not be negative, was {failed}"
            fix = "pass the number of attempts that failed, or leave it out"
            raise InvalidArgument(message, fix=fix, field="failed")
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
        self._check_not_ambiguous(tx)

        def moved() -> None:
            self.position = position

        def check(rows: list[Row]) -> Callable[[], None]:
            if not rows:
                lost = self._lease_lost(self._store.read("cursor_show", name=self.name))
                self._record_rejection(lost, "checkpoint")
                raise lost
            return moved  # Only once it is durable: a lease that is ahead would skip a message.

        tx.run_with_commit(query, check, **self.fence, **params)
        tx.on_commit_unknown(self._mark_ambiguous)
        self._attempted = "checkpoint"
        tx.on_lease_lost(self._on_rejected)

    def _checkpoint_alone(self, query: str, position: str, params: dict[str, object]) -> None:
        self._check_not_ambiguous()
        try:
            self._write(query, "checkpoint", **params)
            self.position = position
        except BaseException as exc:
            if is_unknown(exc):
                self._mark_ambiguous()
            raise
        crash_point("cursor.checkpoint.after_commit")

    def guard(self, tx: Transaction) -> None:
        """Commit `tx` only while the lease is held; no other worker takes it over before the end.

        Effective at once on PostgreSQL. On SQLite from the transaction's first write on, which
        takes the write lock: slow work before it blocks no other process.
        """
        self._check_not_ambiguous(tx)
        self.watch(tx)

        def check() -> None:
            try:
                if not tx.query("cursor_guard", **self.fence):
                    raise self._lease_lost(tx.query("cursor_show", name=self.name))
            except LeaseLost as lost:
                self._record_rejection(lost, "guard")
                tx.mark_rollback_only()  # A handler that swallows this must not commit what it did.
                raise

        if self._store.engine == "sqlite" and not tx.is_writing:
            tx.on_first_write(check)
        check()

    def mark(self, tx: Transaction) -> None:
        """Watch a transaction, and let a worker that takes the lease over end it in the database.

        On PostgreSQL a client that is frozen in it would hold its locks indefinitely. On SQLite no
        worker can take over before it ends.
        """
        self.watch(tx)
        if not tx.is_writing:
            self._attempted = "write"
            tx.on_lease_lost(self._on_rejected)
            tx.run_with_begin("cursor_mark", **self.fence)

    def watch(self, tx: Transaction) -> None:
        """Make writes in `tx` raise LeaseLost once a heartbeat has found the lease lost."""
        tx.before_every_write(self.check)

    def check(self) -> None:
        """Raise LeaseLost if the lease is known to be lost, without querying the store."""
        if self.lost.is_set():
            is_ambiguous = self._is_ambiguous
            raise LeaseLost(self.name, self.epoch, self._current_epoch, is_ambiguous=is_ambiguous)

    def hold(self, heartbeat_seconds: float | None = None) -> AbstractContextManager[None]:
        """Renew the lease in the background while the block runs, by default every third of it.

        A lost lease cancels the asyncio task that is inside the block, which then raises LeaseLost.
        """
        return self._heartbeat.hold(self, heartbeat_seconds or self.heartbeat_seconds)

    def fail(self, tx: Transaction | None = None) -> int:
        """Count a failure, after the handler's transaction was rolled back; return the error count.

        In its own commit, or in `tx`, which must guard the lease.
        """
        if tx is not None:
            ((count,),) = tx.query("cursor_fail", **self.fence)
            return int(count)
        self._check_not_ambiguous()
        return int(self._write("cursor_fail", "fail")[0][0])

    def release(self) -> None:
        """Release the lease, so that other workers need not wait; it cannot be used afterwards."""
        self.is_released = True
        self._heartbeat.drop(self)
        crash_point("cursor.release.before_commit")
        self._write("cursor_release", None)

    @contextmanager
    def when_lost(self, call: Callable[[], None]) -> Iterator[None]:
        """Call `call`, in any thread, when the loss is detected during the block or was before."""
        with self._mutex:
            self._loss_callbacks.append(call)
            is_lost = self.lost.is_set()
        if is_lost:
            call()
        try:
            yield
        finally:
            with self._mutex:
                self._loss_callbacks.remove(call)

    @property
    def fence(self) -> dict[str, Any]:
        """Return the parameters that identify the grant in every statement of its holder."""
        return {"name": self.name, "worker": self.worker, "epoch": self.epoch}

    def _check_not_ambiguous(self, tx: Transaction | None = None) -> None:
        """Raise LeaseLost if the position is ambiguous; the store detects any other loss."""
        if not self._is_ambiguous:
            return
        if tx is not None:
            tx.mark_rollback_only()  # A handler that swallows this must not commit what it did.
        self.check()

    def _write(self, query: str, tried: AttemptedWrite | None, **params: object) -> list[Row]:
        """Run a statement in its own commit; LeaseLost if it matches no row.

        On SQLite an update without RETURNING, such as `cursor_checkpoint`, returns one empty row
        for each row that it changed.
        """

        # Not `write_query`: PostgreSQL ends a client that is frozen between two statements of a
        # transaction, but not one that is frozen while it sends them all at once.
        def operation(tx: Transaction) -> tuple[list[Row], list[Row]]:
            rows = tx.query(query, **self.fence, **params)
            return rows, [] if rows else tx.query("cursor_show", name=self.name)

        try:
            rows, shown = self._store.run_in_own_transaction(operation)
            if not rows:
                raise self._lease_lost(shown)
        except LeaseLost as lost:
            self._record_rejection(lost, tried)
            raise
        return rows

    def _record_rejection(self, lost: LeaseLost, tried: AttemptedWrite | None) -> None:
        """Mark the lease lost, and record the rejected write unless it is None."""
        self._mark_lost(lost.current_epoch)
        # A renewal may run concurrently with `release`.
        if tried is not None and not (tried == "renew" and self.is_released):
            self._fence_log.add(self.name, self.worker, self.epoch, tried)

    def _on_rejected(self, lost: LeaseLost) -> None:
        """Handle that the database rejected a transaction of this lease."""
        if (lost.cursor, lost.held_epoch) == (self.name, self.epoch):
            self._record_rejection(lost, self._attempted)

    def _lease_lost(self, shown: list[Row]) -> LeaseLost:
        """Return the error for a statement that matched no row; `shown` is the present cursor."""
        return LeaseLost(self.name, self.epoch, state_of(shown[0]).epoch if shown else None)

    def _mark_ambiguous(self) -> None:
        """Stop: the last checkpoint may or may not be stored, so `position` may be outdated."""
        self._is_ambiguous = True
        self._mark_lost(self.epoch)

    def _mark_lost(self, current_epoch: int | None) -> None:
        self._current_epoch = current_epoch
        with self._mutex:
            self.lost.set()
            calls = list(self._loss_callbacks)
        self._heartbeat.drop(self)
        for call in calls:
            call()
