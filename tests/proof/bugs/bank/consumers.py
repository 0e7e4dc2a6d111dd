"""Bugs of consumers whose workers die, whose messages fail, or whose source is refused."""

from typing import Final

from tests.proof.bugs.bug import Bug

_DEATHS: Final = "tests/conformance/workers/test_worker_deaths.py"
_FAILING: Final = "tests/conformance/workers/test_failing_consumers.py"
_REFUSED: Final = "tests/conformance/workers/test_source_refused.py"

BUGS: Final = (
    Bug(
        id="death-ends-the-schedule",
        name="a worker's death while a message is decoded makes it a dead letter at once",
        harm="Every kill at the wrong moment gives up an innocent message, whatever `retry=` says.",
        file="workers/message_processing.py",
        find="return NO_RETRY if isinstance(error, Reject | PoisonMessage)",
        replace="return NO_RETRY if isinstance(error, Reject | PoisonMessage | WorkerDied)",
        test=f"{_DEATHS}"
        "::test_h59_a_death_is_an_attempt_of_the_message_and_no_more[sqlite-cursor-decoding]",
        breaks="R1",
    ),
    Bug(
        id="poison-not-counted",
        name="deaths at a message are attempts like any other, however many",
        harm="A message that kills ends a worker at every attempt, for as long as `retry=` allows.",
        file="workers/message_processing.py",
        find="is_poison = count >= self._consumer.poison_deaths",
        replace="is_poison = count < 0",
        test=f"{_DEATHS}"
        "::test_h59_three_deaths_at_one_message_make_it_poison[sqlite-cursor-handling]",
        breaks="W2",
    ),
    Bug(
        id="held-attempts-not-parked",
        name="a message that is parked after it held its cursor begins at its first attempt",
        harm="Its schedule begins again, and it waits for hours longer than `retry=` says.",
        file="retries/parked.py",
        find="attempt = (known.attempt if known else 0) + bool(failure)",
        replace="attempt = 1 if failure else 0",
        test=f"{_DEATHS}::test_h59_failures_and_deaths_are_counted_together[sqlite-key-stages0]",
        breaks="R1",
    ),
    Bug(
        id="unknown-key-passed",
        name="a message with an unreadable key does not look whether its key waits",
        harm="A cancellation is handled before the order that it cancels.",
        file="workers/message_processing.py",
        find="""        if is_new:
            self._find_blocked_keys([entry])
""",
        replace="",
        test=f"{_DEATHS}::test_a_message_held_while_unreadable_is_queued_after_its_key[sqlite]",
        breaks="R1",
    ),
    Bug(
        id="death-blamed-on-decoding",
        name="a death while handling becomes one of decoding when the store is away",
        harm="A message with a key holds its cursor, and operators suspect its bytes.",
        file="workers/poison_guard.py",
        find="self._note(position, _STAGE_NUMBERS[self.abandoned[position]], _DEAD_WORKER)",
        replace="pass",
        test=f"{_DEATHS}::"
        "test_a_death_while_handling_is_still_one_after_a_store_failure[sqlite-other]",
        breaks="R1",
    ),
    Bug(
        id="living-worker-blamed",
        name="a note that a worker could not remove counts as its own death",
        harm="A store that is away for a moment costs innocent messages their attempts.",
        file="workers/poison_guard.py",
        find="is_own = found.failures[-1].error == self._lease.worker",
        replace="is_own = not found.failures",
        test=f"{_DEATHS}::test_a_worker_that_lives_blames_no_message[sqlite-handling]",
        breaks="R1",
    ),
    Bug(
        id="failures-not-counted",
        name="parking a failed message counts as a success",
        harm="Every message of a consumer fails, and its error count is 0: no alert for an hour.",
        file="workers/message_processing.py",
        find="self._lease.checkpoint(kept.position, tx, count=0, failed=1)",
        replace="self._lease.checkpoint(kept.position, tx, count=0)",
        test=f"{_FAILING}::test_every_failed_attempt_counts[sqlite-none]",
        breaks="R1",
    ),
    Bug(
        id="parked-not-in-lag",
        name="parked messages are not part of the lag",
        harm="A consumer that parks everything looks as if it had caught up.",
        file="workers/lag_sampler.py",
        find="lag.messages + parked,",
        replace="lag.messages,",
        test=f"{_FAILING}"
        "::test_h60_twenty_of_twenty_failing_messages_are_reported_within_a_minute[sqlite-none-None]",
        breaks="R1",
    ),
    Bug(
        id="refusal-told-at-every-look",  # wording: data
        name="a source that is refused is logged at every look",
        harm="One missing index fills the log, and hides everything else.",
        file="workers/telemetry.py",
        find="if self._refused_sources.get(cursor) == problem:",
        replace="if not problem:",
        test=f"{_REFUSED}::test_a_refused_source_is_logged_once_with_what_to_run[sqlite]",
        breaks="W1",
    ),
    Bug(
        id="refused-and-clean",
        name="a run in which a source was refused is clean",
        harm="A deployment whose table lacks a column looks like one that had nothing to do.",
        file="workers/worker.py",
        find="is_clean = is_ended and not self.telemetry.has_refused_sources",
        replace="is_clean = is_ended",
        test=f"{_REFUSED}::test_a_run_in_which_a_source_was_refused_is_not_clean[sqlite]",
        breaks="W1",
    ),
    Bug(
        id="column-dropped",
        name="preparing a table drops a column of another type",
        harm="Whatever that column held is gone, because of a name.",
        file="workers/sources/postgres_plan.py",
        find="is_safe = xid not in columns or columns[xid][2] == _XID_TYPE",
        replace="is_safe = True",
        test=f"{_REFUSED}::test_prepare_leaves_to_a_person_what_could_lose_something[postgres]",
        breaks="W1",
    ),
)
