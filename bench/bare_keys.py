"""Run idempotent calls as bare commits: the lower limit that `once` is compared with."""

import sqlite3
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import psycopg

TABLES = (
    "create table bare_keys (key text primary key, state text, result text)",
    "create table bare_effects (id bigint)",
)


class BareKeys(Protocol):
    """What each call comes down to."""

    def two_commits(self, number: int) -> None:
        """Claim a key, and finish it."""

    def one_commit(self, number: int) -> None:
        """Record a key together with an effect."""

    def select(self, number: int) -> object:
        """Look a key up."""


class SqliteKeys:
    """In a file, as we set it up: in WAL mode, every commit synced."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("pragma journal_mode = wal").fetchall()
        self._connection.execute("pragma synchronous = full").fetchall()
        for table in TABLES:
            self._connection.execute(table)

    def two_commits(self, number: int) -> None:
        run = self._connection.execute
        run("begin immediate")
        run("insert into bare_keys values (?, 'running', null)", (str(number),))
        run("commit")
        run("begin immediate")
        run("update bare_keys set state = 'done', result = '1' where key = ?", (str(number),))
        run("commit")

    def one_commit(self, number: int) -> None:
        run = self._connection.execute
        run("begin immediate")
        run("insert into bare_keys values (?, 'done', '1')", (str(number),))
        run("insert into bare_effects values (?)", (number,))
        run("commit")

    def select(self, number: int) -> object:
        sql = "select state, result from bare_keys where key = ?"
        return self._connection.execute(sql, (str(number),)).fetchall()


class PostgresKeys:
    """In a database, in as few round trips as it takes."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        for table in TABLES:
            self._connection.execute(table.encode())

    def two_commits(self, number: int) -> None:
        run = self._connection.execute
        run("insert into bare_keys values (%s, 'running', null)", (str(number),))
        run("update bare_keys set state = 'done', result = '1' where key = %s", (str(number),))

    def one_commit(self, number: int) -> None:
        with self._connection.pipeline():
            run = self._connection.execute
            run("begin")
            run("insert into bare_keys values (%s, 'done', '1')", (str(number),))
            run("insert into bare_effects values (%s)", (number,))
            run("commit")

    def select(self, number: int) -> object:
        sql = "select state, result from bare_keys where key = %s"
        return self._connection.execute(sql, (str(number),)).fetchall()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()
