"""Joined calls among their neighbours: concurrent callers, workers, handlers, lost connections."""

import threading
from contextlib import suppress
from typing import Any

import pytest
from fastapi import FastAPI, Request

from onceward.client import Onceward
from onceward.errors import LeaseLost, OncewardError, SqlFailed
from onceward.outcomes import IdempotencyMiddleware, OutcomeState
from onceward.stores import Transaction
from onceward.workers import App, Message
from tests.support.list_source import ListSource
from tests.support.middleware_calls import call
from tests.support.running_worker import drain


@pytest.fixture
def table(ow: Onceward) -> Onceward:
    with ow.transaction() as tx:
        tx.execute("create table effects (id bigint primary key)")
    return ow


def rows(ow: Onceward) -> list[Any]:
    with ow.transaction() as tx:
        return [row[0] for row in tx.execute("select id from effects order by id")]


def insert(tx: Transaction, number: int) -> None:
    tx.execute("insert into effects values (?)", [number])


def in_thread(work: Any) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.mark.parametrize("is_inner_first", [False, True])
def test_h49_a_joined_call_that_was_overtaken_replays(
    table: Onceward, is_inner_first: bool
) -> None:
    """On SQLite a concurrent caller may finish first: the joined call gets its outcome.

    Also when the first write, where that is found, is that of a call inside the joined one.
    """
    if table.store.engine == "postgres":
        return  # The key is locked there: the concurrent caller gets an in-flight error.
    is_first = True

    @table.once(scope="inner", key=str)
    def inner(number: int, tx: Transaction) -> int:
        insert(tx, number)
        return number

    @table.once(scope="outer", key="k")
    def outer(tx: Transaction) -> str:
        nonlocal is_first
        was_first, is_first = is_first, False
        if was_first:
            in_thread(run)
        if is_inner_first:
            with suppress(Exception):
                step(10 if was_first else 11)
        insert(tx, 1)
        return "first" if was_first else "second"

    run: Any = outer
    step: Any = inner
    with table.transaction() as tx:
        assert run() == "second"
        insert(tx, 2)
    assert rows(table) == ([1, 2, 11] if is_inner_first else [1, 2])


def test_h49_a_handler_that_catches_a_joined_call_goes_on(table: Onceward) -> None:
    """The message is done with the handler's rows; those of the failed call are not there."""
    app = App(table)
    failures = [True, False]

    @table.once(scope="step", key=str)
    def step(number: int, tx: Transaction) -> int:
        insert(tx, 10 * number)
        if failures.pop(0):
            raise ValueError
        return number

    run: Any = step

    @app.consumer("numbers", source=ListSource(1, 2))
    def handle(message: Message, tx: Transaction) -> None:
        with suppress(ValueError):
            run(message.data)
        insert(tx, message.data)

    drain(app)
    assert rows(table) == [1, 2, 20]
    assert table.cursors.show("numbers").position is not None
    assert [each.key for each in table.outcomes.list(scope="step")] == ["2"]


def test_h49_a_lease_lost_inside_a_joined_call_ends_the_whole_transaction(
    table: Onceward,
) -> None:
    """A caller that catches LeaseLost cannot commit what it wrote under the lease."""
    lease = table.cursors.acquire("numbers", "w1", 60.0)
    assert lease is not None

    @table.once(scope="step", key=str)
    def step(number: int, tx: Transaction) -> int:
        lease.lost.set()  # As the heartbeat does.
        insert(tx, number)
        return number

    run: Any = step
    with pytest.raises(SqlFailed), table.transaction() as tx:
        lease.watch(tx)
        insert(tx, 1)
        with pytest.raises(LeaseLost):
            run(2)
    assert rows(table) == []


def test_h49_a_transaction_that_the_database_ended_is_not_committed(table: Onceward) -> None:
    """A lost connection, or a conflict that rolls back: what came before the call is gone, too."""
    ending = {
        "sqlite": "insert or rollback into effects values (1)",
        "postgres": "select pg_terminate_backend(pg_backend_pid())",
    }[table.store.engine]

    @table.once(scope="step", key=str)
    def step(number: int, tx: Transaction) -> int:
        insert(tx, number)
        tx.execute(ending)
        return number

    run: Any = step
    with pytest.raises(OncewardError), table.transaction() as tx:
        insert(tx, 1)
        with suppress(OncewardError):
            run(2)
    assert rows(table) == []
    assert table.outcomes.list() == []


@pytest.mark.parametrize("is_second_block", [False, True])
def test_h49_a_request_that_catches_a_joined_call_is_answered(
    table: Onceward, is_second_block: bool
) -> None:
    """The answer is recorded with the handler's rows, in each of its blocks."""
    app = FastAPI()

    @table.once(scope="step", key=str)
    def step(number: int, tx: Transaction) -> int:
        insert(tx, number)
        raise ValueError

    run: Any = step

    @app.post("/orders")
    def order(request: Request) -> dict[str, bool]:
        claim = request.scope["onceward"]
        if is_second_block:
            with claim.transaction() as tx:
                insert(tx, 1)
            with suppress(ZeroDivisionError), claim.transaction() as tx:
                insert(tx, 2)
                raise ZeroDivisionError
        with claim.transaction() as tx:
            insert(tx, 3)
            with suppress(ValueError):
                run(4)
            insert(tx, 5)
        return {"ok": True}

    app.add_middleware(IdempotencyMiddleware, store=table)
    for _ in range(2):
        assert call(app, "/orders").status_code == 200
    assert rows(table) == ([1, 3, 5] if is_second_block else [3, 5])
    assert [each.state for each in table.outcomes.list()] == [OutcomeState.DONE]
