"""Joined: our statements inside a transaction that a framework began and will commit.

For frameworks that insist on opening transactions themselves, such as Django. Our writes lie in a
savepoint of theirs: an error that leaves the block undoes them alone. We never commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol

from onceward.errors import InvalidArgument, OutcomeUnknown, SqlFailed, StoreUnavailable
from onceward.stores.base import Store, Transaction
from onceward.stores.joining import Joinable, Joining

#: Opens a transaction of a framework; the block gets its driver's connection.
Provider = Callable[[], AbstractContextManager[Any]]
SAVEPOINT: Final = "onceward_joined"
_FIX: Final = (
    "pass the driver's own connection, a sqlite3.Connection or a psycopg.Connection: "
    "`connection.connection` in Django, `connection.connection.dbapi_connection` in SQLAlchemy"
)


class JoinedTransaction(Joinable, Protocol):
    """A transaction on a connection of the user's."""

    #: Whom to tell when nobody knows whether it was committed.
    unknown: list[Callable[[], None]]

    #: The connection.
    raw: Any

    def check_nested(self) -> None:
        """Raise while a call is still running in it."""

    def commit(self) -> None:
        """Run what was kept for the end, and leave the commit to the framework."""

    def end(self) -> None:
        """Undo what was not kept, and be of no use from now on."""

    def committed(self) -> None:
        """Call those that wait for the framework's commit."""


@contextmanager
def join(
    joining: Joining[Any], connection: object, make: Callable[[], JoinedTransaction]
) -> Iterator[JoinedTransaction]:
    """Open a block inside a transaction of the user's; again inside itself it is the same."""
    current = joining.current()
    if current is not None:
        if getattr(current, "raw", None) is not connection:
            message = "connection: another transaction of this store is open here"
            fix = "end it first, or use its `tx.connection` instead"
            raise InvalidArgument(message, fix=fix, field="connection")
        yield current
        return
    transaction = make()
    try:
        with joining.joined(transaction):
            yield transaction
            transaction.check_nested()
            transaction.commit()
    finally:
        transaction.end()


@contextmanager
def provided(store: Store, provider: Provider) -> Iterator[Transaction]:
    """Open a transaction of a framework and join it.

    Where it cannot be opened: StoreUnavailable. An error of its commit is OutcomeUnknown.
    """
    transaction: Any = None
    is_over = False
    try:
        with provider() as connection:
            with store.join(connection) as transaction:
                yield transaction
            is_over = True
    except BaseException as exc:
        if transaction is not None and not is_over:
            raise  # By the block.
        if transaction is not None:
            for call in transaction.unknown:
                call()
        if not isinstance(exc, Exception):
            raise
        said = f"{type(exc).__name__}: {exc}"
        if transaction is None:
            message = f"the transaction provider did not open a transaction: {said}"
            raise StoreUnavailable(message, fix=getattr(exc, "fix", "")) from exc
        message = f"the transaction provider did not confirm its commit: {said}"
        raise OutcomeUnknown(message, fix="read before repeating it") from exc
    if not is_over:
        message = "the transaction provider ended without an error after the block had failed"
        raise SqlFailed(message, fix="let its context manager raise what the block raised")
    transaction.committed()


def foreign_driver(connection: object, wanted: str) -> InvalidArgument:
    """Return the error for a connection that is not of the driver that the store uses."""
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    message = f"connection: {kind} is not a {wanted}; async connections cannot be joined"
    return InvalidArgument(message, fix=_FIX, field="connection")


def not_begun() -> InvalidArgument:
    """Return the error for a connection without a transaction: each statement would commit."""
    message = "connection: no transaction is open on it, so each statement would commit by itself"
    fix = "begin one first: `transaction.atomic()` in Django, `begin immediate` in sqlite3"
    return InvalidArgument(message, fix=fix, field="connection")


def other_database(theirs: str, ours: str) -> InvalidArgument:
    """Return the error for a connection to another database."""
    message = f"connection: leads to {theirs}, and the store is {ours}"
    fix = "connect both to one database, with one search_path; then one commit is for both"
    return InvalidArgument(message, fix=fix, field="connection")


def ended(exc: BaseException) -> SqlFailed:
    """Return the error for a transaction that was ended inside our block."""
    message = (
        f"the framework's transaction was ended inside the block: {exc}; what was written before "
        "that may be committed, what was kept for the end is not"
    )
    return SqlFailed(message, fix="commit after the block; read before repeating it")
