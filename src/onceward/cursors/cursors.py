"""Cursors: acquire (and take over expired leases), list, pause, resume and seek cursors.

Grants leases, and implements what operators do. What the holder of a lease does is in `lease`.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Literal

from onceward.cursors import seeks
from onceward.cursors.change_history import record_change
from onceward.cursors.fence_log import FenceLog
from onceward.cursors.heartbeat import LeaseHeartbeat
from onceward.cursors.lease import Lease
from onceward.cursors.models import (
    HEARTBEATS_PER_LEASE,
    LEASE_SECONDS,
    LIST_PAGE_ROWS,
    LIST_ROWS_MAX,
    MOVE_TRIES_MAX,
    OWN_PREFIX,
    CountBetween,
    CursorState,
    Epoch,
    HistoryEntry,
    Move,
    PositionMigrations,
    check_lease_seconds,
    check_name,
    check_position,
    entry_of,
    state_of,
)
from onceward.cursors.position_versions import check_migratable, migrate
from onceward.cursors.takeover_delay import TakeoverDelay
from onceward.errors import CursorMissing, InvalidArgument, StoreBusy
from onceward.stores import Row, Store, Transaction
from onceward.system import Clock, Randomness, SystemClock, SystemRandomness
from onceward.system.crash_points import crash_point


class Cursors:
    """The cursors of one store."""

    def __init__(
        self, store: Store, *, follow: seeks.PlanFollowUp, randomness: Randomness | None = None
    ) -> None:
        """Use this store; `follow` plans what a move does to parked messages."""
        self._store = store
        self._follow = follow
        self._randomness = randomness or SystemRandomness()
        # Used on SQLite only, where it is the store's clock.
        self._clock: Clock = getattr(store, "clock", None) or SystemClock()
        self._takeover_delay = TakeoverDelay()
        self._worker: tuple[int, str] = (0, "")
        #: Renews the leases that are held by `Lease.hold`.
        self.heartbeat = LeaseHeartbeat()
        #: Records rejected stale writes.
        self.fence_log = FenceLog(store)

    @property
    def worker(self) -> str:
        """Return the worker id of this process, new at every start: `host/pid/random`."""
        process, worker = self._worker
        if process != os.getpid():
            worker = f"{socket.gethostname()}/{os.getpid()}/{self._randomness.hex(8)}"
            self._worker = (os.getpid(), worker)
        return worker

    def acquire(
        self,
        name: str,
        worker: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
        *,
        version: int = 1,
        migrations: PositionMigrations | None = None,
    ) -> Lease | None:
        """Return the lease of a cursor, or None while another worker holds it or it is paused.

        The cursor is created if it is missing. A position of an older `version` is rewritten by
        `migrations`, by the version each starts from; VersionMismatch if one is missing. The same
        worker is always granted again, and writes with its earlier lease are rejected from then on.
        """
        worker = self.worker if worker is None else check_name(worker)
        lease_seconds = check_lease_seconds(lease_seconds)
        seen = self._state(check_name(name))
        if seen is not None:
            if not self._may_be_acquired(seen, worker):
                return None
            check_migratable(name, seen.position, seen.version, version, migrations or {})
        rows = self._grant(name, worker, lease_seconds, version, seen)
        if not rows:
            return None
        crash_point("cursor.acquire.after_commit")
        epoch, position, stored = rows[0]
        assert seen is None or epoch > seen.epoch, (epoch, seen)
        self._takeover_delay.forget(name)
        lease = Lease(
            store=self._store,
            heartbeat=self.heartbeat,
            fence_log=self.fence_log,
            name=name,
            worker=worker,
            epoch=Epoch(epoch),
            position=position,
            lease_seconds=lease_seconds,
        )
        if stored != version:
            migrate(self._store, lease, stored, version, migrations or {})
        return lease

    def pause(self, name: str, reason: str = "", actor: str | None = None) -> CursorState:
        """Pause a cursor: it cannot be acquired; the running batch may finish."""
        return self._set_paused(name, reason, actor, paused=True)

    def resume(self, name: str, reason: str = "", actor: str | None = None) -> CursorState:
        """Resume a paused cursor."""
        return self._set_paused(name, reason, actor, paused=False)

    def seek(  # noqa: PLR0913 - all of it recorded
        self,
        name: str,
        position: str | None,
        reason: str,
        actor: str,
        *,
        dry_run: bool = False,
        count: CountBetween | None = None,
    ) -> Move:
        """Set the position, None for the start; stale writes of the present holder are rejected.

        `count(a, b)`, which sources have, returns the number of messages after a up to b. Without
        it, the numbers of repeated and skipped messages are unknown, and parked messages stay
        unless the cursor moves to the start.
        """
        target = None if position is None else check_position(position)
        return self._move(
            name, "seek", reason, actor, position=target, count=count, dry_run=dry_run
        )

    def undo(
        self,
        name: str,
        actor: str,
        reason: str = "",
        *,
        dry_run: bool = False,
        count: CountBetween | None = None,
    ) -> Move:
        """Move a cursor to its position before the last seek; repeat for earlier seeks.

        Messages that the seek discarded are restored, unless they were read since. Without `count`
        that is unknown, and all that are not parked again are restored: some may be processed
        twice, none is lost.
        """
        return self._move(name, "undo", reason, actor, count=count, dry_run=dry_run)

    def show(self, name: str) -> CursorState:
        """Return one cursor in its present state; CursorMissing if there is none."""
        state = self._state(check_name(name))
        if state is None:
            message = f"there is no cursor {name!r}"
            raise CursorMissing(message, cursor=name)
        return state

    def list(self, pattern: str = "*") -> tuple[CursorState, ...]:
        """Return the cursors whose names match a pattern such as `distribution_niche_*`.

        Names that begin with `~` are internal: only a pattern that begins with `~` finds them.
        """
        is_own = pattern.startswith(OWN_PREFIX)
        found: list[CursorState] = []
        after = ""
        while rows := self._store.read("cursor_list", after=after, limit=LIST_PAGE_ROWS):
            found += [
                state_of(row)
                for row in rows
                if row[0].startswith(OWN_PREFIX) == is_own and fnmatchcase(row[0], pattern)
            ]
            if len(rows) < LIST_PAGE_ROWS or len(found) >= LIST_ROWS_MAX:
                break
            after = rows[-1][0]
        return tuple(found[:LIST_ROWS_MAX])

    def history(self, name: str, limit: int = 100) -> tuple[HistoryEntry, ...]:
        """Return the operator actions on a cursor, newest first."""
        if not 0 < limit <= LIST_ROWS_MAX:
            message = f"limit: must be 1 to {LIST_ROWS_MAX}, not {limit}"
            fix = f"pass 1 to {LIST_ROWS_MAX}, or leave it out"
            raise InvalidArgument(message, fix=fix, field="limit")
        rows = self._store.read("cursor_history", name=check_name(name), limit=limit)
        return tuple(entry_of(row) for row in rows)

    def _state(self, name: str) -> CursorState | None:
        rows = self._store.read("cursor_show", name=name)
        return state_of(rows[0]) if rows else None

    def _may_be_acquired(self, seen: CursorState, worker: str) -> bool:
        """Check before waiting for the write lock; the statement decides."""
        is_own = seen.lease_owner in (None, worker)
        if seen.is_paused or (seen.is_held and not is_own):
            return False
        return is_own or not self._takeover_delay.is_postponed(seen, self._clock.boot_seconds())

    def _grant(
        self, name: str, worker: str, lease_seconds: float, version: int, seen: CursorState | None
    ) -> Sequence[Row]:
        heartbeat_seconds = lease_seconds / HEARTBEATS_PER_LEASE
        wait_max = self._takeover_delay.wait_seconds_max(seen, heartbeat_seconds)
        asked = self._clock.boot_seconds()
        waited = 0.0

        def grant(tx: Transaction) -> list[Row]:
            nonlocal waited
            waited = self._clock.boot_seconds() - asked
            return tx.query(
                "cursor_acquire",
                name=name,
                worker=worker,
                seconds=lease_seconds,
                version=version,
                may_take_over=waited < wait_max,
            )

        try:
            rows = self._store.run_in_own_transaction(grant)
        except StoreBusy:  # The write lock was not free in time: the cursor cannot be acquired now.
            return []
        if not rows and seen is not None and waited >= wait_max:
            self._takeover_delay.postpone(seen, self._clock.boot_seconds() + heartbeat_seconds)
        return rows

    def _move(  # noqa: PLR0913 - all by name
        self,
        name: str,
        kind: Literal["seek", "undo"],
        reason: str,
        actor: str,
        *,
        position: str | None = None,
        count: CountBetween | None,
        dry_run: bool,
    ) -> Move:
        counted = seeks.CachedCount(count) if count else None
        request = seeks.MoveRequest(
            cursor=name, kind=kind, position=position, count=counted, follow=self._follow
        )
        for _ in range(MOVE_TRIES_MAX):
            planned = seeks.plan(self._store, request, self.show(name))
            if dry_run:
                return planned
            with (
                suppress(seeks.CountUnavailable),
                counted.cached_only() if counted else nullcontext(),
            ):
                moved = self._store.write(
                    lambda tx: seeks.move(tx, request, reason=reason, actor=actor)
                )
                return replace(planned, **moved._asdict())
        message = (
            f"{name!r} moved {MOVE_TRIES_MAX} times while its messages were counted;"
            " nothing was changed"
        )
        raise StoreBusy(message, fix=f"run `onceward cursors pause {name}`, then try again")

    def _set_paused(
        self, name: str, reason: str, actor: str | None, *, paused: bool
    ) -> CursorState:
        self.show(name)
        by = actor or current_operator()

        def change(tx: Transaction) -> None:
            for epoch, position in tx.query("cursor_pause", name=name, paused=paused):
                crash_point("cursor.pause.after_change")
                record_change(
                    tx,
                    cursor=name,
                    kind="pause" if paused else "resume",
                    actor=by,
                    reason=reason,
                    from_position=position,
                    to_position=position,
                    epoch=epoch,
                )

        self._store.write(change)
        return self.show(name)


def current_operator() -> str:
    """Return the default actor of operator commands: `user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # A container may run under a user id without a name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
