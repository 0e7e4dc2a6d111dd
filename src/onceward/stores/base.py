"""Store interface: the protocols of a store and its transactions, for SQLite and PostgreSQL.

A store keeps state in one database. All other packages use these protocols; the engines implement
the same guarantees in different ways.
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
#: Validates the rows of a statement that runs with the commit. Raises to abort, or returns a
#: callback to run after the commit.
RowCheck = Callable[[list[Row]], Callable[[], None] | None]


class Rows(list[Row]):
    """The rows that a statement returned, and how many it affected."""

    def __init__(self, rows: Iterable[Row], rowcount: int) -> None:
        """Set the rows and the count."""
        super().__init__(rows)
        #: Rows returned, or else inserted, updated or deleted.
        self.rowcount = rowcount


class Transaction(Protocol):
    """Statements that are committed together or not at all."""

    def execute(self, sql: str, params: Params = ()) -> Rows:
        """Run one statement; `?` and `:name` are parameters on every engine."""

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None:
        """Run one statement for each row of parameters, in as few round trips as the engine can."""

    @property
    def connection(self) -> Any:  # noqa: ANN401 - sqlite3's or psycopg's
        """Lend the driver's connection to the user's database layer, until the transaction ends.

        A `sqlite3.Connection` or a `psycopg.Connection`. Begins the transaction; on SQLite it takes
        the write lock. `commit` keeps the writes as part of this transaction, `rollback` undoes the
        writes since the last `commit`, `close` does nothing.
        """

    @property
    def is_writing(self) -> bool:
        """Return whether the transaction has begun in the database and may hold locks."""

    def query(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our own statements by name and return its rows."""

    def run_with_begin(self, name: str, /, **params: object) -> None:
        """Run one of our own statements when the transaction begins, before its first statement.

        Its rows are discarded. When it raises, the first statement is not run.
        """

    def run_with_commit(self, name: str, check: RowCheck, /, **params: object) -> None:
        """Run one of our own statements last, together with the commit.

        `check` gets its rows. When it raises, nothing of the transaction is committed.
        """

    def savepoint(self) -> Savepoint:
        """Set a savepoint. Each call of it undoes everything after it, and nothing before.

        Where nothing was written before it, it takes no lock, and undoing is a rollback.
        """

    def nested(self) -> AbstractContextManager[None]:
        """Undo the block's writes when an error leaves it, also if a caller catches that error.

        Blocks nest: JoinedConcurrently while one is open that does not surround this one.
        """

    def mark_rollback_only(self) -> None:
        """Forbid the commit, also if a handler swallows the error that caused it."""

    def on_first_write(self, call: Callable[[], None]) -> None:
        """Register a callback that runs once the lock is held, before the first write."""

    def before_every_write(self, call: Callable[[], None]) -> None:
        """Register a callback that runs before each user write; it may raise to stop it."""

    def on_commit_unknown(self, call: Callable[[], None]) -> None:
        """Register a callback for a commit that got no answer: it may or may not be durable."""

    def on_lease_lost(self, call: Callable[[LeaseLost], None]) -> None:
        """Register a callback for a statement that the database rejects because a lease is lost.

        SQLite never calls it: there the caller sees the rows before the commit.
        """


class Store(Protocol):
    """One database."""

    #: Selects the SQL variant of our queries.
    engine: Engine
    #: Location, without secrets.
    url: str
    #: Unique location: two different stores never have the same address.
    address: str
    #: Slots for users' transactions; None where their number is not limited.
    transaction_slots: FairSemaphore | None

    @property
    def writer_identity(self) -> object:
        """Return an object shared by all handles whose writing transactions are serialised."""

    def transaction(self, *, immediate: bool = False) -> AbstractContextManager[Transaction]:
        """Open a transaction for the user; commits at the end, rolls back on any exception.

        Inside one that is open in this context it joins that one. On SQLite it takes the write lock
        at the first write, so slow work before that blocks no writer; `immediate` takes it at once.
        On PostgreSQL `immediate` makes it SERIALIZABLE.
        """

    def join(self, connection: object) -> AbstractContextManager[Transaction]:
        """Run inside a transaction that a framework has begun on this connection of its driver.

        Commit-time statements run at the end of the block. The framework commits.
        """

    def detached(
        self, is_inside: Callable[[], bool] | None = None, /, *, has_slot: bool = False
    ) -> AbstractContextManager[Transaction]:
        """Open a transaction outside of any context; it may be ended in any thread.

        Where there is one writer, other writers call `is_inside` in their own thread and context.
        It returns whether this transaction waits for them, which would be a deadlock; by default,
        in the thread that opened it. A caller that holds one of the `transaction_slots` passes
        `has_slot`, and releases it itself.
        """

    def joined(self, transaction: Transaction) -> AbstractContextManager[None]:
        """Run the calls of this context inside a transaction that was opened elsewhere."""

    def write(self, operation: Callable[[Transaction], T]) -> T:
        """Run a short operation of ours and commit it, possibly grouped with other callers' ones.

        Durable when it returns. `operation` may be run again after a retryable error, so it must
        use nothing but the transaction. Inside an open user transaction it becomes part of that.
        """

    def read(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our own queries that writes nothing; sees the open transaction, if any."""

    def find(self, name: str, /, **params: object) -> list[Row]:
        """Run a query like `read` that is a fast lookup of a row by its key."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Run the reads of this block on one snapshot of the database.

        Inside an open transaction of the user's they see what that transaction sees.
        """

    def select(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a read-only statement outside any transaction; it sees committed data only."""

    def run_in_own_transaction(self, operation: Callable[[Transaction], T]) -> T:
        """Run a short operation in its own transaction, even inside the user's transaction.

        SQLite has one writer: WriterHeld when the current writer waits for this call.
        """

    def write_query(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our statements by name in its own transaction, with few round trips."""

    def current(self) -> Transaction | None:
        """Return the user's transaction that is open in this context."""

    def applied(self) -> dict[int, str]:
        """Return the migrations applied to this database: their names by number, in order."""

    def apply(self, number: int, name: str, sql: str) -> bool:
        """Apply and record a migration in one transaction; False if it was applied already."""

    def problems(self) -> list[str]:
        """Return the problems that the engine's own integrity check finds."""

    def close(self) -> None:
        """Close all connections. The store cannot be used afterwards."""
