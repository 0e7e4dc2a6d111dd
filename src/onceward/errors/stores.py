"""Store errors: the database rejected a statement, is unavailable, or has another schema."""

from __future__ import annotations

from onceward.errors.base import OncewardError, Retryable


class StoreError(OncewardError):
    """A database operation failed; see the cause."""

    code = "STORE_ERROR"


class StoreUnavailable(StoreError):
    """The database is not available; nothing was changed."""

    code = "UNAVAILABLE"
    retryable = True
    default_fix = "check that the database is running, then try again"


class StoreBusy(StoreError):
    """The database was busy with a conflicting transaction; nothing was changed."""

    code = "STORE_BUSY"
    retryable = True
    default_fix = "try again"


class SerializationFailed(StoreBusy, Retryable):
    """Concurrent transactions could not be serialised; nothing was changed."""

    code = "SERIALIZATION_FAILED"
    default_fix = "run the transaction again"


class SqlFailed(StoreError):
    """The database rejected a statement."""

    code = "SQL_FAILED"


class UndecodableText(SqlFailed):
    """A text in the database is not valid UTF-8."""

    code = "UNDECODABLE_TEXT"
    default_fix = "read the column as bytes: `cast(name as blob)`"


class WriterHeld(StoreError):
    """This thread is inside a writing transaction and would deadlock; nothing was changed."""

    code = "WRITER_HELD"
    default_fix = "call it before the transaction, or pass the transaction to it as `tx`"


class ForkedInTransaction(StoreError):
    """This process was forked during a transaction of its parent, and cannot use the file."""

    code = "FORKED_IN_TRANSACTION"
    default_fix = (
        "fork outside of transactions, or start the process without a fork, as `subprocess` and "
        "the `spawn` method of multiprocessing do"
    )


class SecondSqlite(StoreError):
    """Another SQLite library of this process has the file open; using both would corrupt it."""

    code = "SECOND_SQLITE"
    default_fix = "use the standard library's sqlite3 in this process, or open the file elsewhere"


class JoinedConcurrently(StoreError):
    """Another call is still running in this transaction; calls that join it must be nested."""

    code = "JOINED_CONCURRENTLY"
    default_fix = "await one call before the next, or use a separate transaction for each"


class SchemaMismatch(StoreError):
    """The database was made by another version of Onceward."""

    code = "SCHEMA_MISMATCH"
    default_fix = "run `onceward db status`"
