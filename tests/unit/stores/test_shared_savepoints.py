"""Lending: savepoints of a lent connection among those that others set."""

import sqlite3
from contextlib import closing, nullcontext
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.errors import SqlFailed
from onceward.stores.shared_savepoints import LentSavepoints

#: What the user's database layer does, and what happens to savepoints around it.
STEPS = st.lists(
    st.sampled_from(
        ["write", "write_by_tx", "commit", "rollback", "enter", "undo", "leave", "fail"]
    ),
    max_size=25,
)


@dataclass
class Level:
    """What one block knows."""

    #: Rows at its start.
    start: int = 0
    #: Rows that a rollback leaves.
    kept: int = 0
    #: Whether the user's layer has unfinished writes, and whether `tx` has written after them.
    is_dirty: bool = False
    is_mixed: bool = False
    #: The number of all writes up to its start.
    number: int = 0


class World:
    """A lent connection, and a model of the rows that must be there."""

    def __init__(self, connection: sqlite3.Connection, blocks: int) -> None:
        self.connection = connection
        self.rows: list[int] = []
        self.number = self.theirs = 0
        self.is_spoilt = False
        self.levels = [Level() for _ in range(blocks + 1)]
        connection.execute("create table rows (number integer)")
        connection.execute("begin")
        for each in range(1, blocks + 1):
            connection.execute(f"savepoint block_{each}")
        #: Blocks around the place where the connection was lent.
        self.outer = blocks
        self.lending = LentSavepoints(connection.execute, lambda: self.theirs)

    @property
    def level(self) -> Level:
        return self.levels[-1]

    def control(self, word: str) -> None:
        sql = f"{word} block_{len(self.levels) - 1}"
        self.connection.execute(sql)
        self.lending.follow(sql)

    def clean(self, kept: int) -> None:
        self.level.kept, self.level.is_dirty, self.level.is_mixed = kept, False, False

    def insert(self) -> None:
        self.number += 1
        self.connection.execute("insert into rows values (?)", [self.number])
        self.rows.append(self.number)

    def write(self) -> None:
        self.insert()
        self.theirs += 1
        self.level.is_dirty = True

    def write_by_tx(self) -> None:
        self.insert()
        self.lending.wrote()
        self.keep_if_clean()

    def keep_if_clean(self) -> None:
        if self.level.is_dirty:
            self.level.is_mixed = True
        else:
            self.level.kept = len(self.rows)

    def commit(self) -> None:
        self.lending.commit()
        self.clean(len(self.rows))

    def rollback(self) -> None:
        self.lending.roll_back()
        if self.level.is_mixed:
            self.is_spoilt = True
        else:
            del self.rows[self.level.kept :]
            self.clean(len(self.rows))

    def enter(self) -> None:
        size = len(self.rows)
        self.levels.append(Level(start=size, kept=size, number=self.number))
        self.control("savepoint")

    def undo(self) -> None:
        if len(self.levels) > 1:
            self.control("rollback to")
            del self.rows[self.level.start :]
            self.clean(len(self.rows))

    def leave(self) -> None:
        if len(self.levels) == 1:
            return
        self.control("release")
        number = self.levels.pop().number
        if len(self.levels) <= self.outer:
            self.outer = len(self.levels) - 1
            self.clean(len(self.rows))
        elif number != self.number:
            self.keep_if_clean()

    def fail(self) -> None:
        self.undo()
        self.leave()


@given(steps=STEPS, blocks=st.integers(0, 2))
def test_commit_and_rollback_stay_inside_the_innermost_block(steps: list[str], blocks: int) -> None:
    """Whatever is done in whatever order, the rows are those that a model of it keeps."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        world = World(connection, blocks)
        for step in steps:
            getattr(world, step)()
            found = connection.execute("select number from rows").fetchall()
            assert [row[0] for row in found] == world.rows
        with pytest.raises(SqlFailed) if world.is_spoilt else nullcontext():
            world.lending.end()


def test_a_new_transaction_is_distinguished_from_the_one_that_was_lent() -> None:
    """After a foreign COMMIT the first savepoint is gone, whatever others were set since."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("begin")
        lending = LentSavepoints(connection.execute, lambda: 0)
        connection.execute("commit")
        connection.execute("begin")
        connection.execute("savepoint inner")
        lending.follow("savepoint inner")
        lending.commit()
        with pytest.raises(sqlite3.OperationalError, match="no such savepoint"):
            lending.end()
