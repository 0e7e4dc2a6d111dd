"""@once with `tx`: claim, effects and outcome in one commit, on SQLite and PostgreSQL."""

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import (
    FenceLost,
    InvalidArgument,
    KeyInFlight,
    RecordedFailure,
    ResultNotStored,
    Retryable,
    SqlFailed,
)
from onceward.outcomes import Fresh, InFlight, OutcomeState, Replay, effect
from onceward.outcomes.claims import KeyAlreadySettled
from onceward.stores import Transaction
from onceward.system.crash_points import Crashed
from onceward.testing.moving_time import MovingTime


@pytest.fixture
def table(ow: Onceward) -> Onceward:
    with ow.transaction() as tx:
        tx.execute("create table effects (id bigint, note text)")
    return ow


def effects(ow: Onceward) -> list[Any]:
    with ow.transaction() as tx:
        return [row[0] for row in tx.execute("select id from effects order by id")]


def insert(tx: Transaction, number: int) -> dict[str, int]:
    tx.execute("insert into effects values (?, 'x')", [number])
    return {"number": number}


def test_effect_and_outcome_are_committed_together(table: Onceward) -> None:
    """A reader from outside sees both or neither; a second call replays."""

    @table.once()
    def charge(number: int, tx: Transaction) -> dict[str, int]:
        result = insert(tx, number)
        seen: list[Any] = []
        looking = threading.Thread(target=lambda: seen.extend(table.outcomes.list()))
        looking.start()
        looking.join()
        assert seen == []
        return result

    run: Any = charge
    assert run(1) == run(1) == run(number=1) == {"number": 1}
    assert effects(table) == [1]
    (found,) = table.outcomes.list()
    assert (found.state, found.fence) == (OutcomeState.DONE, 1)


@pytest.mark.parametrize("place", ["first", "middle", "last", "named"])
def test_the_transaction_is_put_where_the_function_wants_it(table: Onceward, place: str) -> None:
    """Callers pass the other arguments as if `tx` were not there."""

    def first(tx: Transaction, number: int, note: str = "n") -> list[object]:
        return [insert(tx, number), note]

    def middle(number: int, tx: Transaction, note: str = "n") -> list[object]:
        return [insert(tx, number), note]

    def last(number: int, note: str = "n", tx: Transaction | None = None) -> list[object]:
        assert tx is not None
        return [insert(tx, number), note]

    def named(number: int, note: str = "n", *, tx: Transaction) -> list[object]:
        return [insert(tx, number), note]

    function = {"first": first, "middle": middle, "last": last, "named": named}[place]
    run: Any = table.once()(function)  # type: ignore[arg-type]
    assert run(1, "m") == run(1, note="m") == [{"number": 1}, "m"]
    assert run(2) == run(2, "n") == [{"number": 2}, "n"]
    assert effects(table) == [1, 2]


def leave_no_trace(table: Onceward, error: type[BaseException], **options: Any) -> list[int]:
    """Fail after the effect, see that nothing is left, and call again; return who lived."""
    lives: list[int] = []

    @table.once(**options)
    def charge(number: int, tx: Transaction) -> dict[str, int]:
        lives.append(number)
        result = insert(tx, number)
        if len(lives) == 1:
            raise error
        return result

    run: Any = charge
    with pytest.raises(error):
        run(1)
    assert (effects(table), table.outcomes.list()) == ([], [])
    assert run(1) == {"number": 1}
    return lives


def test_a_crash_leaves_nothing_and_it_runs_again_at_once(table: Onceward) -> None:
    """No lease to wait for, nothing ambiguous: nothing happened."""
    lives = leave_no_trace(table, Crashed)
    assert (effects(table), len(lives)) == ([1], 2)


def test_a_failure_undoes_the_effects_and_is_recorded(table: Onceward) -> None:
    """The second caller gets the failure, and the function does not run again."""

    @table.once()
    def charge(number: int, tx: Transaction) -> None:
        insert(tx, number)
        raise ValueError(number)

    run: Any = charge
    with pytest.raises(ValueError, match="1"):
        run(1)
    with pytest.raises(RecordedFailure, match="ValueError: 1"):
        run(1)
    assert effects(table) == []


@pytest.mark.parametrize("error", [Retryable, ConnectionError])
def test_a_retryable_failure_leaves_no_trace(table: Onceward, error: type[Exception]) -> None:
    """Everything is undone, and the next call runs."""
    leave_no_trace(table, error, retry_on=(ConnectionError,))


def test_a_bad_statement_is_a_failure_and_a_bad_result_is_done(table: Onceward) -> None:
    """A statement that fails undoes what was written; a result that cannot be stored keeps it."""

    @table.once(key="sql")
    def bad_sql(tx: Transaction) -> None:
        insert(tx, 1)
        tx.execute("insert into nowhere values (1)")

    @table.once(key="result")
    def bad_result(tx: Transaction) -> object:
        insert(tx, 2)
        return {1, 2}

    not_stored = (ResultNotStored, ResultNotStored)
    for run, errors in ((bad_sql, (SqlFailed, RecordedFailure)), (bad_result, not_stored)):
        call: Any = run
        for kind in errors:
            with pytest.raises(kind):
                call()
    assert effects(table) == [2]


def test_the_concurrent_caller_that_commits_first_decides(ow_url: str) -> None:
    """Two work at once; what the slower one wrote is undone, and both get the same result."""
    with open_handle(ow_url) as table:  # By a clock that runs: waiting moves a manual one.
        with table.transaction() as tx:
            tx.execute("create table effects (id bigint, note text)")
        _race(table)


def _race(table: Onceward) -> None:
    first_in, go_on = threading.Event(), threading.Event()
    lives: list[str] = []
    wrote: list[str] = []

    @table.once(key="k", wait=60)
    def charge(tx: Transaction) -> str:
        name = threading.current_thread().name
        lives.append(name)
        if name == "slow":
            # Nothing is written yet: on SQLite this blocks no other writer.
            first_in.set()
            assert go_on.wait(60)
        insert(tx, 1)
        wrote.append(name)
        return name

    results: dict[str, str] = {}
    run: Any = charge

    def work() -> None:
        results[threading.current_thread().name] = run()

    slow = threading.Thread(target=work, name="slow")
    slow.start()
    assert first_in.wait(60)
    if table.store.engine == "sqlite":
        quick = threading.Thread(target=work, name="quick")
        quick.start()
        quick.join()
        go_on.set()
    else:
        # Seen at once by the lock of the key, instead of waited for by the server.
        other = table.once(key="k", scope=f"{charge.__module__}.{charge.__qualname__}")
        impatient: Any = other(charge.__wrapped__)  # type: ignore[attr-defined]
        with pytest.raises(KeyInFlight):
            impatient()
        quick = threading.Thread(target=work, name="quick")
        quick.start()
        go_on.set()
        quick.join()
    slow.join()
    assert len(set(results.values())) == 1
    assert set(results) == {"slow", "quick"}
    assert len(wrote) == 1, "the slower one was not stopped at its first write"
    assert effects(table) == [1]


def test_being_overtaken_cannot_be_swallowed(table: Onceward) -> None:
    """A function that catches every Exception still stops when a concurrent call has succeeded."""
    names: list[str] = []
    refused: list[Exception] = []

    @table.once(key="k")
    def charge(tx: Transaction) -> str:
        names.append(threading.current_thread().name)
        if len(names) == 1:
            other = threading.Thread(target=call)
            other.start()
            other.join()
        with contextlib.suppress(Exception):
            insert(tx, 1)
        return threading.current_thread().name

    def call() -> str | None:
        run: Any = charge
        try:
            result: str = run()
        except KeyInFlight as exc:  # On PostgreSQL the other call sees at once that we are at it.
            refused.append(exc)
            return None
        return result

    assert call() == names[-1]
    assert effects(table) == [1]
    assert (len(names), len(refused)) == ((2, 0) if table.store.engine == "sqlite" else (1, 1))


def test_a_failed_call_returns_the_result_of_a_concurrent_success(table: Onceward) -> None:
    """A failure that loses to a concurrent success is neither recorded nor raised."""
    fails = [True]

    @table.once(key="k")
    def charge(tx: Transaction) -> dict[str, int]:
        if fails.pop():
            raise ZeroDivisionError
        return insert(tx, 1)

    run: Any = charge
    record = table.outcomes.fail_after

    def overtaken(*args: Any, **kwargs: Any) -> None:
        fails.append(False)
        run()
        record(*args, **kwargs)

    table.outcomes.fail_after = overtaken  # type: ignore[method-assign]
    assert run() == run() == {"number": 1}
    assert effects(table) == [1]


def test_it_joins_the_callers_transaction(table: Onceward) -> None:
    """The caller decides: rolled back, neither effect nor outcome stays; committed, both do."""

    def charge(number: int, tx: Transaction) -> dict[str, int]:
        return insert(tx, number)

    run: Any = table.once()(charge)
    with pytest.raises(ZeroDivisionError), table.transaction():
        run(1)
        assert run(1) == {"number": 1}
        raise ZeroDivisionError
    assert (effects(table), table.outcomes.list()) == ([], [])
    with table.transaction() as tx:
        insert(tx, 0)
        run(1)
    assert effects(table) == [0, 1]
    assert run(1) == {"number": 1}


def test_a_failed_joined_call_does_not_affect_later_writes(table: Onceward) -> None:
    """A function that failed before it wrote does not stop the caller's own first write later."""

    def fail(tx: Transaction) -> None:
        assert not tx.is_writing or table.store.engine == "postgres"
        raise Retryable

    run: Any = table.once(key="k")(fail)
    with table.transaction() as tx:
        with pytest.raises(Retryable):
            run()
        if table.store.engine == "sqlite":
            done: Any = table.once(key="k", scope=_scope(fail))(concurrent_call)
            thread = threading.Thread(target=done)
            thread.start()
            thread.join()
        insert(tx, 1)
    assert effects(table) == [1]


def concurrent_call(tx: Transaction) -> bool:
    return tx.is_writing


def _scope(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def test_claims_of_both_kinds_respect_each_other(table: Onceward) -> None:
    """A claim in its own commit is seen by work in a transaction, and the other way round."""
    asked: dict[str, Any] = {"fingerprint": "f"}
    apart = table.outcomes.claim("s", "k", owner="w1", **asked)
    assert isinstance(apart, Fresh)
    with table.transaction() as tx:
        found = table.outcomes.claim_in(tx, "s", "k", owner="w2", **asked)
        assert isinstance(found, InFlight)
    table.outcomes.finish(apart.fence, b"1")
    with table.transaction() as tx:
        found = table.outcomes.claim_in(tx, "s", "k", owner="w2", **asked)
        assert found == Replay(b"1")
    if table.store.engine == "postgres":
        with table.transaction() as tx:
            assert isinstance(table.outcomes.claim_in(tx, "s", "k2", owner="w2", **asked), Fresh)
            found = table.outcomes.claim("s", "k2", owner="w3", **asked)
            assert isinstance(found, InFlight)


def test_the_end_of_work_in_a_transaction_is_fenced(table: Onceward, ow_time: MovingTime) -> None:
    """A holder that came back and finished first wins; the transaction is refused as a whole."""
    asked: dict[str, Any] = {"fingerprint": "f"}
    late = table.outcomes.claim("s", "k", owner="w1", on_crash="rerun", **asked)
    assert isinstance(late, Fresh)
    ow_time.advance(seconds=61)
    with pytest.raises((FenceLost, KeyAlreadySettled)), table.transaction() as tx:
        fresh = table.outcomes.claim_in(tx, "s", "k", owner="w2", **asked)
        assert isinstance(fresh, Fresh)
        table.outcomes.finish(late.fence, b'"late"')
        insert(tx, 1)
        table.outcomes.finish_in(tx, fresh.fence, b'"new"')
    assert effects(table) == []
    assert table.outcomes.claim("s", "k", owner="w3", **asked) == Replay(b'"late"')


def test_a_grant_in_a_transaction_is_good_once(table: Onceward) -> None:
    """Kept and used again in a later transaction, it is refused."""
    with table.transaction() as tx:
        fresh = table.outcomes.claim_in(tx, "s", "k", fingerprint="f", owner="w1")
        assert isinstance(fresh, Fresh)
        table.outcomes.finish_in(tx, fresh.fence, b"1")
    with pytest.raises(FenceLost), table.transaction() as tx:
        table.outcomes.finish_in(tx, fresh.fence, b"2")
    assert table.outcomes.claim("s", "k", fingerprint="f", owner="w2") == Replay(b"1")


def test_async_calls_in_transactions_are_serialized(table: Onceward) -> None:
    """Eight tasks write in transactions on one loop; none is refused for another's sake."""

    @table.once()
    async def charge(number: int, tx: Transaction) -> dict[str, int]:
        await asyncio.sleep(0)
        result = insert(tx, number)
        await asyncio.sleep(0)
        return result

    run: Any = charge

    async def main() -> list[Any]:
        return await asyncio.gather(*(run(number) for number in range(8)))

    assert asyncio.run(main()) == [{"number": number} for number in range(8)]
    assert asyncio.run(main()) == [{"number": number} for number in range(8)]
    assert effects(table) == list(range(8))


def test_effects_of_their_own_do_not_belong_in_a_transaction(table: Onceward) -> None:
    """A step is durable before it happens, which nothing inside a transaction is."""

    @table.once()
    def charge(tx: Transaction) -> None:
        effect("step", lambda: insert(tx, 1))

    run: Any = charge
    with pytest.raises(InvalidArgument, match="takes `tx`"):
        run()
    assert effects(table) == []
