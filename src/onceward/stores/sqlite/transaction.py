"""Transaction: statements on one connection that happen together or not at all."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from onceward.errors import LeaseLost, OncewardError, OutcomeUnknown, SqlFailed
from onceward.seams import Clock, timestamp
from onceward.stores import forks
from onceward.stores.base import Params, Row, Rows
from onceward.stores.hooks import Hooks
from onceward.stores.lending import Lending
from onceward.stores.placeholders import for_sqlite
from onceward.stores.queries import query
from onceward.stores.sqlite.connection import (
    DRIVER_ERRORS,
    Connection,
    ConnectionInUse,
    ConnectionOfParent,
    DriverError,
    kind_of,
    refusal,
    translated,
)
from onceward.stores.sqlite.database import Database
from onceward.stores.sqlite.turns import in_this_thread
from onceward.stores.statements import bound, check_statement

#: What can be bound; the driver would also store dates, as text of its own choice.
_PLAIN: Final = frozenset({int, str, bytes})
_BINDABLE: Final = (int, str, float, bytes, bytearray, memoryview)


class SqliteTransaction(Hooks):
    """A connection with a transaction that begins at its first write."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        database: Database,
        is_inside: Callable[[], bool] | None = None,
    ) -> None:
        """Use `connection`, and write when it is our turn at the database.

        `is_inside` says who must not wait for its end; else it is the thread that begins to write.
        """
        super().__init__()
        self._connection = connection
        self._clock = clock
        self._database = database
        self._turns = database.turns
        self._changes = 0
        self._is_inside = is_inside
        self._writing = False
        self._born = forks.number
        self._life: int | None = self._born
        self._done: list[Callable[[], None]] = []
        self._lending: Lending | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        """Lend the driver's connection to the user's database layer, until the transaction ends.

        Takes the write lock. Its `commit` keeps what was written as part of this transaction, its
        `rollback` undoes what was written since.
        """
        self.begin()
        self._check_alive()
        for call in self._every_write:
            call()
        own = self._connection.own_statements()
        if self._lending is None:
            with translated("savepoint"):
                self._lending = Lending(self._connection.execute, own.writes)
        return own.lend(self._lending)

    @property
    def is_joinable(self) -> bool:
        """Say whether it is still open, in the process that opened it."""
        return self._life == forks.number

    @property
    def is_of_this_process(self) -> bool:
        """Say whether it was begun here, and not by the parent of a forked child."""
        return self._born == forks.number

    def end(self) -> None:
        """Undo what was not committed, and be of no use from now on.

        A task or a thread that was started inside the block still knows of it.
        """
        self._life = None
        self.roll_back()

    @property
    def is_writing(self) -> bool:
        """Say whether the write lock is held."""
        return self._writing

    @property
    def is_open(self) -> bool:
        """Say whether SQLite has the transaction open: some errors undo all of it."""
        return self._connection.in_transaction

    def on_lost(self, call: Callable[[LeaseLost], None]) -> None:
        """Call nobody: here it is seen in the rows of a statement that a lease is lost."""

    def execute(self, sql: str, params: Params = ()) -> Rows:
        """Run one statement of the user's."""
        check_statement(sql, "sqlite")
        values = _storable(params)
        translated_sql = for_sqlite(sql)
        try:
            kind = kind_of(self._connection, translated_sql, values)
            if kind == "write":
                self.begin()
                for call in self._every_write:
                    call()
            self._check_alive()
            rows = self._connection.run(translated_sql, values)
            if kind == "write" and self._lending is not None:
                self._lending.wrote()
        except DRIVER_ERRORS as exc:
            raise refusal(exc, "sql") from exc
        return rows

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None:
        """Run one statement of the user's for each row."""
        for row in rows:
            self.execute(sql, row)

    def query(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our own statements; the time of now is among its parameters."""
        sql, values = statement(self._clock, name, params)
        if not self._writing and kind_of(self._connection, sql, values) == "write":
            self.begin()
        else:
            self._check_alive()
        try:
            rows = self._connection.execute(sql, values)
            if self._lending is not None and kind_of(self._connection, sql, values) == "write":
                self._lending.wrote()
        except DRIVER_ERRORS as exc:
            raise refusal(exc, name) from exc
        return rows

    def query_first(self, name: str, /, **params: object) -> None:
        """Run one of our own statements when the write lock is held."""

        def run() -> None:
            self.query(name, **params)

        self.on_first_write(run)

    def control(self, sql: str) -> None:
        """Run a statement that belongs to the transaction itself, such as a savepoint."""
        with translated(sql):
            self._connection.execute(sql)
            if self._lending is not None:
                self._lending.follow(sql)

    def script(self, sql: str) -> None:
        """Run several statements of ours, such as a migration."""
        self.begin()
        with translated("script"):
            self._connection.script(sql)

    def begin(self) -> None:
        """Take the write lock, unless it is held."""
        if self._writing:
            return
        self._check_alive()
        turn = self._is_inside or in_this_thread()
        try:
            self._turns.take(turn)
            self._connection.execute("begin immediate")
            self._changes = self._connection.raw.total_changes
            self._writing = True
        except BaseException as exc:
            # An interrupt may come at any line.
            self._writing = False
            if self._turns.is_of(turn):
                self._is_undone()
                self._turns.give()
            if isinstance(exc, DRIVER_ERRORS):
                # As on PostgreSQL. A worker can tell by it that the trouble is our own.
                self._is_doomed = True
                raise refusal(exc, "begin") from exc
            raise
        try:
            for call in self._first_write:
                call()
        except BaseException as exc:
            # Nothing was written: the hooks are called again before the next attempt.
            self.roll_back()
            self._is_doomed |= isinstance(exc, Exception)
            raise

    def run_savepoint(self, sql: str) -> None:
        """Run a statement about a savepoint."""
        self._check_alive()
        self.control(sql)

    def finish(self) -> None:
        """Run what was kept for the end; raises if nothing of it may stay."""
        self._check_alive()
        if not self._last:
            return
        last, self._last = self._last, []
        for name, check, params in last:
            done = check(self.query(name, **params))
            if done is not None:
                self._done.append(done)

    def place(self) -> tuple[int, int]:
        """Return how many want to be told so far, for `forget`."""
        return len(self._done), len(self.unknown)

    def forget(self, place: tuple[int, int] = (0, 0)) -> None:
        """Drop what an operation kept for the end, and whom it wanted to be told since `place`."""
        del self._done[place[0] :]
        del self.unknown[place[1] :]
        self.settle()

    def settle(self) -> None:
        """Begin anew for the next operation; whoever is to be told of this one still is."""
        self._is_doomed = False
        self._last.clear()
        self._first_write.clear()
        self._every_write.clear()

    def commit(self) -> None:
        """Make it durable; an error here means that nobody knows whether it is."""
        self._check_alive()
        if self._lending is not None:
            self._take_back(self._lending)
            self._lending = None  # What is kept for the end is no part of it any more.
        if self._last:
            self.finish()
            self._check_alive()
        if not self._writing:
            return
        try:
            self._connection.execute("commit")
        except DRIVER_ERRORS as exc:
            raise commit_refusal(exc) from exc
        rows = self._connection.raw.total_changes - self._changes
        self._database.committed(self._connection, rows)
        self._end()
        done, self._done = self._done, []
        for call in done:
            call()

    def _take_back(self, lending: Lending) -> None:
        """Release the savepoints of the lent connection; nothing is committed if one is gone."""
        try:
            lending.end()
        except DRIVER_ERRORS as exc:
            self._is_doomed = True
            message = f"commit: the lent connection cannot be taken back: {exc}"
            fix = "close its cursors, and release no savepoint of Onceward's; nothing was committed"
            raise SqlFailed(message, fix=fix) from exc

    def roll_back(self) -> None:
        """Undo everything, unless it is the parent's: a child has its memory, not its locks."""
        self._done.clear()
        self._lending = None
        if not self._writing or not self.is_of_this_process:
            return
        try:
            while not self._is_undone():
                # A thread that was left behind is inside a statement: that ends now.
                self._connection.interrupt()
        finally:
            self._end()

    def _is_undone(self) -> bool:
        try:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
        except ConnectionInUse:
            return False
        return True

    def _check_alive(self) -> None:
        """Refuse to go on in a transaction that is over: each statement would commit by itself."""
        if self._life != forks.number:
            message = "this transaction has ended"
            raise SqlFailed(message, fix="open one of your own")
        try:
            is_undone = self._writing and not self._connection.raw.in_transaction
        except sqlite3.ProgrammingError:  # The connection is closed.
            is_undone = True
        if self._is_doomed or is_undone:
            message = "an earlier error has undone this transaction"
            raise SqlFailed(message, fix="let the error leave the `with` block")

    def _end(self) -> None:
        self._writing = False
        self._turns.give()


def commit_refusal(exc: DriverError) -> OncewardError:
    """Return our error for one of the driver's in a commit, which may have happened."""
    if isinstance(exc, ConnectionOfParent):
        return refusal(exc, "commit")
    return OutcomeUnknown(f"commit: {exc}", fix="read before repeating it")


def statement(clock: Clock, name: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return one of our own statements, and its parameters with the times that it asks for.

    Those are the time by which leases are decided, its boot, and the time for people.
    """
    sql = query("sqlite", name)
    now, boot, wall = _times_in(sql)
    if now:
        params["now"] = clock.boot_seconds()
    if boot:
        params["boot"] = clock.boot_id()
    if wall:
        params["wall"] = timestamp(clock.now())
    return sql, params


@cache
def _times_in(sql: str) -> tuple[bool, ...]:
    return tuple(re.search(rf":{name}\b", sql) is not None for name in ("now", "boot", "wall"))


def _storable(params: Params) -> dict[str, Any] | tuple[Any, ...]:
    """Return the parameters for the driver; what it would store as something else is refused."""
    values = bound(params)
    for value in values.values() if isinstance(values, dict) else values:
        if value is None or type(value) in _PLAIN:
            continue
        if not isinstance(value, _BINDABLE):
            message = f"a {type(value).__name__} cannot be bound"
            raise SqlFailed(message, fix="bind None, a number, text or bytes")
        if isinstance(value, float) and math.isnan(value):
            message = "NaN cannot be stored: SQLite would store NULL"
            raise SqlFailed(message, fix="bind None, or store it as text")
    return values
