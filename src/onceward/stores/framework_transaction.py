"""Framework transaction: run our statements inside a transaction that a framework commits.

For frameworks that open transactions themselves, such as Django. Our writes are inside a savepoint
of their transaction: an error that leaves the block undoes only them. We never commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol

from onceward.errors import InvalidArgument, OutcomeUnknown, SqlFailed, StoreUnavailable
from onceward.stores.base import Store, Transaction
from onceward.stores.transaction_context import Joinable, TransactionContext

#: Opens a framework's transaction; the block gets the driver's connection.
Provider = Callable[[], AbstractContextManager[Any]]
SAVEPOINT: Final = "onceward_joined"
_FIX: Final = (
    "pass the driver's own connection, a sqlite3.Connection or a psycopg.Connection: "
    "`connection.connection` in Django, `connection.connection.dbapi_connection` in SQLAlchemy"
)


class JoinedTransaction(Joinable, Protocol):
    """A transaction on the user's connection."""

    #: Called when the commit is ambiguous.
    unknown_callbacks: list[Callable[[], None]]

    #: The driver's connection.
    raw: Any

    def check_nested(self) -> None:
        """Raise while a nested call is still running in the transaction."""

    def commit(self) -> None:
        """Run the commit-time statements; the framework commits."""

    def end(self) -> None:
        """Roll back what was not committed; the transaction cannot be used afterwards."""

    def committed(self) -> None:
        """Run the after-commit callbacks, once the framework has committed."""


@contextmanager
def join(
    context: TransactionContext[Any], connection: object, make: Callable[[], JoinedTransaction]
) -> Iterator[JoinedTransaction]:
    """Join the user's open transaction; nested joins of the same connection reuse it."""
    current = context.current()
    if current is not None:
        if getattr(current, "raw", None) is not connection:
            message = (
                "connection: another transaction of this store is open in this thread or task; "
                "no transaction was begun"
            )
            fix = "end it first; or omit connection=, and run your SQL on its `tx.connection`"
            raise InvalidArgument(message, fix=fix, field="connection")
        yield current
        return
    transaction = make()
    try:
        with context.joined(transaction):
            yield transaction
            transaction.check_nested()
            transaction.commit()
    finally:
        transaction.end()


@contextmanager
def provided(store: Store, provider: Provider) -> Iterator[Transaction]:
    """Open a framework's transaction and join it.

    Raises StoreUnavailable if it cannot be opened, OutcomeUnknown if its commit fails.
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
            raise  # The block raised it.
        if transaction is not None:
            for call in transaction.unknown_callbacks:
                call()
        if not isinstance(exc, Exception):
            raise
        said = f"{type(exc).__name__}: {exc}"
        if transaction is None:
            message = (
                f"the transaction provider did not open a transaction; nothing was written: {said}"
            )
            fix = getattr(exc, "fix", "") or "remove the cause that it names, then try again"
            raise StoreUnavailable(message, fix=fix) from exc
        message = (
            "the transaction provider did not confirm its commit, so the writes may or may not be "
            f"committed: {said}"
        )
        raise OutcomeUnknown(message, fix="check the data before repeating them") from exc
    if not is_over:
        message = (
            "the transaction provider ended without an error after the block had failed; "
            "the block's writes may be committed"
        )
        fix = "let its context manager raise what the block raised; check the data"
        raise SqlFailed(message, fix=fix)
    transaction.committed()


def foreign_driver(connection: object, wanted: str) -> InvalidArgument:
    """Return the error for a connection of another driver than the store's."""
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    message = f"connection: {kind} is not a {wanted}; async connections cannot be joined"
    return InvalidArgument(message, fix=_FIX, field="connection")


def not_begun() -> InvalidArgument:
    """Return the error for a connection without an open transaction."""
    message = (
        "connection: no transaction is open on it, so each statement would commit by itself; "
        "nothing was written"
    )
    fix = "begin one first: `transaction.atomic()` in Django, `begin immediate` in sqlite3"
    return InvalidArgument(message, fix=fix, field="connection")


def other_database(theirs: str, ours: str) -> InvalidArgument:
    """Return the error for a connection to another database."""
    message = f"connection: leads to {theirs}, but the store is {ours}; nothing was written"
    fix = "connect both to the same database and search_path, so that one commit covers both"
    return InvalidArgument(message, fix=fix, field="connection")


def ended(exc: BaseException) -> SqlFailed:
    """Return the error for a transaction that the framework ended inside our block."""
    message = (
        f"the framework's transaction was ended inside the block: {exc}; earlier writes may be "
        "committed, Onceward's commit-time statements (results, checkpoints) are not"
    )
    return SqlFailed(message, fix="end it after the block; check the data before repeating it")
