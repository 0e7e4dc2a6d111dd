"""Bugs of costs that grow with history."""

from typing import Final

from tests.proof.bugs.bug import Bug

_IDLE: Final = "tests/conformance/test_idle_cost.py"

BUGS: Final = (
    Bug(
        id="idle-by-volatile-time",
        name="what expires is compared with a function that is called for every row",
        harm="Every prune reads all outcomes there ever were.",
        file="stores/queries/outcomes.sql",
        query="outcome_expire",
        find="and {{ ended(0) }}",
        replace="and until_at <= onceward_now()",
        test=f"{_IDLE}::test_h64_idle_queries_cost_the_same_after_a_long_past[postgres]",
        breaks="R1",
    ),
    Bug(
        id="idle-by-counting",
        name="the console counts the dead letters at every look",
        harm="A page that is open slows the store down by all that ever died.",
        file="stores/queries/console.sql",
        query="area_change_dead",
        find="(select cast(coalesce(sum(number), 0) as bigint) "
        "from onceward_counts where kind = 'dead')",
        replace="(select count(*) from onceward_dead where state = 'dead')",
        test=f"{_IDLE}::test_h64_idle_queries_cost_the_same_after_a_long_past[sqlite]",
        breaks="R1",
    ),
    Bug(
        id="count-not-lowered",
        name="a dead letter that was dropped still counts",
        harm="The console and the metrics show dead letters that do not exist.",
        file="stores/schema/sqlite.sql",
        find="""create trigger onceward_dead_settle after update of state on onceward_dead
when new.state <> 'dead' and old.state = 'dead' begin""",
        replace="""create trigger onceward_dead_settle after update of state on onceward_dead
when new.state = 'redriven' and old.state = 'dead' begin""",
        test="tests/conformance/test_retries_machine.py::test_parked_keys_follow_the_model[sqlite]",
        breaks="R1",
    ),
    Bug(
        id="prune-without-pause",
        name="a pruning begins its next commit at once",
        harm="On SQLite it keeps the write lock from all other processes while it runs.",
        file="stores/batched_deletes.py",
        find="        clock.sleep(min(max(took, PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX))\n",
        replace="        pass\n",
        test="tests/conformance/test_prune_batches.py"
        "::test_another_writer_gets_the_lock_between_any_two_batches[sqlite]",
        breaks="R1",
    ),
    Bug(
        id="history-held-up",
        name="a look at the history begins again where none of the first entries is old",
        harm="After a clock was ahead for a while, the history of all cursors grows for as long.",
        file="workers/pruning.py",
        find="self._history_position = upto if is_full else 0",
        replace="self._history_position = upto if is_full and old else 0",
        test="tests/conformance/workers/test_retention.py"
        "::test_entries_written_by_a_clock_that_was_ahead_do_not_keep_later_ones[sqlite]",
        breaks="R1",
    ),
)
