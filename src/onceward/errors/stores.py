"""Store errors: the database refused, could not be reached, or is of another version."""

from __future__ import annotations

from onceward.errors.base import OncewardError


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


class SqlFailed(StoreError):
    """The database did not accept a statement."""

    code = "INVALID_ARGUMENT"


class WriterHeld(StoreError):
    """This thread is inside a writing transaction and would wait for itself."""

    code = "CONFLICT"
    default_fix = "call it before the transaction, or let the function take the transaction as `tx`"


class SchemaMismatch(StoreError):
    """The database was made by another version of Onceward."""

    default_fix = "run `onceward db status`"
