"""Refusals: PostgreSQL's errors, translated once: retryable, fatal, unknown, or one of our own."""

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
#: What our own functions raise when a lease is lost; the detail says which.
LEASE_LOST: Final = "OW001"


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn PostgreSQL's refusals into ours."""
    try:
        yield
    except psycopg.Error as exc:
        raise refusal(exc, what) from exc


def refusal(exc: psycopg.Error, what: str) -> OncewardError:
    """Return our error for one of PostgreSQL's, with the state that our own functions raise."""
    if exc.sqlstate == LEASE_LOST and exc.diag.message_detail:
        return LeaseLost(**json.loads(exc.diag.message_detail))
    if is_statement_missing(exc):
        return _statement_missing(what)
    kind = next((ours for theirs, ours in _KINDS if isinstance(exc, theirs)), SqlFailed)
    said = str(exc).strip().partition("\n")[0]
    error = kind(f"{what}: {said}")
    error.context["sqlstate"] = exc.sqlstate
    return error


def commit_refusal(exc: psycopg.Error) -> OncewardError:
    """Return our error for a COMMIT that failed: without an answer nobody knows what happened."""
    state = exc.sqlstate
    if state == "57014":
        return refusal(exc, "commit")  # A statement before it was cancelled.
    # A pooler in front of the server answers for it when it dies: connection errors are class 08.
    if state is None or state[:2] in ("08", "57") or state == "40003":
        message = f"commit: {str(exc).strip().partition(chr(10))[0]}"
        return OutcomeUnknown(message, fix="read before repeating it")
    return refusal(exc, "commit")


def _statement_missing(what: str) -> StoreUnavailable:
    message = (
        f"{what}: a connection pooler gave our server session to another client; nothing was "
        "changed, and statements are not prepared any more"
    )
    fix = "try again; to avoid this error, add pooler=transaction to the URL of the store"
    return StoreUnavailable(message, fix=fix, sqlstate=STATEMENT_MISSING)
