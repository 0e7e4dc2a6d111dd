"""`tx.savepoint()`: back to a place in a transaction, with its rows and its hooks."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import SqlFailed
from onceward.stores import Transaction


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


def test_h56_two_savepoints_undone_keep_no_rows(table: Onceward) -> None:
    """The inner one, then the outer one: each goes back to its own place."""
    with table.transaction() as tx:
        insert(tx, 1)
        outer = tx.savepoint()
        insert(tx, 2)
        inner = tx.savepoint()
        insert(tx, 3)
        inner()
        assert tx.execute("select count(*) from effects") == [(2,)]
        outer()
    assert rows(table) == [1]


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "clean"])
def test_h56_a_savepoint_undone_twice_keeps_no_rows(table: Onceward, is_written: bool) -> None:
    """Undo is idempotent, and undoes what was written since the last time."""
    with table.transaction() as tx:
        if is_written:
            insert(tx, 1)
        undo = tx.savepoint()
        insert(tx, 2)
        undo()
        undo()
        insert(tx, 3)
        undo()
    assert rows(table) == ([1] if is_written else [])


def test_an_outer_savepoint_undoes_the_inner_ones(table: Onceward) -> None:
    """What an inner one would undo is gone already: undoing it changes nothing more."""
    with table.transaction() as tx:
        insert(tx, 1)
        outer = tx.savepoint()
        insert(tx, 2)
        inner = tx.savepoint()
        insert(tx, 3)
        outer()
        insert(tx, 4)
        inner()
    assert rows(table) == [1, 4]


def test_a_released_savepoint_cannot_be_undone(table: Onceward) -> None:
    """Its writes are part of what surrounds it, and only that can be undone."""
    with table.transaction() as tx:
        insert(tx, 1)
        outer = tx.savepoint()
        inner = tx.savepoint()
        insert(tx, 2)
        inner.release()
        with pytest.raises(SqlFailed, match="released"):
            inner()
        outer()
    assert rows(table) == [1]


def test_as_a_block_it_undoes_errors_and_keeps_the_rest(table: Onceward) -> None:
    """`with tx.nested()` undoes what an error leaves, and only that."""
    with table.transaction() as tx:
        with tx.nested():
            insert(tx, 1)
        with suppress(ZeroDivisionError), tx.nested():
            insert(tx, 2)
            raise ZeroDivisionError
        with suppress(SqlFailed), tx.nested():
            insert(tx, 3)
            insert(tx, 3)
        insert(tx, 4)
    assert rows(table) == [1, 4]


def test_a_block_whose_rows_an_outer_undo_took_does_not_end_well(table: Onceward) -> None:
    """It would report writes that are gone; so it raises, and nothing is committed."""
    with pytest.raises(SqlFailed, match="undone"), table.transaction() as tx:
        insert(tx, 1)
        outer = tx.savepoint()
        with tx.nested():
            insert(tx, 2)
            outer()
    assert rows(table) == []


def test_before_the_first_write_there_is_no_savepoint_and_no_lock(table: Onceward) -> None:
    """An undo before any write is a rollback: hooks of the first write run again."""
    called: list[str] = []
    with table.transaction() as tx:
        tx.on_first_write(lambda: called.append("outer"))
        for _ in range(2):
            with suppress(ZeroDivisionError), tx.nested():
                assert not tx.is_writing
                tx.on_first_write(lambda: called.append("inner"))
                insert(tx, 1)
                assert tx.is_writing
                raise ZeroDivisionError
            assert not tx.is_writing
        assert called == ["outer", "inner"] * 2
        insert(tx, 2)
    assert called == ["outer", "inner", "outer", "inner", "outer"]
    assert rows(table) == [2]


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "clean"])
def test_undo_drops_the_hooks_that_were_registered_inside(
    table: Onceward, is_written: bool
) -> None:
    """What an undone call asked of the transaction is not asked any more."""
    called: list[str] = []

    def note(name: str) -> Callable[..., None]:
        return lambda *_: called.append(name)

    with table.transaction() as tx:
        tx.before_every_write(note("outer write"))
        tx.run_with_commit("list_migrations", note("outer last"))
        if is_written:
            insert(tx, 1)
        undo = tx.savepoint()
        tx.before_every_write(note("inner write"))
        tx.run_with_commit("list_migrations", note("inner last"))
        tx.on_first_write(note("inner first"))
        undo()
        called.clear()
        insert(tx, 2)
    assert called == ["outer write", "outer last"]


def test_many_savepoints_leave_no_stack(table: Onceward) -> None:
    """A loop of blocks releases each of them: nothing is left on the server's stack."""
    with table.transaction() as tx:
        insert(tx, 0)
        for number in range(1, 101):
            with suppress(ZeroDivisionError), tx.nested():
                insert(tx, number)
                if number % 2:
                    raise ZeroDivisionError
        undo = tx.savepoint()
        insert(tx, -1)
        undo()
    assert rows(table) == list(range(0, 101, 2))
