"""Pooler: detect connection poolers such as PgBouncer, and stay correct behind them.

A pooler in transaction mode gives a server session to one client after another. A statement that
one client prepared can be run by another client under the same name, and LISTEN is lost. So every
new connection is checked, statement names are random, and nothing is prepared behind a pooler.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, ParamSpec, Self, TypeVar

import psycopg
from psycopg._preparing import Prepare, PrepareManager
from psycopg.conninfo import conninfo_to_dict

from onceward.errors import InvalidArgument, StoreUnavailable
from onceward.stores.base import Row
from onceward.system import Randomness, SystemRandomness
from onceward.system.redaction import Redactor

T = TypeVar("T")
P = ParamSpec("P")
#: Values of `?pooler=` in the URL of a store; without it every new connection is checked.
SETTINGS: Final = ("none", "prepared", "transaction")
#: A statement is prepared after this many runs on one connection.
PREPARE_THRESHOLD: Final = 2
#: SQLSTATE for a prepared statement that this server session does not have.
STATEMENT_MISSING: Final = "26000"
#: Prefix of the names of our prepared statements; random digits follow.
NAME_PREFIX: Final = "onceward_"
_NAME_DIGITS: Final = 16
_REASON_CHARACTERS_MAX: Final = 500


class ConnectionState:
    """Pooling state and the latest connection error of one store, shared by its connections."""

    def __init__(self, setting: str | None = None, randomness: Randomness | None = None) -> None:
        """Start with the setting of the URL."""
        #: The `pooler` setting of the URL, or None.
        self.setting = setting
        #: Whether other clients may use our server sessions; then we keep no session state.
        self.is_pooled = setting in ("prepared", "transaction")
        #: Whether statements may be prepared.
        self.may_prepare = setting != "transaction"
        #: Error of the latest attempt to connect; None if it succeeded.
        self.last_error: psycopg.Error | None = None
        self.randomness = randomness or SystemRandomness()

    def mark_pooled(self) -> None:
        """Stop keeping session state and prepared statements, on all connections of the store."""
        self.is_pooled, self.may_prepare = True, False

    def reason(self, url: str) -> str:
        """Return why the latest attempt to connect failed, without secrets; empty if it did not."""
        if self.last_error is None:
            return ""
        said = conninfo_to_dict(url)
        secret = [str(said[name]) for name in ("password", "sslpassword") if said.get(name)]
        text = " ".join(str(self.last_error).split())[:_REASON_CHARACTERS_MAX]
        return Redactor(secret).text(text)


class StatementNames(PrepareManager):
    """Gives prepared statements names that no other connection uses.

    Behind an undetected pooler the server then raises an error instead of running another client's
    statement of the same name.
    """

    def __init__(self, state: ConnectionState) -> None:
        """Draw a random prefix for one connection."""
        super().__init__()
        self.state = state
        self._prefix = f"{NAME_PREFIX}{state.randomness.hex(_NAME_DIGITS)}".encode()

    def get(self, query: Any, prepare: bool | None = None) -> tuple[Prepare, bytes]:  # noqa: ANN401, FBT001 - psycopg's
        """Return whether a statement is or should be prepared, and its name."""
        if not self.state.may_prepare:
            self.prepare_threshold = None
        found, name = super().get(query, prepare)
        return found, self._prefix + name if found is Prepare.SHOULD else name


class PoolerAwareConnection(psycopg.Connection[Row]):
    """A connection in autocommit that detects a pooler between it and the server."""

    _state: ConnectionState

    @classmethod
    def connect(cls, conninfo: str = "", **kwargs: Any) -> Self:  # noqa: ANN401 - as psycopg has them
        """Connect, and check for a pooler; `state` is the store's."""
        state: ConnectionState = kwargs.pop("state")
        try:
            session = super().connect(conninfo, autocommit=True, **kwargs)
            session.use(state)
        except psycopg.Error as exc:
            state.last_error = exc
            raise
        state.last_error = None
        return session

    def use(self, state: ConnectionState) -> None:
        """Share the store's state, and check for a pooler unless the URL sets `pooler`."""
        self._state = state
        self._prepared = StatementNames(state)
        self.prepare_threshold = PREPARE_THRESHOLD
        if state.setting is None and not state.is_pooled and is_pooled(self):
            state.mark_pooled()

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as psycopg has them
        """Run one protocol exchange with the server; every server error is raised here."""
        try:
            return super().wait(gen, *args, **kwargs)
        except psycopg.errors.InvalidSqlStatementName as exc:
            if is_statement_missing(exc):
                self._state.mark_pooled()
            raise


def is_pooled(connection: psycopg.Connection[Row]) -> bool:
    """Return whether another server session answers than the one that was announced."""
    try:
        row = connection.execute("select pg_backend_pid()", prepare=False).fetchone()
    except psycopg.Error:
        connection.close()
        raise
    assert row is not None
    return bool(row[0] != connection.info.backend_pid)


def is_statement_missing(exc: psycopg.Error) -> bool:
    """Return whether one of our prepared statements is missing in the answering session."""
    return exc.sqlstate == STATEMENT_MISSING and NAME_PREFIX in str(exc)


def record_missing_statement(prepared: PrepareManager, exc: psycopg.Error) -> None:
    """Mark the store as pooled if one of these prepared statements is missing."""
    if isinstance(prepared, StatementNames) and is_statement_missing(exc):
        prepared.state.mark_pooled()


def retry_missing_statement(call: Callable[P, T]) -> Callable[P, T]:
    """Retry a call once after a missing prepared statement: nothing of it was committed.

    From then on nothing is prepared, so it cannot happen again.
    """

    @functools.wraps(call)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except StoreUnavailable as exc:
            if exc.context.get("sqlstate") != STATEMENT_MISSING:
                raise
        return call(*args, **kwargs)

    return run


def split_url(url: str) -> tuple[str, str | None]:
    """Return the URL for libpq, without `pooler`, and the value of `pooler`."""
    # As in libpq: options begin at the first question mark after user and password.
    start = url.find("://") + 3
    slash = url.find("/", start)
    at = url.find("@", start, slash if slash >= 0 else len(url))
    mark = url.find("?", max(start, at))
    if mark < 0:
        return url, None
    options = [each.partition("=") for each in url[mark + 1 :].split("&")]
    said = [value for name, _, value in options if name == "pooler"]
    if not said:
        return url, None
    if said[-1] not in SETTINGS:
        known = ", ".join(SETTINGS)
        message = f"pooler: must be one of {known} in the URL of the store, not {said[-1]!r}"
        fix = "pass one of these, or remove it to detect a pooler automatically"
        raise InvalidArgument(message, fix=fix, field="pooler")
    rest = "&".join("".join(each) for each in options if each[0] != "pooler")
    return url[:mark] + (f"?{rest}" if rest else ""), said[-1]
