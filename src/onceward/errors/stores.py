"""Store errors: the database refused, could not be reached, or is of another version."""

from __future__ import annotations

from onceward.errors.base import OncewardError, Retryable


class StoreError(OncewardError):
    """The database refused; see the cause."""

    code = "UNAVAILABLE"


class StoreUnavailable(StoreError):
    """The database cannot be reached now; nothing was changed. Try again later."""

    retryable = True
    default_fix = "check that the database is running, then try again"


class StoreBusy(StoreError):
    """The database was busy with a conflicting transaction; nothing was changed. Try again."""

    retryable = True
    default_fix = "try again"


class SerializationFailed(StoreBusy, Retryable):
    """Concurrent transactions cannot be put into one order; nothing was changed. Run it again."""

    default_fix = "run the whole transaction again"


class SqlFailed(StoreError):
    """The database did not accept a statement."""

    code = "INVALID_ARGUMENT"


class UndecodableText(SqlFailed):
    """A text in the database is not valid UTF-8."""

    default_fix = "read the column as bytes: `cast(name as blob)`"


class WriterHeld(StoreError):
    """This thread is inside a writing transaction and would wait for itself."""

    code = "CONFLICT"
    default_fix = "call it before the transaction, or let the function take the transaction as `tx`"


class ForkedInTransaction(StoreError):
    """This process was forked while its parent had a transaction open; it cannot use the file."""

    code = "CONFLICT"
    default_fix = (
        "fork outside of transactions, or start the process without a fork, as multiprocessing's "
        "`spawn` and subprocess do"
    )


class SecondSqlite(StoreError):
    """Another SQLite library of this process has the file open; together they corrupt it."""

    code = "CONFLICT"
    default_fix = "use the standard library's sqlite3 in this process, or open the file elsewhere"


class JoinedConcurrently(StoreError):
    """Calls that join one transaction must nest, and another one is still running in it."""

    code = "JOINED_CONCURRENTLY"
    default_fix = "await one call before the next, or give each a transaction of its own"


class SchemaMismatch(StoreError):
    """The database was made by another version of Onceward."""

    default_fix = "run `onceward db status`"
