"""Errors: every exception a user of Onceward can catch, in one tree.

The docstring of a class is its default message. `code` is stable and part of the API, `retryable`
says whether the same call can succeed later without a change by the caller, and `context` carries
the facts, `fix` among them. Knows neither HTTP statuses nor exit codes.
"""

from onceward.errors.agents import AgentFailed, MessageRefused
from onceward.errors.applications import (
    AlreadySubmitted,
    Drifted,
    EntityMissing,
    GroupMissing,
    LedgerDamaged,
    RunHeld,
    RunMissing,
)
from onceward.errors.arguments import InvalidArgument, InvalidCursor, InvalidJson, NotCanonical
from onceward.errors.base import Conflict, OncewardError, Retryable
from onceward.errors.cursors import (
    BatchInFlight,
    CursorError,
    CursorMissing,
    DeadLetterMissing,
    LeaseLost,
    NothingToUndo,
    Superseded,
    VersionMismatch,
)
from onceward.errors.files import (
    DiskFull,
    FileMissing,
    FileRefused,
    NotWritable,
    OutcomeUnknown,
    StorageError,
    WrongPath,
)
from onceward.errors.outcomes import (
    FenceLost,
    KeyAmbiguous,
    KeyExpired,
    KeyInFlight,
    KeyReused,
    NotReconcilable,
    RecordedFailure,
)
from onceward.errors.requests import (
    Internal,
    MethodNotAllowed,
    Misdirected,
    NotFound,
    RangeNotSatisfiable,
    RequestRefused,
    TooLarge,
    Unauthorized,
    UnsupportedMediaType,
)
from onceward.errors.sources import SourceError, SourceRefused, SourceUnavailable
from onceward.errors.stores import (
    SchemaMismatch,
    SqlFailed,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    WriterHeld,
)

__all__ = [
    "AgentFailed",
    "AlreadySubmitted",
    "BatchInFlight",
    "Conflict",
    "CursorError",
    "CursorMissing",
    "DeadLetterMissing",
    "DiskFull",
    "Drifted",
    "EntityMissing",
    "FenceLost",
    "FileMissing",
    "FileRefused",
    "GroupMissing",
    "Internal",
    "InvalidArgument",
    "InvalidCursor",
    "InvalidJson",
    "KeyAmbiguous",
    "KeyExpired",
    "KeyInFlight",
    "KeyReused",
    "LeaseLost",
    "LedgerDamaged",
    "MessageRefused",
    "MethodNotAllowed",
    "Misdirected",
    "NotCanonical",
    "NotFound",
    "NotReconcilable",
    "NotWritable",
    "NothingToUndo",
    "OncewardError",
    "OutcomeUnknown",
    "RangeNotSatisfiable",
    "RecordedFailure",
    "RequestRefused",
    "Retryable",
    "RunHeld",
    "RunMissing",
    "SchemaMismatch",
    "SourceError",
    "SourceRefused",
    "SourceUnavailable",
    "SqlFailed",
    "StorageError",
    "StoreBusy",
    "StoreError",
    "StoreUnavailable",
    "Superseded",
    "TooLarge",
    "Unauthorized",
    "UnsupportedMediaType",
    "VersionMismatch",
    "WriterHeld",
    "WrongPath",
]
