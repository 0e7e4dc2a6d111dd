"""Bugs of lock races: a lock is missing where two transactions come to one row of PostgreSQL."""

from typing import Final

from tests.proof.bugs.bug import Bug

_MORE: Final = "tests/conformance/test_lock_races_more.py"

BUGS: Final = (
    Bug(
        id="console-does-not-lock",
        name="the console looks at a cursor before it acts, and does not lock it",
        harm="Two who saw the same both act; the second undoes a change that they never saw.",
        file="stores/queries/cursors.sql",
        query="cursor_block_changes",
        find=" {{ lock(no key update) }}",
        replace="",
        test=f"{_MORE}::test_of_two_operators_who_saw_the_same_cursor_one_acts[postgres]",
        breaks="C1",
    ),
    Bug(
        id="guard-not-found",
        name="a guard does not mark its transaction, on PostgreSQL",
        harm="A worker that is frozen in its transaction keeps its cursor for ever.",
        file="stores/schema/postgres.sql",
        query="onceward_cursor_guard",
        find="      perform pg_advisory_xact_lock_shared(onceward_cursor_key(_name));\n",
        replace="",
        test=f"{_MORE}::test_a_move_does_not_wait_for_a_worker_that_is_frozen[guards-postgres]",
        breaks="F4",
    ),
    Bug(
        id="checkpoint-not-found",
        name="a checkpoint does not mark its transaction, on PostgreSQL",
        harm="A worker that is frozen before its commit keeps its cursor for ever.",
        file="stores/queries/cursors.sql",
        query="cursor_checkpoint",
        find="), pg_advisory_xact_lock_shared(onceward_cursor_key(:name::text))",
        replace=")",
        test=f"{_MORE}::test_a_move_does_not_wait_for_a_worker_that_is_frozen[checkpoints-postgres]",
        breaks="F4",
    ),
    Bug(
        id="parking-not-found",
        name="who parks a message does not mark its transaction, on PostgreSQL",
        harm="A worker that is frozen while it parks keeps operators from its cursor for ever.",
        file="stores/schema/postgres.sql",
        query="onceward_retry_sequence_next",
        find="        perform pg_advisory_xact_lock_shared(onceward_cursor_key(_name));\n",
        replace="",
        test="tests/conformance/test_retries_lock_races.py"
        "::test_a_move_does_not_wait_for_a_worker_that_is_frozen_while_it_parks[postgres]",
        breaks="F4",
    ),
    Bug(
        id="work-not-found",
        name="work on a cursor does not mark its transaction, on PostgreSQL",
        harm="The worker taking over waits for ever for the locks of a process that sleeps.",
        file="stores/schema/postgres.sql",
        query="onceward_cursor_mark",
        find="      perform pg_advisory_xact_lock_shared(onceward_cursor_key(_name));\n",
        replace="",
        test="tests/conformance/test_stores_failures.py"
        "::test_no_worker_waits_for_the_locks_of_a_frozen_worker[steal-postgres]",
        breaks="W1",
    ),
    Bug(
        id="granting-not-locked",
        name="while a cursor is granted, who loses it can begin work, on PostgreSQL",
        harm="That work is not ended: the worker taking over waits for its locks.",
        file="stores/schema/postgres.sql",
        query="onceward_cursor_end_marked",
        find="if pg_try_advisory_xact_lock(onceward_cursor_key(_name)) then",
        replace="if false then",
        test=f"{_MORE}::test_a_replaced_worker_cannot_begin_work_during_the_takeover[postgres]",
        breaks="W1",
    ),
    Bug(
        id="ended-then-not-locked",
        name="who ended a frozen worker does not lock its cursor, on PostgreSQL",
        harm="Of two that take over at once both get the cursor.",
        file="stores/schema/postgres.sql",
        query="onceward_cursor_lock",
        find="onceward_cursor_key(_name);\n"
        "        select * into locked from cursor_positions where cursor_name = _name "
        "for update;",
        replace="onceward_cursor_key(_name);\n"
        "        select * into locked from cursor_positions where cursor_name = _name;",
        test=f"{_MORE}::test_after_ending_a_frozen_worker_the_lock_is_followed_by_another_look[postgres]",
        breaks="F1",
    ),
    Bug(
        id="group-not-locked",
        name="the state of a group is read without a lock, on PostgreSQL",
        harm="Work that is committed and rolled back at once is both: it is done twice.",
        file="stores/queries/dual.sql",
        query="dual_lock_group",
        find="insert into onceward_dual_groups as g (dual_name, group_name, updated_at) "
        "values (:dual, :group, {{ now }})\n"
        "on conflict (dual_name, group_name) do update set updated_at = "
        "excluded.updated_at\n"
        "returning processed_position, last_batch",
        replace="with made as (\n"
        "  insert into onceward_dual_groups as g (dual_name, group_name, updated_at) "
        "values (:dual, :group, onceward_now())\n"
        "  on conflict (dual_name, group_name) do nothing\n"
        "  returning g.processed_position, g.last_batch)\n"
        "select * from made\n"
        "union all\n"
        "select processed_position, last_batch from onceward_dual_groups where dual_name "
        "= :dual and group_name = :group",
        test=f"{_MORE}::test_work_is_not_ended_between_its_check_and_the_commit[postgres]",
        breaks="X4",
    ),
    Bug(
        id="restoring-not-locked",
        name="who restores a change does not hold the entities it touches",
        harm="A fact lives on under an entity that is gone, where it cannot be found.",
        file="stores/queries/memory.sql",
        query="memory_entity_hold",
        find="order by name\n{{ lock(update) }}",
        replace="order by name",
        test=f"{_MORE}::test_an_entity_is_deleted_only_after_its_fact_is_restored[postgres]",
        breaks="M3",
    ),
    Bug(
        id="ends-not-locked",
        name="a relation comes back without locking its ends",
        harm="A relation leads to an entity that is gone.",
        file="stores/queries/memory.sql",
        query="memory_relation_undelete",
        find="  order by e.name\n  for share",
        replace="  order by e.name",
        test=f"{_MORE}::test_a_restored_relation_checks_ends_that_were_not_locked[postgres]",
        breaks="M3",
    ),
    Bug(
        id="removing-not-locked",
        name="tombstones are removed without locking them, on PostgreSQL",
        harm="A key that is claimed at that moment is forgotten, and its work is done twice.",
        file="stores/queries/outcomes.sql",
        query="outcome_remove",
        find="  limit :batch\n  {{ lock(update skip locked) }}",
        replace="  limit :batch",
        test=f"{_MORE}::test_a_key_that_is_claimed_again_is_not_pruned[postgres]",
        breaks="I1",
    ),
    Bug(
        id="expiring-not-locked",
        name="results expire without locking them, on PostgreSQL",
        harm="A key that an operator frees at that moment is refused for thirty days.",
        file="stores/queries/outcomes.sql",
        query="outcome_expire",
        find="  limit :batch\n  {{ lock(update skip locked) }}",
        replace="  limit :batch",
        test=f"{_MORE}::test_a_key_that_is_forgotten_does_not_expire[postgres]",
        breaks="I4",
    ),
    Bug(
        id="grants-not-skipped",
        name="of two who prune grants, one waits for the other, on PostgreSQL",
        harm="Every process of a store waits while one of them removes what is old.",
        file="stores/queries/cursors.sql",
        query="grant_prune",
        find="limit :limit\n    {{ lock(update skip locked) }}",
        replace="limit :limit",
        test=f"{_MORE}::test_concurrent_prunes_do_not_wait[grant_prune-postgres]",
        breaks="F4",
    ),
    Bug(
        id="rejected-writes-not-skipped",
        name="of two who prune rejected writes, one waits for the other, on PostgreSQL",
        harm="Every process of a store waits while one of them removes what is old.",
        file="stores/queries/cursors.sql",
        query="rejected_write_prune",
        find="limit :limit {{ lock(update skip locked) }}",
        replace="limit :limit",
        test=f"{_MORE}::test_concurrent_prunes_do_not_wait[rejected_write_prune-postgres]",
        breaks="F4",
    ),
    Bug(
        id="samples-not-skipped",
        name="of two who prune samples, one waits for the other, on PostgreSQL",
        harm="Every process of a store waits while one of them removes what is old.",
        file="stores/queries/workers.sql",
        query="sample_prune",
        find="limit :limit {{ lock(update skip locked) }}\n    ) as old",
        replace="limit :limit\n    ) as old",
        test=f"{_MORE}::test_concurrent_prunes_do_not_wait[sample_prune-postgres]",
        breaks="F4",
    ),
    Bug(
        id="ahead-not-skipped",
        name="of two who prune samples that are ahead, one waits for the other, on PostgreSQL",
        harm="Every process of a store waits while one of them removes what is old.",
        file="stores/queries/workers.sql",
        query="sample_prune",
        find="limit :limit {{ lock(update skip locked) }}\n    ) as ahead",
        replace="limit :limit\n    ) as ahead",
        test=f"{_MORE}::test_concurrent_prunes_do_not_wait[sample_prune ahead-postgres]",
        breaks="F4",
    ),
    Bug(
        id="workers-not-skipped",
        name="of two who prune workers, one waits for the other, on PostgreSQL",
        harm="Every process of a store waits while one of them removes what is old.",
        file="stores/queries/workers.sql",
        query="worker_prune",
        find="limit :limit {{ lock(update skip locked) }}",
        replace="limit :limit",
        test=f"{_MORE}::test_concurrent_prunes_do_not_wait[worker_prune-postgres]",
        breaks="F4",
    ),
)
