"""Bugs of outcomes: claims, results, replays."""

from typing import Final

from tests.proof.bugs.bug import Bug

_OUTCOMES: Final = "tests/conformance/test_outcomes.py"
_ONCE: Final = "tests/conformance/test_outcomes_once.py"
_TX: Final = "tests/conformance/test_outcomes_tx.py"
_OPERATORS: Final = "tests/conformance/test_outcomes_operators.py"

BUGS: Final = (
    Bug(
        id="claim-check-then-insert-sqlite",
        name="a claim looks first, and its insert then takes the key whoever has it, on SQLite",
        harm="Two callers at the same moment both run: a customer is charged twice.",
        file="stores/sqlite/pieces/grantable.sql",
        find="then outcome.owner = excluded.owner",
        replace="then true",
        test=f"{_OUTCOMES}::test_the_insert_alone_decides[sqlite]",
        breaks="I1",
    ),
    Bug(
        id="claim-check-then-insert-postgres",
        name="a claim looks first, and its insert then takes the key whoever has it, on PostgreSQL",
        harm="Two callers at the same moment both run: a customer is charged twice.",
        file="stores/postgres/pieces/grantable.sql",
        find="then outcome.owner = excluded.owner",
        replace="then true",
        test=f"{_OUTCOMES}::test_the_insert_alone_decides[postgres]",
        breaks="I1",
    ),
    Bug(
        id="finish-without-fence-sqlite",
        name="whoever finishes a key need not hold it, on SQLite",
        harm="A worker that was replaced overwrites the result that others already got.",
        file="stores/sqlite/outcome_settle.sql",
        find="""key = :key and fence = :fence and owner = :owner
  and claimed_at = :granted_at and (""",
        replace="key = :key and (",
        test=f"{_OUTCOMES}::test_work_declared_harmless_to_repeat_is_taken_over[sqlite]",
        breaks="I1",
    ),
    Bug(
        id="finish-without-fence-postgres",
        name="whoever finishes a key need not hold it, on PostgreSQL",
        harm="A worker that was replaced overwrites the result that others already got.",
        file="stores/postgres/outcome_settle.sql",
        find="""key = :key and fence = :fence and owner = :owner
  and claimed_at = :granted_at::timestamptz
  and (""",
        replace="key = :key and (",
        test=f"{_OUTCOMES}::test_work_declared_harmless_to_repeat_is_taken_over[postgres]",
        breaks="I1",
    ),
    Bug(
        id="settle-in-without-fence",
        name="work in a transaction is recorded though somebody settled its key meanwhile",
        harm="Two workers both commit the effects of one call.",
        file="stores/postgres/outcome_settle_new.sql",
        find="outcome.fence = excluded.fence - 1\n  and (",
        replace="true or (",
        test=f"{_TX}::test_the_end_of_work_in_a_transaction_is_fenced[postgres]",
        breaks="I3",
    ),
    Bug(
        id="overtaken-not-checked",
        name="work in a transaction does not look again when it gets the write lock",
        harm="A call that somebody else has done by now is done once more.",
        file="outcomes/claims.py",
        find="if not fresh.watch.is_over and _look_in(",
        replace="if fresh.watch.is_over and _look_in(",
        test=f"{_TX}::test_a_twin_that_was_quicker_decides[sqlite]",
        breaks="I3",
    ),
    Bug(
        id="outcome-before-effect",
        name="the result is stored before the function runs",
        harm="A crash in between: every later caller is told that it happened, and it did not.",
        file="outcomes/running.py",
        find="ended: Ended = yield Call(partial(self._run, None))",
        replace="yield from self._recorded(partial(outcomes.finish, fence, b'null'))"
        "\n                ended: Ended = yield Call(partial(self._run, None))",
        test=f"{_ONCE}::test_a_crash_leaves_it_ambiguous[sqlite]",
        breaks="I4",
    ),
    Bug(
        id="ambiguous-rerun",
        name="every claim is kept as harmless to repeat",
        harm="A payment that was cut off in the middle is silently made again.",
        file="outcomes/claims.py",
        find="            on_crash=on_crash,\n",
        replace='            on_crash="rerun",\n',
        test=f"{_ONCE}::test_a_crash_leaves_it_ambiguous[sqlite]",
        breaks="I4",
    ),
    Bug(
        id="mismatch-not-checked",
        name="the arguments of a call are not compared with those of the first",
        harm="A caller who used a key twice by mistake gets the answer to another question.",
        file="outcomes/claims.py",
        find="if used_for is not None and used_for != wanted.fingerprint:",
        replace="if used_for is None and used_for != wanted.fingerprint:",
        test=f"{_OUTCOMES}::test_other_work_under_the_same_key_is_a_mismatch[sqlite]",
        breaks="I2",
    ),
    Bug(
        id="no-tombstone",
        name="pruning removes keys as soon as their results are over",
        harm="A retry that comes late is taken for new work, and is done again.",
        file="stores/sqlite/outcome_remove.sql",
        find="""and until_at <= strftime('%Y-%m-%dT%H:%M:%fZ', :wall, '-30 days')
    and (until_boot <> :boot or :now >= until_seconds + 2592000)""",
        replace="""and until_at <= :wall
    and (until_boot <> :boot or :now >= until_seconds)""",
        test=f"{_OPERATORS}::test_pruning_goes_in_small_batches[sqlite]",
        breaks="I1",
    ),
    Bug(
        id="claim-lease-boundary",
        name="a claim that has run out counts as alive for ever, on SQLite",
        harm="After a crash nobody is told, and nobody may ever run that work again.",
        file="stores/sqlite/pieces/standing.sql",
        find="until_boot = :boot and :now < until_seconds then 'running'",
        replace="until_boot = :boot then 'running'",
        test=f"{_OUTCOMES}::test_silence_after_the_lease_is_ambiguous[sqlite]",
        breaks="I4",
    ),
    Bug(
        id="step-done-twice",
        name="a step that was intended may be intended again",
        harm="A rerun sends an e-mail again whose sending was cut off, and asks nobody.",
        file="stores/sqlite/effect_intend.sql",
        find="where effect.state = 'free'",
        replace="where effect.state = 'free' or effect.state = 'intended'",
        test="tests/conformance/test_outcomes_effects.py::test_an_intention_is_not_taken_twice[sqlite]",
        breaks="I4",
    ),
    Bug(
        id="last-word-refused",
        name="a holder that repeats its last word is refused",
        harm="The answer to a commit gets lost, and the caller is told that its work is void.",
        file="outcomes/claims.py",
        find="if rows != [(state, result, failure)]:",
        replace="if rows is not None:",
        test=f"{_OUTCOMES}::test_a_holder_may_repeat_itself[sqlite]",
        breaks="I5",
    ),
)
