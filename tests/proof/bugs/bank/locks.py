"""Bugs of locks: each looks harmless while one works alone."""

from typing import Final

from tests.proof.bugs.bug import Bug

_CURSORS: Final = "tests/conformance/test_cursors.py"
_TX: Final = "tests/conformance/test_outcomes_tx.py"
_RACES: Final = "tests/conformance/test_lock_races.py"
_HARD: Final = "tests/conformance/test_stores_failures.py"

BUGS: Final = (
    Bug(
        id="file-not-locked",
        name="writers of one file do not wait for one another",
        harm="Two programs that save at once leave a file that is half of each.",
        file="journal/file_lock.py",
        find="    file.lock()\n",
        replace="    file.stat()\n",
        test="tests/unit/journal/test_atomic_file.py::test_writers_of_one_file_take_turns",
        breaks="D1",
    ),
    Bug(
        id="run-not-locked",
        name="a run may be worked on by two processes",
        harm="Every agent is started twice, and both write into one workspace.",
        file="journal/process_lock.py",
        find="fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        replace="fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        test="tests/unit/journal/test_process_lock.py::test_the_second_process_gets_the_holder_and_its_start_time",
        breaks="O1",
    ),
    Bug(
        id="migrations-not-locked",
        name="processes that start at once migrate at once, on PostgreSQL",
        harm="Of ten workers that are deployed together some do not start.",
        file="stores/queries/store.sql",
        query="lock_migrations",
        find="select pg_advisory_xact_lock(hashtext('onceward_migrations'))",
        replace="select hashtext('onceward_migrations')",
        test=f"{_RACES}::test_opening_a_new_store_waits_for_its_migration[postgres]",
        breaks="D1",
    ),
    Bug(
        id="acquire-not-locked",
        name="a cursor is granted without locking its row, on PostgreSQL",
        harm="Two workers hold one cursor, and a guard does not keep it with its holder.",
        file="stores/schema/postgres.sql",
        query="onceward_cursor_lock",
        find="""      begin
        select * into locked from cursor_positions where cursor_name = _name for update;
      exception""",
        replace="""      begin
        select * into locked from cursor_positions where cursor_name = _name;
      exception""",
        test="tests/conformance/test_cursors_guards.py"
        "::test_no_takeover_while_a_guarded_transaction_is_open[postgres]",
        breaks="F1",
    ),
    Bug(
        id="acquire-looks-once",
        name="who waited for the lock of a cursor does not look at it again, on PostgreSQL",
        harm="Two workers that ask at once both get the cursor.",
        file="stores/schema/postgres.sql",
        query="onceward_cursor_acquire",
        find="""      old := onceward_cursor_lock(_name);
      if old.paused or (onceward_cursor_is_held(old) and old.lease_owner <> _worker) then
        return;
      end if;
""",
        replace="      old := onceward_cursor_lock(_name);\n",
        test=f"{_CURSORS}::test_many_workers_ask_at_once_and_one_is_granted[postgres]",
        breaks="F1",
    ),
    Bug(
        id="frozen-not-ended",
        name="a transaction that froze under a lost lease is not ended, on PostgreSQL",
        harm="The worker taking over waits for ever for the locks of a process that sleeps.",
        file="stores/schema/postgres.sql",
        query="onceward_cursor_acquire",
        find="      perform onceward_cursor_end_marked(_name);\n",
        replace="",
        test=f"{_HARD}::test_no_worker_waits_for_the_locks_of_a_frozen_worker[steal-postgres]",
        breaks="W1",
    ),
    Bug(
        id="twin-not-locked",
        name="work in a transaction does not lock its key, on PostgreSQL",
        harm="Two calls at once both do the work before one of them is refused.",
        file="stores/queries/outcomes.sql",
        query="outcome_lock",
        find="select pg_try_advisory_xact_lock(hashtextextended(:scope || chr(31) || :key, 0))",
        replace="select hashtextextended(:scope || chr(31) || :key, 0) is not null",
        test=f"{_TX}::test_claims_of_both_kinds_respect_each_other[postgres]",
        breaks="I3",
    ),
    Bug(
        id="claim-not-locked",
        name="a claim does not see a concurrent call in a transaction, on PostgreSQL",
        harm="The same key is run twice, once in a transaction and once outside.",
        file="stores/queries/outcomes.sql",
        query="outcome_claim",
        find="where pg_try_advisory_xact_lock(hashtextextended(:scope || chr(31) || :key, 0))",
        replace="where :scope || :key is not null",
        test=f"{_TX}::test_claims_of_both_kinds_respect_each_other[postgres]",
        breaks="I1",
    ),
    Bug(
        id="letters-not-locked",
        name="dead letters are looked at without a lock before they are decided about",
        harm="An operator drops a letter while another redrives it: it is both.",
        file="stores/queries/retries.sql",
        query="dead_lock",
        find="order by cursor_name, id\nfor update",
        replace="order by cursor_name, id",
        test=f"{_RACES}::test_a_letter_that_is_locked_cannot_be_dropped[postgres]",
        breaks="R1",
    ),
    Bug(
        id="letters-locked-late",
        name="a batch locks each dead letter as it writes it again",
        harm="The batch and an expiry deadlock, and one of them is rolled back.",
        file="workers/message_processing.py",
        find="if len(unreadable) > 1:",
        replace="if len(unreadable) > len(batch):",
        test=f"{_RACES}::test_a_batch_writes_letters_again_while_others_expire[postgres]",
        breaks="R1",
    ),
    Bug(
        id="entities-not-locked",
        name="who adds to an entity does not keep it from being deleted",
        harm="A relation leads to an entity that is gone.",
        file="stores/queries/memory.sql",
        query="memory_entity_find",
        find="order by name\n{{ lock(share) }}",
        replace="order by name",
        test=f"{_RACES}::test_an_entity_is_deleted_only_after_a_concurrent_addition[postgres]",
        breaks="M3",
    ),
    Bug(
        id="heartbeat-too-slow",
        name="a lease is renewed when it expires, and not before",
        harm="Long work is started twice because its worker was a moment late.",
        file="cursors/models.py",
        find="HEARTBEATS_PER_LEASE: Final = 3",
        replace="HEARTBEATS_PER_LEASE: Final = 1",
        test="tests/conformance/test_cursors_heartbeat.py"
        "::test_by_default_a_lease_is_renewed_three_times_before_it_runs_out[sqlite]",
        breaks="F3",
    ),
    Bug(
        id="deleting-not-locked",
        name="who deletes an entity does not keep others from adding to it",
        harm="A fact lives on under an entity that is gone, where it cannot be found.",
        file="stores/queries/memory.sql",
        query="memory_entity_lock",
        find="order by name\n{{ lock(update) }}",
        replace="order by name",
        test=f"{_RACES}::test_an_entity_that_is_being_deleted_cannot_be_added_to[postgres]",
        breaks="M3",
    ),
    Bug(
        id="parking-not-locked",
        name="a message is parked without keeping its cursor from being moved, on PostgreSQL",
        harm="A seek that meets it forgets a message, or has it done twice.",
        file="stores/schema/postgres.sql",
        query="onceward_retry_sequence_next",
        find="        perform 1 from cursor_positions where cursor_name = _name for key share;\n",
        replace="",
        test="tests/conformance/test_retries_lock_races.py"
        "::test_a_move_waits_for_the_worker_it_meets[postgres-parks-False]",
        breaks="R1",
    ),
)
