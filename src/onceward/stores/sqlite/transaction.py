"""Transaction: statements on one connection that happen together or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

import apsw

from onceward.errors import LeaseLost, OutcomeUnknown, SqlFailed
from onceward.seams import Clock, timestamp
from onceward.stores.base import Params, Row, Rows
from onceward.stores.forks import life
from onceward.stores.hooks import Hooks
from onceward.stores.placeholders import for_sqlite
from onceward.stores.queries import query
from onceward.stores.sqlite.connection import kind_of, refusal, translated
from onceward.stores.sqlite.turns import Turns, in_this_thread

#: SQLite takes integers of 64 bits.
INTEGER_BITS: Final = 64


class SqliteTransaction(Hooks):
    """A connection with a transaction that begins at its first write."""

    def __init__(
        self,
        connection: apsw.Connection,
        clock: Clock,
        turns: Turns,
        is_inside: Callable[[], bool] | None = None,
    ) -> None:
        """Use `connection`, and write when `turns` says so.

        `is_inside` says who must not wait for its end; else it is the thread that begins to write.
        """
        super().__init__()
        self._connection = connection
        self._clock = clock
        self._turns = turns
        self._is_inside = is_inside
        self._writing = False
        self._born = life()
        self._life: int | None = self._born
        self._done: list[Callable[[], None]] = []

    @property
    def is_joinable(self) -> bool:
        """Say whether it is still open, in the process that opened it."""
        return self._life == life()

    @property
    def is_of_this_process(self) -> bool:
        """Say whether it was begun here, and not by the parent of a forked child."""
        return self._born == life()

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

    def on_lost(self, call: Callable[[LeaseLost], None]) -> None:
        """Call nobody: here it is seen in the rows of a statement that a lease is lost."""

    def execute(self, sql: str, params: Params = ()) -> Rows:
        """Run one statement of the user's."""
        with translated("sql"):
            kind = kind_of(self._connection, for_sqlite(sql))
        if kind == "control":
            message = f"{sql.split(None, 1)[0].lower()} belongs to the transaction itself"
            raise SqlFailed(message, fix="leave the `with` block to commit, raise to roll back")
        if kind == "write":
            self.begin()
            for call in self._every_write:
                call()
        self._check_alive()
        with translated("sql"):
            before = self._connection.total_changes()
            rows = self._connection.execute(for_sqlite(sql), _bound(params)).fetchall()
            touched = self._connection.total_changes() - before
        return Rows(rows, len(rows) or touched)

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None:
        """Run one statement of the user's for each row."""
        for row in rows:
            self.execute(sql, row)

    def query(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our own statements; the time of now is among its parameters."""
        sql = query("sqlite", name)
        if not self._writing and kind_of(self._connection, sql) == "write":
            self.begin()
        else:
            self._check_alive()
        try:
            return self._connection.execute(sql, timed(self._clock, sql, params)).fetchall()
        except apsw.Error as exc:
            raise refusal(exc, name) from exc

    def query_first(self, name: str, /, **params: object) -> None:
        """Run one of our own statements when the write lock is held."""

        def run() -> None:
            self.query(name, **params)

        self.on_first_write(run)

    def control(self, sql: str) -> None:
        """Run a statement that belongs to the transaction itself, such as a savepoint."""
        with translated(sql):
            self._connection.execute(sql)

    def begin(self) -> None:
        """Take the write lock, unless it is held."""
        if self._writing:
            return
        self._check_alive()
        turn = self._is_inside or in_this_thread()
        try:
            self._turns.take(turn)
            self._connection.execute("begin immediate")
            self._writing = True
        except BaseException as exc:
            # An interrupt may come at any line.
            self._writing = False
            if self._turns.is_of(turn):
                self._is_undone()
                self._turns.give()
            if isinstance(exc, apsw.Error):
                # As on PostgreSQL. A worker can tell by it that the trouble is our own.
                self._is_doomed = True
                raise refusal(exc, "begin") from exc
            raise
        try:
            for call in self._first_write:
                call()
        except BaseException:
            self._is_doomed = True
            raise

    def savepoint(self) -> Callable[[], None]:
        """Return what undoes everything from here on, and nothing before; the latest first."""
        self.begin()
        self.control("savepoint block")
        kept = len(self._last)

        def undo() -> None:
            self._check_alive()
            self.control("rollback to block")
            del self._last[kept:]

        return undo

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
        if self._last:
            self.finish()
            self._check_alive()
        if not self._writing:
            return
        try:
            self._connection.execute("commit")
        except apsw.Error as exc:
            message = f"commit: {exc}"
            raise OutcomeUnknown(message, fix="read before repeating it") from exc
        self._end()
        done, self._done = self._done, []
        for call in done:
            call()

    def roll_back(self) -> None:
        """Undo everything, unless it is the parent's: a child has its memory, not its locks."""
        self._done.clear()
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
        except apsw.ThreadingViolationError:
            return False
        return True

    def _check_alive(self) -> None:
        """Refuse to go on in a transaction that is over: each statement would commit by itself."""
        if self._life != life():
            message = "this transaction has ended"
            raise SqlFailed(message, fix="open one of your own")
        try:
            is_undone = self._writing and not self._connection.in_transaction
        except apsw.Error as exc:  # Another thread is inside a statement.
            raise refusal(exc, "sql") from exc
        if self._is_doomed or is_undone:
            message = "an earlier error has undone this transaction"
            raise SqlFailed(message, fix="let the error leave the `with` block")

    def _end(self) -> None:
        self._writing = False
        self._turns.give()


def timed(clock: Clock, sql: str, params: dict[str, Any]) -> dict[str, Any]:
    """Add the time by which leases are decided, its boot, and the time for people, as asked for."""
    now, boot, wall = _times_in(sql)
    if now:
        params["now"] = clock.boot_seconds()
    if boot:
        params["boot"] = clock.boot_id()
    if wall:
        params["wall"] = timestamp(clock.now())
    return params


@cache
def _times_in(sql: str) -> tuple[bool, ...]:
    return tuple(re.search(rf":{name}\b", sql) is not None for name in ("now", "boot", "wall"))


def _bound(params: Params) -> Any:  # noqa: ANN401 - apsw takes either
    """Check what the user binds: the same values are taken on every engine."""
    values = params.values() if isinstance(params, Mapping) else params
    for value in values:
        if isinstance(value, int) and value.bit_length() >= INTEGER_BITS:
            message = f"the integer {value} does not fit into {INTEGER_BITS} bits"
            raise SqlFailed(message, fix="store it as text")
    return dict(params) if isinstance(params, Mapping) else tuple(params)
