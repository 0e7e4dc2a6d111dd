"""Bugs of cursors, leases and dual cursors, on both engines."""

from typing import Final

from tests.proof.bugs.bug import Bug

_CURSORS: Final = "tests/conformance/test_cursors.py"
_OPERATORS: Final = "tests/conformance/test_cursors_operators.py"
_GUARDS: Final = "tests/conformance/test_cursors_guards.py"
_DUAL: Final = "tests/conformance/test_dual.py"

BUGS: Final = (
    Bug(
        id="cursor-fence-sqlite",
        name="a checkpoint names neither owner nor epoch, on SQLite",
        harm="A worker that froze wakes up and moves a cursor that another worker holds by now.",
        file="stores/queries/cursors.sql",
        query="cursor_checkpoint",
        find="where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch",
        replace="where cursor_name = :name",
        test=f"{_CURSORS}::test_a_stale_checkpoint_sent_together_with_its_commit_leaves_no_effect[sqlite]",
        breaks="F1",
    ),
    Bug(
        id="cursor-fence-postgres",
        name="a checkpoint names neither owner nor epoch, on PostgreSQL",
        harm="A worker that froze wakes up and moves a cursor that another worker holds by now.",
        file="stores/schema/postgres.sql",
        query="onceward_cursor_checkpoint",
        find="""updated_at = _now
        where cursor_name = _name and lease_owner = _worker and lease_epoch = _epoch;""",
        replace="""updated_at = _now
        where cursor_name = _name;""",
        test=f"{_CURSORS}::test_a_stale_checkpoint_sent_together_with_its_commit_leaves_no_effect[postgres]",
        breaks="F1",
    ),
    Bug(
        id="cursor-fence-no-epoch",
        name="a checkpoint compares the owner but not the epoch",
        harm="A handle from before a restart of the same worker moves the cursor back.",
        file="stores/queries/cursors.sql",
        query="cursor_checkpoint",
        find="lease_owner = :worker and lease_epoch = :epoch",
        replace="lease_owner = :worker",
        test=f"{_CURSORS}::test_a_lease_kept_over_release_and_acquire_is_rejected[sqlite]",
        breaks="F1",
    ),
    Bug(
        id="epoch-only-on-steals-sqlite",
        name="the epoch rises only when a lease is taken over, on SQLite",
        harm="A handle that was given back still works after the next grant.",
        file="stores/queries/cursors.sql",
        query="cursor_acquire",
        find="lease_epoch = lease_epoch + 1,",
        replace="lease_epoch = lease_epoch"
        " + (lease_owner is not null and lease_owner <> excluded.lease_owner),",
        test=f"{_CURSORS}::test_the_epoch_rises_with_every_grant[sqlite]",
        breaks="F1",
    ),
    Bug(
        id="epoch-only-on-steals-postgres",
        name="the epoch rises only when a lease is taken over, on PostgreSQL",
        harm="A handle that was given back still works after the next grant.",
        file="stores/schema/postgres.sql",
        query="onceward_cursor_acquire",
        find="lease_epoch = lease_epoch + 1,",
        replace="lease_epoch = lease_epoch + steals,",
        test=f"{_CURSORS}::test_the_epoch_rises_with_every_grant[postgres]",
        breaks="F1",
    ),
    Bug(
        id="checkpoint-does-not-raise",
        name="a stale checkpoint on PostgreSQL finds no row and raises nothing in the database",
        harm="The commit that is sent after it happens: the effects of a stale worker stay.",
        file="stores/schema/postgres.sql",
        query="onceward_cursor_checkpoint",
        find="""updated_at = _now
        where cursor_name = _name and lease_owner = _worker and lease_epoch = _epoch;
      if not found then
        perform onceward_lease_lost(_name, _epoch);
      end if;""",
        replace="""updated_at = _now
        where cursor_name = _name and lease_owner = _worker and lease_epoch = _epoch;""",
        test=f"{_CURSORS}::test_a_stale_checkpoint_sent_together_with_its_commit_leaves_no_effect[postgres]",
        breaks="F1",
    ),
    Bug(
        id="lease-boundary-sqlite",
        name="a lease is over at its last moment already, on SQLite",
        harm="A worker that renews just in time is replaced while it lives.",
        file="stores/queries/cursors.sql",
        query="cursor_acquire",
        find="lease_expires_boot < :now",
        replace="lease_expires_boot <= :now",
        test="tests/conformance/test_lock_races.py"
        "::test_the_statement_itself_knows_the_last_moment_of_a_lease[sqlite]",
        breaks="F3",
    ),
    Bug(
        id="lease-boundary-postgres",
        name="a lease is over at its last moment already, on PostgreSQL",
        harm="A worker that renews just in time is replaced while it lives.",
        file="stores/schema/postgres.sql",
        query="onceward_cursor_is_held",
        find="held.lease_expires_at >= onceward_now()",
        replace="held.lease_expires_at > onceward_now()",
        test="tests/conformance/test_lock_races.py"
        "::test_the_statement_itself_knows_the_last_moment_of_a_lease[postgres]",
        breaks="F3",
    ),
    Bug(
        id="null-lease-sqlite",
        name="a lease without an end never expires, on SQLite",
        harm="A cursor whose owner an administrator set by hand is held for ever.",
        file="stores/queries/cursors.sql",
        query="cursor_acquire",
        find="""    lease_expires_at is null
    or lease_expires_boot is null
    or lease_boot_id is not :boot
""",
        replace="""    lease_boot_id <> :boot
""",
        test=f"{_CURSORS}::test_h15_a_row_made_by_an_administrator_can_be_acquired"
        "[sqlite-insert into cursor_positions (cursor_name, lease_owner) values ('c', 'other')]",
        breaks="W1",
    ),
    Bug(
        id="null-lease-postgres",
        name="a lease without an end never expires, on PostgreSQL",
        harm="A cursor whose owner an administrator set by hand is held for ever.",
        file="stores/schema/postgres.sql",
        query="onceward_cursor_is_held",
        find="""held.lease_expires_at is not null
      and held.lease_expires_at >= onceward_now()""",
        replace="coalesce(held.lease_expires_at, 'infinity') >= onceward_now()",
        test=f"{_CURSORS}::test_h15_a_row_made_by_an_administrator_can_be_acquired"
        "[postgres-insert into cursor_positions (cursor_name, lease_owner)"
        " values ('c', 'other')]",
        breaks="W1",
    ),
    Bug(
        id="lease-wall-clock",
        name="the worker's wall clock decides about leases on SQLite",
        harm="A clock that is set an hour forward takes every cursor from its living worker.",
        file="stores/sqlite/transaction.py",
        find='params["now"] = clock.boot_seconds()',
        replace='params["now"] = clock.now().timestamp()',
        test="tests/system/test_leases.py::test_h16_wrong_clocks_of_workers_change_nothing[sqlite-3600.0]",
        breaks="F1",
    ),
    Bug(
        id="guard-does-not-lock",
        name="a guard on PostgreSQL looks at the lease and does not lock it",
        harm="Another worker takes the cursor over between the guard and the commit.",
        file="stores/schema/postgres.sql",
        query="onceward_cursor_guard",
        find="and lease_epoch = _epoch\n        for key share;",
        replace="and lease_epoch = _epoch;",
        test=f"{_GUARDS}::test_no_takeover_while_a_guarded_transaction_is_open[postgres]",
        breaks="F1",
    ),
    Bug(
        id="seek-keeps-the-lease",
        name="a seek neither raises the epoch nor takes the owner away",
        harm="The worker that is at work overwrites the move with its next checkpoint.",
        file="stores/queries/cursors.sql",
        query="cursor_move",
        find="""  lease_epoch = lease_epoch + 1,
  lease_owner = null,
""",
        replace="",
        test=f"{_OPERATORS}::test_a_seek_under_a_live_worker_wins[sqlite]",
        breaks="F2",
    ),
    Bug(
        id="undo-not-recorded",
        name="an undo is recorded like a seek in the history",
        harm="The next undo undoes the undo, and no undo gets past the last move.",
        file="cursors/seeks.py",
        find='undoes=last.id if request.kind == "undo" else None,',
        replace="undoes=None,",
        test=f"{_OPERATORS}::test_a_seek_can_be_undone_and_so_can_the_one_before[sqlite]",
        breaks="F2",
    ),
    Bug(
        id="steal-not-recorded",
        name="a takeover on SQLite is not written into the history",
        harm="Operators cannot see who took a cursor over, nor that workers die on it.",
        file="stores/queries/cursors.sql",
        query="cursor_acquire",
        find="steal_count = steal_count"
        " + (lease_owner is not null and lease_owner <> excluded.lease_owner),",
        replace="steal_count = steal_count,",
        test=f"{_CURSORS}::test_a_takeover_is_recorded_and_a_plain_grant_is_not[sqlite]",
        breaks="F2",
    ),
    Bug(
        id="dual-not-in-flight",
        name="of a batch in flight only its last message is recorded as in flight",
        harm="A crash in the middle of it loses the messages before the last.",
        file="stores/queries/dual.sql",
        query="dual_begin",
        find="values (:dual, :group, :number, :previous, :position,",
        replace="values (:dual, :group, :number, :position - 1, :position,",
        test=f"{_DUAL}::test_what_a_crash_left_in_flight_is_found_again[sqlite]",
        breaks="X1",
    ),
    Bug(
        id="dual-output-repeated",
        name="a failure after output was sent goes back to the start of the batch",
        harm="People are answered twice.",
        file="cursors/dual_models.py",
        find="return self.previous if self.output_position is None else self.output_position",
        replace="return self.previous",
        test=f"{_DUAL}::test_what_was_handed_over_after_the_last_output_comes_again[sqlite]",
        breaks="X4",
    ),
    Bug(
        id="dual-no-fence",
        name="any handle of a group ends whatever is in flight",
        harm="A replaced agent marks messages as done that another agent works on.",
        file="cursors/dual.py",
        find="(named.group, named.number) != (group, current.number):",
        replace="named.group != group:",
        test=f"{_DUAL}::test_a_stale_batch_changes_nothing[sqlite]",
        breaks="X4",
    ),
    Bug(
        id="release-without-fence",
        name="a worker that gives a cursor back need not hold it",
        harm="A worker that was replaced and stops lets the cursor of a living one go.",
        file="stores/queries/cursors.sql",
        query="cursor_release",
        find="where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch",
        replace="where cursor_name = :name",
        test=f"{_CURSORS}::test_a_lease_kept_over_release_and_acquire_is_rejected[sqlite]",
        breaks="F1",
    ),
    Bug(
        id="renew-without-fence",
        name="a worker that renews a lease need not hold it, on PostgreSQL",
        harm="A worker that was replaced goes on for ever, and keeps the cursor from others.",
        file="stores/queries/cursors.sql",
        query="cursor_renew",
        find="where cursor_name = :name and lease_owner = :worker and lease_epoch = :epoch",
        replace="where cursor_name = :name",
        test=f"{_CURSORS}::test_a_lease_kept_over_release_and_acquire_is_rejected[postgres]",
        breaks="F1",
    ),
)
