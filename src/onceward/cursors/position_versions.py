"""Position versions: migrate positions written by an older source version, or reject them."""

from __future__ import annotations

from onceward.cursors.change_history import record_change
from onceward.cursors.lease import Lease
from onceward.cursors.models import PositionMigrations, check_position, state_of
from onceward.errors import LeaseLost, VersionMismatch
from onceward.stores import Store, Transaction
from onceward.system.crash_points import crash_point


def check_migratable(
    cursor: str, position: str | None, stored: int, wanted: int, migrations: PositionMigrations
) -> None:
    """Raise VersionMismatch unless the position can be migrated to the wanted version."""
    if stored == wanted:
        return
    has_steps = position is None or all(step in migrations for step in range(stored, wanted))
    if stored > wanted or not has_steps:
        raise VersionMismatch(cursor, stored, wanted)


def migrate(
    store: Store, lease: Lease, stored: int, wanted: int, migrations: PositionMigrations
) -> None:
    """Rewrite the position under the lease and record it, or release the lease and raise."""
    before = lease.position
    try:
        check_migratable(lease.name, before, stored, wanted, migrations)
        after = _migrated(before, stored, wanted, migrations)
    except BaseException:
        lease.release()
        raise

    def rewrite(tx: Transaction) -> None:
        if not tx.query("cursor_rewrite", **lease.fence, position=after, version=wanted):
            shown = tx.query("cursor_show", name=lease.name)
            raise LeaseLost(lease.name, lease.epoch, state_of(shown[0]).epoch if shown else None)
        crash_point("cursor.migrate.after_rewrite")
        record_change(
            tx,
            cursor=lease.name,
            kind="migration",
            actor=lease.worker,
            reason=f"version {stored} to {wanted}",
            from_position=before,
            to_position=after,
            epoch=lease.epoch,
        )

    store.run_in_own_transaction(rewrite)
    lease.position = after


def _migrated(
    position: str | None, stored: int, wanted: int, migrations: PositionMigrations
) -> str | None:
    """Return the position in the format of the wanted version; the start has none."""
    for step in range(stored, wanted):
        if position is None:
            return None
        position = check_position(migrations[step](position))
    return position
