"""@once with `tx`, joined to an open transaction: a call that fails leaves no effects."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import (
    FenceLost,
    JoinedConcurrently,
    LeaseLost,
    RecordedFailure,
    ResultNotStored,
    SqlFailed,
)
from onceward.outcomes import OutcomeState
from onceward.stores import Transaction

SCOPE = "joined"


@pytest.fixture
def table(ow: Onceward) -> Onceward:
    with ow.transaction() as tx:
        tx.execute("create table effects (id bigint, note text)")
    return ow


def rows(ow: Onceward) -> list[Any]:
    with ow.transaction() as tx:
        return [row[0] for row in tx.execute("select id from effects order by id")]


def insert(tx: Transaction, number: int) -> None:
    tx.execute("insert into effects values (?, 'x')", [number])


def failing(ow: Onceward, *errors: BaseException | None) -> Any:
    """Return a joined function that inserts its number, then raises the next of these errors."""
    left = list(errors)

    @ow.once(scope=SCOPE, key=str)
    def work(number: int, tx: Transaction) -> int:
        insert(tx, number)
        error = left.pop(0) if left else None
        if error is not None:
            raise error
        return number

    return work


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "clean"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_h49_a_caught_failure_of_a_joined_call_leaves_nothing(
    table: Onceward, error: type[BaseException], is_written: bool
) -> None:
    """The caller catches and commits: its own rows stay, those of the call do not."""
    work = failing(table, error("once"))
    with table.transaction() as tx:
        if is_written:
            insert(tx, 1)
        with suppress(error):
            work(2)
        insert(tx, 3)
    assert rows(table) == ([1] if is_written else []) + [3]
    assert table.outcomes.show(SCOPE, "2") is None
    assert work(2) == 2
    assert work(2) == 2
    assert rows(table).count(2) == 1


def test_h49_async_calls_are_undone_when_they_fail_or_are_cancelled(table: Onceward) -> None:
    """A cancelled task inside the caller's transaction leaves as little as a failed one."""
    has_written = asyncio.Event()

    @table.once(scope=SCOPE, key=lambda number, **_: str(number))
    async def work(number: int, is_failing: bool, tx: Transaction) -> int:
        insert(tx, number)
        if is_failing:
            raise ValueError
        has_written.set()
        await asyncio.Event().wait()
        return number

    run: Any = work

    async def main() -> None:
        with table.transaction() as tx:
            insert(tx, 1)
            with suppress(ValueError):
                await run(2, is_failing=True)
            task = asyncio.ensure_future(run(3, is_failing=False))
            await has_written.wait()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            insert(tx, 4)

    asyncio.run(main())
    assert rows(table) == [1, 4]
    assert table.outcomes.list() == []


def test_h49_a_result_that_cannot_be_stored_is_done_in_a_joined_call(table: Onceward) -> None:
    """The function returned, so its row and its outcome stay together, and it never runs again."""

    @table.once(scope=SCOPE, key=str)
    def work(number: int, tx: Transaction) -> object:
        insert(tx, number)
        return object()

    run: Any = work
    with table.transaction() as tx:
        insert(tx, 1)
        with pytest.raises(ResultNotStored):
            run(2)
    with pytest.raises(ResultNotStored):
        run(2)
    assert rows(table) == [1, 2]


def test_h49_a_statement_that_fails_in_a_joined_call_spoils_nothing(table: Onceward) -> None:
    """The transaction goes on after the error, on PostgreSQL as well."""

    @table.once(scope=SCOPE, key=str)
    def work(number: int, tx: Transaction) -> None:
        insert(tx, number)
        tx.execute("insert into nowhere values (1)")

    run: Any = work
    with table.transaction() as tx:
        insert(tx, 1)
        with pytest.raises(SqlFailed):
            run(2)
        insert(tx, 3)
    assert rows(table) == [1, 3]


def test_h49_only_the_inner_call_is_undone(table: Onceward) -> None:
    """Nested calls: each one that fails takes its own writes along, and those inside it."""
    inner = failing(table, ValueError(), None, None)

    @table.once(scope="outer", key=lambda number, **_: str(number))
    def outer(number: int, is_failing: bool, tx: Transaction) -> int:
        insert(tx, number)
        with suppress(ValueError):
            inner(number + 1)
        inner(number + 2)
        if is_failing:
            raise ZeroDivisionError
        return number

    run: Any = outer
    with table.transaction() as tx:
        insert(tx, 1)
        run(10, is_failing=False)
        with suppress(ZeroDivisionError):
            run(20, is_failing=True)
        insert(tx, 2)
    assert rows(table) == [1, 2, 10, 12]
    assert {each.key for each in table.outcomes.list(state=OutcomeState.DONE)} == {"10", "12"}


def test_h49_a_call_inside_a_call_of_its_own_transaction_is_joined(table: Onceward) -> None:
    """A function that opened the transaction itself catches what it called, and is recorded."""
    inner = failing(table, ValueError())

    @table.once(scope="outer", key=str)
    def outer(number: int, tx: Transaction) -> int:
        with suppress(ValueError):
            inner(number + 1)
        insert(tx, number)
        return number

    run: Any = outer
    assert run(1) == run(1) == 1
    assert rows(table) == [1]
    assert [each.key for each in table.outcomes.list()] == ["1"]


def test_h49_concurrent_joined_calls_are_rejected(table: Onceward) -> None:
    """`gather` inside one transaction: the second call does not run, and nothing is recorded."""
    first_is_in, is_over = asyncio.Event(), asyncio.Event()

    @table.once(scope=SCOPE, key=str)
    async def work(number: int, tx: Transaction) -> int:
        insert(tx, number)
        first_is_in.set()
        if number == 1:
            await is_over.wait()
        return number

    run: Any = work

    async def second() -> None:
        await first_is_in.wait()
        try:
            with pytest.raises(JoinedConcurrently) as refused:
                await run(2)
        finally:
            is_over.set()
        assert refused.value.code == "JOINED_CONCURRENTLY"

    async def main() -> None:
        with table.transaction():
            await asyncio.gather(run(1), second())
            assert await run(3) == 3

    asyncio.run(main())
    assert rows(table) == [1, 3]
    assert {each.key for each in table.outcomes.list()} == {"1", "3"}


@pytest.mark.parametrize("is_nested", [True, False])
def test_h49_a_call_that_is_still_running_is_not_committed(
    table: Onceward, is_nested: bool
) -> None:
    """A task that outlives the scope it was started in takes that scope down, not half along."""
    has_written = asyncio.Event()

    @table.once(scope=SCOPE, key=str)
    async def work(number: int, tx: Transaction) -> int:
        insert(tx, number)
        has_written.set()
        await asyncio.Event().wait()
        return number

    @table.once(scope="outer", key=str)
    async def outer(number: int, tx: Transaction) -> int:
        insert(tx, number)
        tasks.append(asyncio.ensure_future(run(number + 1)))
        await has_written.wait()
        return number

    run: Any = work
    start: Any = outer
    tasks: list[asyncio.Future[Any]] = []

    async def main() -> None:
        with pytest.raises(JoinedConcurrently), table.transaction() as tx:
            insert(tx, 1)
            if is_nested:
                await start(2)
            else:
                tasks.append(asyncio.ensure_future(run(3)))
                await has_written.wait()
        tasks[0].cancel()
        with suppress(asyncio.CancelledError):
            await tasks[0]

    asyncio.run(main())
    assert rows(table) == []
    assert table.outcomes.list() == []


def test_h49_a_rejected_concurrent_call_does_not_record_its_caller(table: Onceward) -> None:
    """Concurrent calls are a mistake in the program: once it is corrected, the key runs."""
    is_wrong = True

    @table.once(scope=SCOPE, key=str)
    async def work(number: int, tx: Transaction) -> int:
        insert(tx, number)
        await asyncio.sleep(0)
        return number

    @table.once(scope="outer", key=str)
    async def outer(number: int, tx: Transaction) -> list[int]:
        tx.execute("select 1")
        if is_wrong:
            return list(await asyncio.gather(run(number + 1), run(number + 2)))
        return [await run(number + 1), await run(number + 2)]

    run: Any = work
    start: Any = outer

    async def main() -> None:
        nonlocal is_wrong
        with suppress(JoinedConcurrently):  # PostgreSQL may happen to run them one by one.
            await start(1)
        is_wrong = False
        assert await start(1) == [2, 3]

    asyncio.run(main())
    assert rows(table) == [2, 3]


@pytest.mark.parametrize(
    "error", [LeaseLost("cursor", 1, 2), FenceLost("void")], ids=["LeaseLost", "FenceLost"]
)
def test_h49_a_lost_lease_or_fence_ends_the_whole_transaction(
    table: Onceward, error: Exception
) -> None:
    """A caller that catches it cannot commit: not only the call has lost its right to write."""
    work = failing(table, error)
    with pytest.raises(SqlFailed), table.transaction() as tx:
        insert(tx, 1)
        with suppress(type(error)):
            work(2)
    assert rows(table) == []


def test_h49_a_transaction_marked_as_rollback_only_stays_so(table: Onceward) -> None:
    """Undoing a call does not make a transaction good again that must not be committed."""

    @table.once(scope=SCOPE, key=str)
    def work(number: int, tx: Transaction) -> None:
        insert(tx, number)
        tx.mark_rollback_only()
        raise ValueError

    run: Any = work
    with pytest.raises(SqlFailed), table.transaction() as tx:
        insert(tx, 1)
        with suppress(ValueError):
            run(2)
    assert rows(table) == []


def test_h49_a_failure_that_left_a_block_is_recorded_only_when_it_was_the_calls_own(
    table: Onceward,
) -> None:
    """Joined, a failure frees the key; alone, the same failure is recorded."""
    work = failing(table, ValueError("joined"), ValueError("alone"))
    with table.transaction(), suppress(ValueError):
        work(1)
    with pytest.raises(ValueError, match="alone"):
        work(1)
    with pytest.raises(RecordedFailure, match="alone"):
        work(1)
    assert rows(table) == []
