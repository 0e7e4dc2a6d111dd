"""Poolers: connections whose server session other clients may use, too, as behind PgBouncer.

A pooler in transaction mode lends a server session to one client after the other. A statement that
one client prepared there can be run by another client under the same name, and LISTEN is lost. So
every new connection is checked, statement names are random, and nothing is prepared behind a
pooler.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, ParamSpec, Self, TypeVar

import psycopg
from psycopg._preparing import Prepare, PrepareManager
from psycopg.conninfo import conninfo_to_dict

from onceward.errors import InvalidArgument, StoreUnavailable
from onceward.seams import Randomness, SystemRandomness
from onceward.secrets import Redactor
from onceward.stores.base import Row

T = TypeVar("T")
P = ParamSpec("P")
#: What `?pooler=` in the URL of a store may say; without it every new connection is checked.
SETTINGS: Final = ("none", "prepared", "transaction")
#: A statement is prepared when it has been run so often on one connection.
PREPARE_THRESHOLD: Final = 2
#: PostgreSQL's code for a prepared statement that this server session does not have.
STATEMENT_MISSING: Final = "26000"
#: Begins the name of each statement that we prepare; random digits follow.
NAME_PREFIX: Final = "onceward_"
_NAME_DIGITS: Final = 16
_REASON_CHARACTERS_MAX: Final = 500


class ConnectionState:
    """What one store knows about its connections; they all share it."""

    def __init__(self, setting: str | None = None, randomness: Randomness | None = None) -> None:
        """Begin with what the URL says."""
        #: What the URL says about a pooler, if anything.
        self.setting = setting
        #: Whether other clients may use our server sessions: then nothing may be kept in one.
        self.is_pooled = setting in ("prepared", "transaction")
        #: Whether statements may be prepared.
        self.may_prepare = setting != "transaction"
        #: Why the latest attempt to connect failed, unless it succeeded.
        self.last_error: psycopg.Error | None = None
        self.randomness = randomness or SystemRandomness()

    def turn_pooled(self) -> None:
        """Keep nothing in a server session from now on, on all connections of the store."""
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

    Behind a pooler that was not detected the server then refuses, and never runs a statement that
    another client prepared under the same name.
    """

    def __init__(self, state: ConnectionState) -> None:
        """Draw a prefix for one connection."""
        super().__init__()
        self.state = state
        self._prefix = f"{NAME_PREFIX}{state.randomness.hex(_NAME_DIGITS)}".encode()

    def get(self, query: Any, prepare: bool | None = None) -> tuple[Prepare, bytes]:  # noqa: ANN401, FBT001 - psycopg's
        """Return whether a statement is or should be prepared, and its name."""
        if not self.state.may_prepare:
            self.prepare_threshold = None
        found, name = super().get(query, prepare)
        return found, self._prefix + name if found is Prepare.SHOULD else name


class Session(psycopg.Connection[Row]):
    """A connection in autocommit that notices a pooler between it and the server."""

    _state: ConnectionState

    @classmethod
    def connect(cls, conninfo: str = "", **kwargs: Any) -> Self:  # noqa: ANN401 - as psycopg has them
        """Connect, and check whether a pooler is in between; `state` is the store's."""
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
        """Share what the store knows, and check for a pooler unless the URL tells about it."""
        self._state = state
        self._prepared = StatementNames(state)
        self.prepare_threshold = PREPARE_THRESHOLD
        if state.setting is None and not state.is_pooled and is_pooled(self):
            state.turn_pooled()

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as psycopg has them
        """Run one step of a conversation with the server; every refusal comes from here."""
        try:
            return super().wait(gen, *args, **kwargs)
        except psycopg.errors.InvalidSqlStatementName as exc:
            if is_statement_missing(exc):
                self._state.turn_pooled()
            raise


def is_pooled(connection: psycopg.Connection[Row]) -> bool:
    """Say whether the session that answers is another one than the server said at the start."""
    try:
        row = connection.execute("select pg_backend_pid()", prepare=False).fetchone()
    except psycopg.Error:
        connection.close()
        raise
    assert row is not None
    return bool(row[0] != connection.info.backend_pid)


def is_statement_missing(exc: psycopg.Error) -> bool:
    """Say whether a statement that we have prepared is not in the session that answers."""
    return exc.sqlstate == STATEMENT_MISSING and NAME_PREFIX in str(exc)


def note_missing(prepared: PrepareManager, exc: psycopg.Error) -> None:
    """Keep nothing in a session from now on, if a statement of these is missing in it."""
    if isinstance(prepared, StatementNames) and is_statement_missing(exc):
        prepared.state.turn_pooled()


def repeated(call: Callable[P, T]) -> Callable[P, T]:
    """Repeat a call once when a prepared statement was missing: nothing of it was committed.

    From then on nothing is prepared, so that it cannot happen again.
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
    """Return the URL as libpq understands it, and what it said about a pooler."""
    # As libpq reads it: options begin at the first question mark behind user and password.
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
        message = f"pooler: one of {', '.join(SETTINGS)} in the URL of the store, not {said[-1]!r}"
        fix = "leave it out, and a pooler is detected"
        raise InvalidArgument(message, fix=fix, field="pooler")
    rest = "&".join("".join(each) for each in options if each[0] != "pooler")
    return url[:mark] + (f"?{rest}" if rest else ""), said[-1]
