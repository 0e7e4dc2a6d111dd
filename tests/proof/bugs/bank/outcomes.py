"""Bugs of outcomes: claims, results, replays."""

from typing import Final

from tests.proof.bugs.bug import Bug

_OUTCOMES: Final = "tests/conformance/test_outcomes.py"
_ONCE: Final = "tests/conformance/test_outcomes_once.py"
_TX: Final = "tests/conformance/test_outcomes_tx.py"
_CALLERS: Final = "tests/conformance/test_middleware_callers.py"
_PRINCIPALS: Final = "tests/conformance/test_middleware_principals.py"
_CANCELS: Final = "tests/conformance/test_middleware_cancels.py"
_DENIALS: Final = "tests/conformance/test_middleware_denials.py"
_MANY: Final = "tests/conformance/test_outcomes_async_many.py"
_NESTED: Final = "tests/conformance/test_outcomes_async_nested.py"
_OPERATORS: Final = "tests/conformance/test_outcomes_operators.py"

BUGS: Final = (
    Bug(
        id="claim-check-then-insert-sqlite",
        name="a claim looks first, and its insert then takes the key of any holder, on SQLite",
        harm="Two callers at the same moment both run: a customer is charged twice.",
        file="stores/queries/fragments.sql",
        query="grantable",
        find="then outcome.owner = excluded.owner",
        replace="then true",
        test=f"{_OUTCOMES}::test_the_insert_alone_decides[sqlite]",
        breaks="I1",
    ),
    Bug(
        id="claim-check-then-insert-postgres",
        name="a claim looks first, and its insert then takes the key of any holder, on PostgreSQL",
        harm="Two callers at the same moment both run: a customer is charged twice.",
        file="stores/queries/fragments.sql",
        query="grantable",
        find="then outcome.owner = excluded.owner",
        replace="then true",
        test=f"{_OUTCOMES}::test_the_insert_alone_decides[postgres]",
        breaks="I1",
    ),
    Bug(
        id="finish-without-fence-sqlite",
        name="a worker that finishes a key need not hold it, on SQLite",
        harm="A worker that was replaced overwrites the result that others already got.",
        file="stores/queries/outcomes.sql",
        query="outcome_settle",
        find="""key = :key and fence = :fence and owner = :owner
  and claimed_at = {{ time(:granted_at) }} and (""",
        replace="key = :key and (",
        test=f"{_OUTCOMES}::test_work_declared_idempotent_is_taken_over[sqlite]",
        breaks="I1",
    ),
    Bug(
        id="finish-without-fence-postgres",
        name="a worker that finishes a key need not hold it, on PostgreSQL",
        harm="A worker that was replaced overwrites the result that others already got.",
        file="stores/queries/outcomes.sql",
        query="outcome_settle",
        find="""key = :key and fence = :fence and owner = :owner
  and claimed_at = {{ time(:granted_at) }} and (""",
        replace="key = :key and (",
        test=f"{_OUTCOMES}::test_work_declared_idempotent_is_taken_over[postgres]",
        breaks="I1",
    ),
    Bug(
        id="settle-in-without-fence",
        name="work in a transaction is recorded though its key was settled meanwhile",
        harm="Two workers both commit the effects of one call.",
        file="stores/queries/outcomes.sql",
        query="outcome_settle_new",
        find="outcome.fence = excluded.fence - 1\n  and (\n    {{ grantable }}\n  )\nreturning",
        replace="true\nreturning",
        test=f"{_TX}::test_the_end_of_work_in_a_transaction_is_fenced[postgres]",
        breaks="I3",
    ),
    Bug(
        id="overtaken-not-checked",
        name="work in a transaction does not look again when it gets the write lock",
        harm="A call that another worker has done by now is done once more.",
        file="outcomes/claims.py",
        find="if not fresh.first_write_check.is_disabled and _find_in(",
        replace="if fresh.first_write_check.is_disabled and _find_in(",
        test=f"{_TX}::test_the_concurrent_caller_that_commits_first_decides[sqlite]",
        breaks="I3",
    ),
    Bug(
        id="outcome-before-effect",
        name="the result is stored before the function runs",
        harm="A crash in between: every later caller learns that it happened, and it did not.",
        file="outcomes/sync_fast_path.py",
        find="value = execution.call(None)",
        replace="outcomes.record(fence, b'null', None)"
        "\n                    value = execution.call(None)",
        test=f"{_ONCE}::test_a_crash_leaves_it_ambiguous[sqlite]",
        breaks="I4",
    ),
    Bug(
        id="ambiguous-rerun",
        name="every claim is kept as idempotent",
        harm="A payment that was cut off in the middle is silently made again.",
        file="outcomes/claims.py",
        find='params["on_crash"] = on_crash',
        replace='params["on_crash"] = "rerun"',
        test=f"{_ONCE}::test_a_crash_leaves_it_ambiguous[sqlite]",
        breaks="I4",
    ),
    Bug(
        id="mismatch-not-checked",
        name="the arguments of a call are not compared with those of the first",
        harm="A caller who used a key twice by mistake gets the answer to another question.",
        file="outcomes/claims.py",
        find="if used_for is not None and used_for != request.fingerprint:",
        replace="if used_for is None and used_for != request.fingerprint:",
        test=f"{_OUTCOMES}::test_other_work_under_the_same_key_is_a_mismatch[sqlite]",
        breaks="I2",
    ),
    Bug(
        id="no-tombstone",
        name="pruning removes keys as soon as their results are over",
        harm="A retry that comes late is taken for new work, and is done again.",
        file="stores/queries/outcomes.sql",
        query="outcome_remove",
        find="and {{ ended(2592000) }}",
        replace="and {{ ended(0) }}",
        test=f"{_OPERATORS}::test_pruning_goes_in_small_batches[sqlite]",
        breaks="I1",
    ),
    Bug(
        id="claim-lease-boundary",
        name="an expired claim counts as alive for ever, on SQLite",
        harm="After a crash no error is raised, and that work can never run again.",
        file="stores/queries/fragments.sql",
        query="outcome_state",
        find="{{ is_running() }} then 'running'",
        replace="state = 'running' and until_at is not null then 'running'",
        test=f"{_OUTCOMES}::test_an_unreported_result_after_the_lease_is_ambiguous[sqlite]",
        breaks="I4",
    ),
    Bug(
        id="step-done-twice",
        name="a step that was intended may be intended again",
        harm="A rerun sends an e-mail again whose sending was cut off, and asks no operator.",
        file="stores/queries/outcomes.sql",
        query="effect_intend",
        find="where effect.state = 'free'",
        replace="where effect.state = 'free' or effect.state = 'intended'",
        test="tests/conformance/test_outcomes_effects.py::test_an_intention_is_not_taken_twice[sqlite]",
        breaks="I4",
    ),
    Bug(
        id="last-word-refused",
        name="a holder that repeats its last word is refused",
        harm="The answer to a commit gets lost, and the caller learns that its work is void.",
        file="outcomes/claims.py",
        find="if rows != [(state, result, failure)]:",
        replace="if rows is not None:",
        test=f"{_OUTCOMES}::test_a_holder_may_repeat_itself[sqlite]",
        breaks="I5",
    ),
    Bug(
        id="caller-not-compared",
        name="the caller of an HTTP request is not part of its fingerprint",
        harm="Another client that knows a key gets the answer that was meant for the first.",
        file="outcomes/request_fingerprint.py",
        find='return f"{payload}{_CALLER}{caller}" if caller or _CALLER in payload else payload',
        replace="return payload",
        test=f"{_CALLERS}::test_h57_another_caller_never_gets_the_answer[sqlite-cookie]",
        breaks="I2",
    ),
    Bug(
        id="principal-not-in-scope",
        name="the keys of all principals are in one scope",
        harm="One user gets the recorded answer of another.",
        file="outcomes/http_caller.py",
        find='return f"{scope} as {named}"',
        replace="return scope",
        test=f"{_PRINCIPALS}::test_h57_every_principal_has_keys_of_its_own[sqlite-user]",
        breaks="I2",
    ),
    Bug(
        id="no-principal-no-comparison",
        name="requests for which `caller=` finds no principal are not compared",
        harm="Where authentication runs too late, every client gets the answers of all others.",
        file="outcomes/http_caller.py",
        find='"" if principal else self.digest(request)',
        replace='""',
        test=f"{_PRINCIPALS}"
        "::test_requests_without_a_principal_are_separated_by_credentials[sqlite-None]",
        breaks="I2",
    ),
    Bug(
        id="denial-recorded",
        name="a 401 is recorded like any other answer",
        harm="A client that has logged in since gets a 401 for a day, whatever it does.",
        file="outcomes/http_exchange.py",
        find="if status in DENIED_STATUSES:",
        replace="if status in ():",
        test=f"{_DENIALS}::test_h57_a_denial_is_not_replayed_after_logging_in[sqlite-401]",
        breaks="I1",
    ),
    Bug(
        id="denied-key-keeps-its-caller",
        name="a key that was freed by a 401 is still compared with its caller, on SQLite",
        harm="A client that logs in is refused as another caller, and its order is never placed.",
        file="stores/queries/outcomes.sql",
        query="outcome_release",
        find="  fingerprint = null,\n",
        replace="",
        test=f"{_DENIALS}::test_h57_a_denial_is_not_replayed_after_logging_in[sqlite-401]",
        breaks="I1",
    ),
    Bug(
        id="place-waited-for-on-the-loop",
        name="a task waits for a place on the event loop's own thread",
        harm="With 33 calls at once the whole application stands still until one is refused.",
        file="outcomes/step_drivers.py",
        find="if not await slots.acquire_async(SLOT_WAIT_SECONDS_MAX):",
        replace="if not slots.acquire(1.0):",
        test=f"{_MANY}::test_h52_the_loop_runs_while_calls_wait_for_a_place[postgres]",
        breaks="I1",
    ),
    Bug(
        id="nested-from-the-same-pool",
        name="a call inside a transaction takes its connection from the pool of transactions",
        harm="Calls that hold a connection wait for one another until they are refused.",
        file="stores/postgres/store.py",
        find="self._opened() if self.current() is None else self._opened_nested()",
        replace="self._opened()",
        test=f"{_NESTED}::test_nested_calls_do_not_wait_for_the_pool_of_their_transaction[postgres]",
        breaks="I1",
    ),
    Bug(
        id="threads-shared-with-those-who-wait",
        name="a call inside a writing transaction uses the threads in which others wait for it",
        harm="With 32 claims at once none of them ever ends, and neither does the writer.",
        file="outcomes/step_drivers.py",
        find='return "in_transaction" if tx is not None and tx.is_writing else "waiting"',
        replace='return "waiting" if tx is not None and tx.is_writing else "waiting"',
        test=f"{_NESTED}::test_a_writing_call_ends_while_all_other_claims_wait_for_it[sqlite]",
        breaks="I1",
        seconds=90.0,
        is_noticed_by_hanging=True,
    ),
    Bug(
        id="commit-on-behalf-of-the-loop",
        name="the event loop counts as inside a transaction that another thread commits",
        harm="A handler that writes at that moment is refused for no reason.",
        file="outcomes/own_transaction.py",
        find="""                self._thread = threading.get_ident()
                record()

        self._thread = None
""",
        replace="                record()\n\n",
        test=f"{_NESTED}::test_a_write_on_the_loop_waits_for_a_commit_in_a_thread[sqlite]",
        breaks="I1",
    ),
    Bug(
        id="commit-needs-the-loop",
        name="a result is recorded in one step and committed in a second one",
        harm="Two calls that update one row stop the event loop for ever.",
        file="outcomes/call_execution.py",
        find="""yield own.commit_step(
                        partial(self.finish_in_own_transaction, own.tx, claim, result)
                    )""",
        replace="""yield BlockingStep(
                        partial(self.finish_in_own_transaction, own.tx, claim, result)
                    )
                    yield own.commit_step(lambda: None)""",
        test=f"{_NESTED}::test_calls_that_update_one_row_do_not_stop_the_loop[postgres]",
        breaks="I1",
        seconds=90.0,
    ),
    Bug(
        id="unstarted-exchange-keeps-its-claim",
        name="a request whose task is cancelled before its first step keeps its claim",
        harm="A server that stops keeps a key running that never began; a retry waits for nothing.",
        file="outcomes/middleware.py",
        find="if not exchange.has_started:",
        replace="if False:",
        test=f"{_CANCELS}::test_a_claim_is_handed_back_when_its_exchange_never_begins[sqlite-both]",
        breaks="I1",
    ),
)
