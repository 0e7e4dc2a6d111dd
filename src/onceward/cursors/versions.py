"""Versions: positions written under other rules, rewritten step by step or refused."""

from __future__ import annotations

from onceward.crash import crash_point
from onceward.cursors.history import note
from onceward.cursors.lease import Lease
from onceward.cursors.models import PositionMigrations, check_position
from onceward.errors import LeaseLost, VersionMismatch
from onceward.stores import Store, Transaction


def check_path(
    cursor: str, position: str | None, stored: int, wanted: int, migrations: PositionMigrations
) -> None:
    """Raise VersionMismatch unless the position can be brought to the wanted version."""
    if stored == wanted:
        return
    has_steps = position is None or all(step in migrations for step in range(stored, wanted))
    if stored > wanted or not has_steps:
        raise VersionMismatch(cursor, stored, wanted)


def migrate(
    store: Store, lease: Lease, stored: int, wanted: int, migrations: PositionMigrations
) -> None:
    """Rewrite the position under the lease and record it, or give the lease back and raise."""
    before = lease.position
    try:
        check_path(lease.name, before, stored, wanted, migrations)
        after = _migrated(before, stored, wanted, migrations)
    except BaseException:
        lease.release()
        raise

    def rewrite(tx: Transaction) -> None:
        if not tx.query("cursor_rewrite", **lease.fence, position=after, version=wanted):
            raise LeaseLost(lease.name, lease.epoch, None)
        crash_point("cursor.migrate.after_rewrite")
        note(
            tx,
            cursor=lease.name,
            kind="migration",
            actor=lease.worker,
            reason=f"version {stored} to {wanted}",
            from_position=before,
            to_position=after,
            epoch=lease.epoch,
        )

    store.write_apart(rewrite)
    lease.position = after


def _migrated(
    position: str | None, stored: int, wanted: int, migrations: PositionMigrations
) -> str | None:
    """Return the position in the form of the wanted version; the start has none."""
    for step in range(stored, wanted):
        if position is None:
            return None
        position = check_position(migrations[step](position))
    return position
