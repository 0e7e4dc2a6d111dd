"""Transaction: statements on one PostgreSQL connection that happen together or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from onceward.errors import SqlFailed
from onceward.stores.base import Check, Params, Row, Rows
from onceward.stores.placeholders import for_psycopg
from onceward.stores.postgres.refusals import commit_refusal, translated
from onceward.stores.queries import query


class PostgresTransaction:
    """A connection with a transaction that begins at its first statement."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        """Use this connection, which is in autocommit."""
        self._connection = connection
        self._is_open = False
        self._first_write: list[Callable[[], None]] = []
        self._every_write: list[Callable[[], None]] = []
        self._last: list[tuple[str, Check, dict[str, Any]]] = []
        self._process: int | None = os.getpid()
        self._is_doomed = False

    def doom(self) -> None:
        """Let nothing of it be committed, whoever swallows the error that said so."""
        self._is_doomed = True

    @property
    def is_joinable(self) -> bool:
        """Say whether it is still open, in the process that opened it."""
        return self._process == os.getpid()

    def end(self) -> None:
        """Undo what was not committed, and be of no use from now on.

        A task or a thread that was started inside the block still knows of it.
        """
        self.roll_back()
        self._process = None

    @property
    def is_writing(self) -> bool:
        """Say whether the transaction has begun."""
        return self._is_open

    def on_first_write(self, call: Callable[[], None]) -> None:
        """Call this when the transaction begins, before its first statement."""
        self._first_write.append(call)

    def before_every_write(self, call: Callable[[], None]) -> None:
        """Call this before each statement; what it raises stops the statement."""
        self._every_write.append(call)

    def execute(self, sql: str, params: Params = ()) -> Rows:
        """Run one statement of the user's."""
        check_sql(sql)
        self.begin()
        for call in self._every_write:
            call()
        with translated("sql"):
            bound = dict(params) if isinstance(params, Mapping) else tuple(params)
            cursor = self._connection.execute(for_psycopg(sql), bound)
            rows = cursor.fetchall() if cursor.description else []
        return Rows(rows, max(cursor.rowcount, 0))

    def query(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our own statements."""
        self.begin()
        return run(self._connection, name, params)

    def query_last(self, name: str, check: Check, /, **params: object) -> None:
        """Run one of our own statements as the last one, sent together with the commit.

        It must raise in the database when it may not be committed: `check` sees its rows too late.
        """
        self._last.append((name, check, params))

    def begin(self) -> None:
        """Begin, unless it has."""
        if not self.is_joinable:
            message = "this transaction has ended"
            raise SqlFailed(message, fix="open one of your own")
        if self._is_open:
            return
        with translated("begin"):
            self._connection.execute("begin")
        self._is_open = True
        for call in self._first_write:
            call()

    def commit(self) -> None:
        """Make it durable; without an answer nobody knows whether it is."""
        if self._last:
            self.begin()
        if not self._is_open:
            return
        status = self._connection.info.transaction_status
        if self._is_doomed or status == TransactionStatus.INERROR:
            # The server would answer a COMMIT with a silent ROLLBACK.
            message = "commit: an earlier statement of this transaction failed"
            raise SqlFailed(message, fix="let the error leave the `with` block")
        cursors: list[psycopg.Cursor[Row]] = []
        refused: list[psycopg.Error] = []
        try:
            # One round trip. When a last statement raises, the server skips the commit.
            with self._connection.pipeline() if self._last else nullcontext():
                self._send_last(cursors, refused)
        except psycopg.Error as exc:
            refused.append(exc)
        if refused:
            raise commit_refusal(refused[0]) from refused[0]
        self._is_open = False
        for (_, check, _), cursor in zip(self._last, cursors, strict=True):
            done = check(cursor.fetchall())
            if done is not None:
                done()

    def _send_last(self, cursors: list[psycopg.Cursor[Row]], refused: list[psycopg.Error]) -> None:
        """Send what was kept for the end, and the commit.

        A refusal may arrive before all is sent. It is kept, not raised: a pipeline that is left by
        an exception writes to the log.
        """
        try:
            # What the server skips behind a refusal, psycopg would believe to be prepared; so only
            # the first may be.
            prepare = None
            for name, _, params in self._last:
                sql = for_psycopg(query("postgres", name))
                cursors.append(self._connection.execute(sql, params, prepare=prepare))
                prepare = False
            self._connection.execute("commit", prepare=prepare)
        except psycopg.Error as exc:
            refused.append(exc)

    def roll_back(self) -> None:
        """Undo everything."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._connection.execute("rollback")
        except psycopg.Error:
            self._connection.close()  # The server undoes what a lost connection began.


def run(connection: psycopg.Connection[Row], name: str, params: Mapping[str, object]) -> list[Row]:
    """Run one of our own statements on a connection."""
    with translated(name):
        cursor = connection.execute(for_psycopg(query("postgres", name)), params)
        return cursor.fetchall() if cursor.description else []


def check_sql(sql: str) -> None:
    """Refuse statements that belong to the transaction itself."""
    word = sql.split(None, 1)[0].lower() if sql.split() else ""
    if word in {"begin", "commit", "end", "rollback", "savepoint", "release", "abort", "start"}:
        message = f"{word} belongs to the transaction itself"
        raise SqlFailed(message, fix="leave the `with` block to commit, raise to roll back")
