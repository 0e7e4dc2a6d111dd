"""Framework connection: run our statements on a framework's psycopg connection."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus

from onceward.errors import SqlFailed
from onceward.stores.base import Row
from onceward.stores.framework_transaction import (
    SAVEPOINT,
    ended,
    foreign_driver,
    not_begun,
    other_database,
)
from onceward.stores.placeholders import for_psycopg
from onceward.stores.postgres.error_mapping import mapped_error, mapped_errors
from onceward.stores.postgres.shared_connection import SecondConnection
from onceward.stores.postgres.transaction import PostgresTransaction
from onceward.stores.queries import query

#: Identifies the server, database and tables of a connection; needs no privileges.
IDENTITY: Final = """
select current_database(), pg_postmaster_start_time()::text, to_regclass('cursor_positions')::oid
"""


class JoinedPostgresTransaction(PostgresTransaction):
    """A savepoint in a framework's transaction."""

    def __init__(self, raw: object, identity: Callable[[Row], Row]) -> None:
        """Use this connection, which must have begun a transaction on the same database."""
        if not isinstance(raw, psycopg.Connection):
            raise foreign_driver(raw, "psycopg.Connection")
        if raw.autocommit and raw.info.transaction_status == TransactionStatus.IDLE:
            raise not_begun()
        self._second = SecondConnection.over(raw)
        super().__init__(self._second, f"savepoint {SAVEPOINT}")
        self.raw = raw
        self._after_commit: list[Callable[[], None]] = []
        try:
            self._check_database(identity)
        except BaseException:
            self.end()
            raise

    def _check_database(self, identity: Callable[[Row], Row]) -> None:
        with mapped_errors("join"):
            (theirs,) = self._connection.execute(IDENTITY, prepare=False).fetchall()
        ours = identity(theirs)
        if theirs != ours:
            raise other_database(
                *(f"{name}, tables {tables}" for name, _, tables in (theirs, ours))
            )

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """Return the framework's connection."""
        self.begin()
        for call in self._every_write:
            call()
        return self.raw

    def end(self) -> None:
        """Roll back what was not committed; the transaction cannot be used afterwards."""
        super().end()
        self._second.detach()

    def _run(self, what: str, sql: str, params: Any) -> psycopg.Cursor[Row]:  # noqa: ANN401 - psycopg's
        self.begin()
        with mapped_errors(what):
            return self._connection.execute(sql, params)

    def commit(self) -> None:
        """Run the commit-time statements; the framework commits."""
        if not self._is_open and not self._commit_queries:
            return
        self.begin()
        if self._is_idle():
            raise ended(SqlFailed("no transaction is open"))
        if self._is_rollback_only or self.raw.info.transaction_status == TransactionStatus.INERROR:
            message = (
                "commit: an earlier statement of this transaction failed; nothing is committed"
            )
            fix = "let the error leave the `with` block, then run the whole transaction again"
            raise SqlFailed(message, fix=fix)
        try:
            # First: in another transaction the commit-time statements would be committed alone.
            self._send(f"release savepoint {SAVEPOINT}; savepoint {SAVEPOINT}")
        except psycopg.Error as exc:
            raise ended(exc) from exc
        for name, check, params in self._commit_queries:
            try:
                rows = self._connection.execute(for_psycopg(query("postgres", name)), params)
            except psycopg.Error as exc:
                raise self._reporting_lost(mapped_error(exc, name)) from exc
            done = check(rows.fetchall())
            if done is not None:
                self._after_commit.append(done)
        with mapped_errors("join"):
            self._send(f"release savepoint {SAVEPOINT}")
        self._is_open = False

    def _is_idle(self) -> bool:
        """Return whether no transaction is open any more; psycopg would begin a new one."""
        return self.raw.info.transaction_status == TransactionStatus.IDLE

    def committed(self) -> None:
        """Run the after-commit callbacks, once the framework has committed."""
        done, self._after_commit = self._after_commit, []
        for call in done:
            call()

    def roll_back(self) -> None:
        """Undo the block's writes, and nothing before it; the framework ends the transaction."""
        if not self._is_open or os.getpid() != self._owner_pid:
            return
        self._is_open = False
        if self._is_idle():
            return
        with suppress(psycopg.Error):
            self._send(f"rollback to savepoint {SAVEPOINT}; release savepoint {SAVEPOINT}")
