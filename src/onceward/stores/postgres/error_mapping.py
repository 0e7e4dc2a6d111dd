"""Error mapping: classify PostgreSQL errors as retryable, fatal or ambiguous errors of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors as pg

from onceward.errors import (
    DiskFull,
    LeaseLost,
    OncewardError,
    OutcomeUnknown,
    SerializationFailed,
    SqlFailed,
    StoreBusy,
    StoreUnavailable,
)
from onceward.stores.postgres.pooler import STATEMENT_MISSING, is_statement_missing

_KINDS: Final[tuple[tuple[type[psycopg.Error], type[OncewardError]], ...]] = (
    (pg.SerializationFailure, SerializationFailed),
    (pg.DeadlockDetected, StoreBusy),
    (pg.LockNotAvailable, StoreBusy),
    (pg.QueryCanceled, StoreBusy),
    (pg.DiskFull, DiskFull),
    (pg.IdleInTransactionSessionTimeout, StoreUnavailable),
    (pg.OperatorIntervention, StoreUnavailable),
    (psycopg.OperationalError, StoreUnavailable),
    (psycopg.InterfaceError, StoreUnavailable),
)
#: SQLSTATE that our SQL functions raise for a lost lease; the detail has the facts as JSON.
LEASE_LOST: Final = "OW001"


@contextmanager
def mapped_errors(what: str) -> Iterator[None]:
    """Raise our errors in place of psycopg's."""
    try:
        yield
    except psycopg.Error as exc:
        raise mapped_error(exc, what) from exc


def mapped_error(exc: psycopg.Error, what: str) -> OncewardError:
    """Return our error for an error of PostgreSQL or of our SQL functions."""
    if exc.sqlstate == LEASE_LOST and exc.diag.message_detail:
        return LeaseLost(**json.loads(exc.diag.message_detail))
    if is_statement_missing(exc):
        return _statement_missing(what)
    kind = next((ours for theirs, ours in _KINDS if isinstance(exc, theirs)), SqlFailed)
    said = str(exc).strip().partition("\n")[0]
    error = kind(f"{what}: {said}")
    error.context["sqlstate"] = exc.sqlstate
    return error


def commit_error(exc: psycopg.Error) -> OncewardError:
    """Return our error for a failed COMMIT; without an answer it is ambiguous: OutcomeUnknown."""
    state = exc.sqlstate
    if state == "57014":
        return mapped_error(exc, "commit")  # An earlier statement was cancelled.
    # When the server dies, a pooler in front of it answers with connection errors, class 08.
    if state is None or state[:2] in ("08", "57") or state == "40003":
        said = str(exc).strip().partition(chr(10))[0]
        message = f"commit: its outcome is unknown; the writes may or may not be committed: {said}"
        return OutcomeUnknown(message, fix="check the data before repeating it")
    return mapped_error(exc, "commit")


def _statement_missing(what: str) -> StoreUnavailable:
    message = (
        f"{what}: a connection pooler gave our database session to another client; nothing was "
        "changed, and this process uses the store without prepared statements from now on"
    )
    fix = (
        "run the whole transaction again; to avoid this error, add pooler=transaction to the URL "
        "of the store"
    )
    return StoreUnavailable(message, fix=fix, sqlstate=STATEMENT_MISSING)
