"""Base: what a store offers, whatever engine is below it.

A store keeps state in one database. Everything above it speaks to these protocols; the engines
differ in how, never in what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from onceward.errors import LeaseLost
from onceward.stores.queries import Engine
from onceward.stores.savepoints import Savepoint
from onceward.stores.semaphore import FairSemaphore

T = TypeVar("T")
#: Values that both engines store: None, bool, int, float, str, bytes.
Params = Sequence[Any] | Mapping[str, Any]
Row = tuple[Any, ...]
#: Looks at the rows of a last statement and raises when they must not be committed; returns what is
#: to be done once they are.
Check = Callable[[list[Row]], Callable[[], None] | None]


class Rows(list[Row]):
    """The rows a statement returned, and how many it touched."""

    def __init__(self, rows: Iterable[Row], rowcount: int) -> None:
        """Keep both."""
        super().__init__(rows)
        #: Rows returned, or else inserted, updated or deleted.
        self.rowcount = rowcount


class Transaction(Protocol):
    """Statements that happen together or not at all."""

    def execute(self, sql: str, params: Params = ()) -> Rows:
        """Run one statement; `?` and `:name` stand for parameters on every engine."""

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None:
        """Run one statement for each row of parameters, in as few round trips as the engine can."""

    @property
    def connection(self) -> Any:  # noqa: ANN401 - sqlite3's or psycopg's
        """Lend the driver's connection to the user's database layer, until the transaction ends.

        A `sqlite3.Connection` or a `psycopg.Connection`. Begins the transaction; on SQLite it takes
        the write lock. `commit` keeps what was written as part of this transaction, `rollback`
        undoes what was written since, `close` does nothing.
        """

    @property
    def is_writing(self) -> bool:
        """Say whether the database holds locks for it."""

    def query(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our own statements by its name."""

    def query_first(self, name: str, /, **params: object) -> None:
        """Run one of our own statements when the transaction begins, together with its first one.

        Nobody sees its rows. When it raises, the first one is not run.
        """

    def query_last(self, name: str, check: Check, /, **params: object) -> None:
        """Run one of our own statements as the very last one, together with the commit.

        `check` sees its rows, and may raise: then nothing of the transaction stays.
        """

    def savepoint(self) -> Savepoint:
        """Return what undoes everything from here on, and nothing before.

        Called again, it undoes what was written since. Where nothing was written before it, it
        takes no lock, and undoing rolls back.
        """

    def nested(self) -> AbstractContextManager[None]:
        """Undo what the block did when an error leaves it, whatever becomes of the error.

        Blocks nest: JoinedConcurrently while one is open that does not surround this one.
        """

    def doom(self) -> None:
        """Let nothing of it be committed, whoever swallows the error that said so."""

    def on_first_write(self, call: Callable[[], None]) -> None:
        """Call this when the transaction holds its lock, before its first write."""

    def before_every_write(self, call: Callable[[], None]) -> None:
        """Call this before each write of the user's; what it raises stops the write."""

    def on_unknown(self, call: Callable[[], None]) -> None:
        """Call this when the commit got no answer, so that nobody knows whether it happened."""

    def on_lost(self, call: Callable[[LeaseLost], None]) -> None:
        """Call this when the database itself refuses a part of it, because a lease is lost.

        On SQLite it never does: whoever asks sees the rows first.
        """


class Store(Protocol):
    """One database."""

    #: Which family of queries it runs.
    engine: Engine
    #: Where it is, without secrets.
    url: str
    #: The same in full, for machines: two stores never have one address.
    address: str
    #: Places for users' transactions, where their number is limited.
    places: FairSemaphore | None

    @property
    def shared_writer(self) -> object:
        """Return what all handles share whose transactions write one after the other."""

    def transaction(self, *, immediate: bool = False) -> AbstractContextManager[Transaction]:
        """Open a transaction for the user; commits at the end, rolls back on any exception.

        Inside one already open in this context it joins that one. On SQLite it takes the write lock
        at the first write, so slow work before that blocks nobody; `immediate` takes it at once. On
        PostgreSQL `immediate` makes it SERIALIZABLE.
        """

    def join(self, connection: object) -> AbstractContextManager[Transaction]:
        """Run inside a transaction that a framework has begun on this connection of its driver.

        What was kept for the end runs at the block's end. The framework commits.
        """

    def detached(
        self, is_inside: Callable[[], bool] | None = None, /, *, has_place: bool = False
    ) -> AbstractContextManager[Transaction]:
        """Open a transaction that no context is part of; it may be ended in any thread.

        Where there is one writer, `is_inside` says of whoever wants to write meanwhile, in their
        thread and context, whether this transaction waits for them; without it, those in the thread
        that opened it are inside. A caller that already has one of the `places` passes `has_place`,
        and releases the place itself.
        """

    def joined(self, transaction: Transaction) -> AbstractContextManager[None]:
        """Let what this context does be part of a transaction that was opened elsewhere."""

    def write(self, operation: Callable[[Transaction], T]) -> T:
        """Run a short operation of ours in a commit, perhaps together with those of others.

        Durable when it returns. `operation` may be run again after a retryable error, so it must
        not touch anything but the transaction. Inside an open user transaction it is part of it.
        """

    def read(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our own queries that writes nothing; sees the open transaction, if any."""

    def find(self, name: str, /, **params: object) -> list[Row]:
        """Run a query like `read` that takes no time: it finds a row by its key."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Let the reads of this block see one moment, whatever others commit meanwhile.

        Inside an open transaction of the user's they see what that sees.
        """

    def select(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement that writes nothing, outside any transaction: sees what is committed."""

    def write_apart(self, operation: Callable[[Transaction], T]) -> T:
        """Run a short operation in a commit of its own, even inside the user's transaction.

        On SQLite there is one writer: WriterHeld when that one waits for us.
        """

    def write_query(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our own statements like `write_apart`; the engine knows that it is all."""

    def current(self) -> Transaction | None:
        """Return the user's transaction that is open in this context."""

    def applied(self) -> list[int]:
        """Return the numbers of the migrations that this database has seen."""

    def apply(self, number: int, name: str, sql: str) -> bool:
        """Run a migration and note it, in one transaction, one at a time; False if it was there."""

    def problems(self) -> list[str]:
        """Return what the engine itself finds wrong with the database."""

    def close(self) -> None:
        """Give connections back; nothing may be used afterwards."""
