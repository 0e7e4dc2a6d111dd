"""Errors: every exception a user of Onceward can catch, in one tree.

The docstring of a class is its default message. `code` is stable and part of the API, `retryable`
says whether the same call can succeed later without a change by the caller, and `context` carries
the facts, `fix` among them. Knows neither HTTP statuses nor exit codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class OncewardError(Exception):
    """Something in Onceward failed."""

    #: Stable name of this kind of failure, the same in Python, on the command line and over HTTP.
    code: ClassVar[str] = "INTERNAL"
    #: Whether the same call, unchanged, may succeed later.
    retryable: ClassVar[bool] = False
    #: What to do about it when the raiser knows nothing better.
    default_fix: ClassVar[str] = ""

    def __init__(self, message: str = "", *, fix: str = "", **context: object) -> None:
        """Keep the message, how to fix it, and the facts by name."""
        self.message = message or (type(self).__doc__ or "").splitlines()[0]
        self.fix = fix or self.default_fix
        self.context: dict[str, object] = {**({"fix": self.fix} if self.fix else {}), **context}
        super().__init__(self.message)

    def to_dict(self) -> dict[str, object]:
        """Return the one shape in which errors leave this system."""
        error = {"code": self.code, "message": self.message, "context": self.context}
        return {"error": error}


# --- what the caller sent is not acceptable; nothing was changed ---------------------------------


class InvalidArgument(OncewardError):
    """An argument is missing, malformed or out of range; correct it and call again."""

    code = "INVALID_ARGUMENT"


class NotCanonical(InvalidArgument):
    """A value has no canonical JSON form; send plain JSON values only."""

    def __init__(self, path: str, problem: str, *, fix: str = "") -> None:
        """Name the place, such as `inputs.items[3].price`, and what is wrong there."""
        #: Where the value stands, written like code that would reach it.
        self.path = path
        super().__init__(f"{path}: {problem}", fix=fix, path=path)


class InvalidJson(InvalidArgument):
    """The text is not acceptable JSON; correct it and send it again."""

    code = "INVALID_JSON"


class InvalidCursor(InvalidArgument):
    """The cursor does not fit this file; start again from "0"."""

    code = "INVALID_CURSOR"
    default_fix = 'reset `since` to "0"'


# --- the machine refused ------------------------------------------------------------------------


class StorageError(OncewardError):
    """The operating system refused a file operation; see the cause."""

    code = "UNAVAILABLE"
    retryable = True


class FileMissing(StorageError):
    """The file does not exist."""

    code = "FILE_NOT_FOUND"
    retryable = False


class DiskFull(StorageError):
    """The disk or the quota is full; nothing was written. Free some space, then try again."""

    default_fix = "free some space, then try again"


class NotWritable(StorageError):
    """The file or its directory may not be written; check owner, mode and mount options."""

    retryable = False
    default_fix = "check the owner, the mode and whether the file system is mounted read-only"


class WrongPath(StorageError):
    """The path does not lead to a file that can be used here."""

    code = "INVALID_ARGUMENT"
    retryable = False
    default_fix = "name a file, not a directory, a link in its place or a pipe"


class FileRefused(StorageError):
    """An earlier fsync of this file failed, so this process trusts it no more."""

    retryable = False
    default_fix = "check the disk, restart the process and run `onceward journal verify`"


class OutcomeUnknown(StorageError):
    """The operation may or may not have happened; look before repeating it."""

    code = "OUTCOME_UNKNOWN"
    retryable = False


# --- the store refused --------------------------------------------------------------------------


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


# --- a source refused ---------------------------------------------------------------------------


class SourceError(OncewardError):
    """A source could not be read."""

    code = "UNAVAILABLE"

    def __init__(
        self,
        message: str = "",
        *,
        fix: str = "",
        status: int | None = None,
        retry_after: str | None = None,
        **context: object,
    ) -> None:
        """Keep what a service answered, if one did."""
        #: The HTTP status, if there was an answer.
        self.status = status
        #: What the service said about coming back.
        self.retry_after = retry_after
        super().__init__(message, fix=fix, **context)


class SourceUnavailable(SourceError):
    """The source cannot be read now; try again later."""

    retryable = True
    default_fix = "check that the service is running, then try again"


class SourceRefused(SourceError):
    """The source cannot be read as it is: messages would be lost, or it does not let us."""

    code = "INVALID_ARGUMENT"


# --- a cursor refused ---------------------------------------------------------------------------


class CursorError(OncewardError):
    """The cursor did not allow it; nothing was changed."""

    code = "CONFLICT"


class LeaseLost(CursorError):
    """Another worker has this cursor, somebody moved it, or its position is unknown; stop."""

    default_fix = "stop this work and acquire the cursor anew; nothing of the transaction stays"

    def __init__(
        self,
        cursor: str,
        held_epoch: int,
        current_epoch: int | None,
        *,
        is_in_doubt: bool = False,
    ) -> None:
        """Name the cursor, the epoch of the refused handle and the epoch that counts."""
        #: Name of the cursor.
        self.cursor = cursor
        #: Under which epoch the refused handle was granted.
        self.held_epoch = held_epoch
        #: Which epoch it is now; the same one if the lease was given back; None without a cursor.
        self.current_epoch = current_epoch
        #: Whether it is refused because its last checkpoint may or may not be stored.
        self.is_in_doubt = is_in_doubt
        now = f"epoch {current_epoch} counts now"
        if is_in_doubt:
            now = "its last checkpoint may or may not be stored"
        elif current_epoch is None:
            now = "there is no such cursor any more"
        elif current_epoch == held_epoch:
            now = "it was given back"
        message = f"the lease of {cursor!r} under epoch {held_epoch} is lost: {now}"
        super().__init__(message, cursor=cursor, held_epoch=held_epoch, current_epoch=current_epoch)


class VersionMismatch(CursorError):
    """The cursor's position was written under rules that this worker cannot migrate from."""

    default_fix = "deploy the version that wrote it, or pass migrations for every step in between"

    def __init__(self, cursor: str, stored: int, wanted: int) -> None:
        """Name the cursor, the version of its position and the version of the worker."""
        #: Name of the cursor.
        self.cursor = cursor
        #: Version under which its position was written.
        self.stored = stored
        #: Version that the worker declared.
        self.wanted = wanted
        message = f"{cursor!r} is at version {stored}, this worker is at version {wanted}"
        super().__init__(message, cursor=cursor, stored=stored, wanted=wanted)


class CursorMissing(CursorError):
    """There is no cursor of this name; it is made when a worker first acquires it."""

    code = "NOT_FOUND"
    default_fix = "see `onceward cursors list`"


class NothingToUndo(CursorError):
    """No seek of this cursor is left to be undone."""

    default_fix = "see `onceward cursors history`"


# --- what waits, or is in flight, was moved on by somebody else -----------------------------------


class Superseded(OncewardError):
    """Newer work has replaced what this call was about; nothing was changed. Stop, do not retry."""

    code = "CONFLICT"
    default_fix = "drop the handle and ask again what is due or pending"


class BatchInFlight(OncewardError):
    """This group has a batch in flight; commit it, roll it back, or recover after a crash."""

    code = "IN_FLIGHT"
    retryable = True
    default_fix = "pass the batch to extend it, or call recover() once no other process works on it"


class DeadLetterMissing(OncewardError):
    """There is no dead letter with this number."""

    code = "NOT_FOUND"
    default_fix = "see `onceward dead list`"


# --- a key has an outcome, or is about to get one ------------------------------------------------


class Retryable(OncewardError):
    """Nothing happened and a retry may help; raised by your function, it frees the key."""

    code = "UNAVAILABLE"
    retryable = True


class KeyReused(OncewardError):
    """The key was used before, for other work; nothing was done."""

    code = "KEY_REUSED"
    default_fix = "use a new key for new work"


class KeyInFlight(OncewardError):
    """Somebody is at this work now; try again when they are done."""

    code = "IN_FLIGHT"
    retryable = True
    default_fix = "try again later, or pass wait= to wait for the result"


class KeyAmbiguous(OncewardError):
    """The work was begun, then silence: it may have happened, so it is not run again."""

    code = "AMBIGUOUS"
    default_fix = "find out whether it happened, then run `onceward outcomes reconcile`"


class KeyExpired(OncewardError):
    """The key was used long ago and its result has run out; nothing was done."""

    code = "KEY_EXPIRED"
    default_fix = "use a new key for new work"


class FenceLost(OncewardError):
    """Somebody else was granted this work, or settled it; stop, do not retry."""

    code = "CONFLICT"
    default_fix = "call again to get the outcome that counts"


class NotReconcilable(OncewardError):
    """There is nothing to decide: the key is unknown, at work, or settled."""

    code = "CONFLICT"
    default_fix = "look at it with `onceward outcomes show`"


class RecordedFailure(OncewardError):
    """The work failed before, for good; this is that failure again."""

    code = "RECORDED_FAILURE"
    default_fix = "use a new key to try anew, or run `onceward outcomes forget`"

    def __init__(self, type: str, message: str, data: object = None) -> None:  # noqa: A002 - its name
        """Keep the class, the message and the data of the first failure."""
        #: Name of the class that was raised the first time.
        self.type = type
        #: What it said.
        self.failure_message = message
        #: What it carried, if that was JSON.
        self.data = data
        super().__init__(f"{type}: {message}", type=type, data=data)


# --- something is in the way ----------------------------------------------------------------------


class Conflict(OncewardError):
    """Something is there already, and it stays; nothing was changed."""

    code = "CONFLICT"


# --- a run of agents refused ---------------------------------------------------------------------


class RunHeld(Conflict):
    """Another process works on this run; wait for it, or stop it."""

    default_fix = "wait for that process, or stop it, then resume"


class Drifted(Conflict):
    """The workspace is not as the run left it; look at the changes before going on."""

    default_fix = "undo the changes, or go on from them with --accept-drift"


class RunMissing(OncewardError):
    """There is no run with this id in the workspace."""

    code = "NOT_FOUND"
    default_fix = "see `onceward runs list`"


class LedgerDamaged(StorageError):
    """The ledger of a run lacks records that were written; it cannot be resumed safely."""

    retryable = False
    default_fix = "restore it from a backup; `onceward runs verify` names the damage"


# --- the Lab refused -----------------------------------------------------------------------------


class EntityMissing(OncewardError):
    """The memory has no entity of this name; create it first, or correct the name."""

    code = "NOT_FOUND"

    def __init__(self, names: Sequence[str], *, field: str = "", fix: str = "") -> None:
        """Name what is missing, and where it was asked for."""
        #: The names that are not there.
        self.names = tuple(names)
        shown = ", ".join(repr(name[:200]) for name in self.names[:5])
        more = f" and {len(self.names) - 5} more" if len(self.names) > 5 else ""
        context = {"field": field} if field else {}
        super().__init__(
            f"{field + ': ' if field else ''}no entity is named {shown}{more}",
            fix=fix or "create it first, or correct the name",
            names=list(self.names[:100]),
            **context,
        )


class GroupMissing(OncewardError):
    """There is no group of this name; add it first, or correct the name."""

    code = "NOT_FOUND"

    def __init__(self, name: str) -> None:
        """Name it."""
        self.name = name
        fix = f"`onceward dispatch groups add {name} …` adds it, `… groups list` shows all"
        super().__init__(f"no group is named {name[:100]!r}", fix=fix, group=name[:100])


class AlreadySubmitted(Conflict):
    """The experiment was decided before; `result` holds what that was answered."""

    default_fix = "make a new experiment to judge again"


# --- an agent, or what it sent, is not acceptable ------------------------------------------------


class MessageRefused(InvalidArgument):
    """A message to or from an agent has the wrong shape; nothing was done with it."""

    def __init__(self, path: str, problem: str, *, fix: str = "") -> None:
        """Name the place in the message, such as `event.payload.tests`, and what is wrong there."""
        #: Where in the message it is wrong.
        self.path = path
        super().__init__(f"{path}: {problem}", fix=fix, path=path)


class AgentFailed(OncewardError):
    """An agent did not do its work; `code` and `retryable` are those of this failure."""

    code = "UNAVAILABLE"

    def __init__(
        self, message: str, *, code: str, retryable: bool, fix: str = "", **context: object
    ) -> None:
        """Keep what the agent, or its supervisor, said about this failure."""
        super().__init__(message, fix=fix, **context)
        # Of one failure, not of the class: agents bring codes of their own.
        vars(self).update(code=code, retryable=retryable)


# --- a request was refused at the gate ----------------------------------------------------------


class RequestRefused(OncewardError):
    """The request was refused before it reached the application."""

    code = "FORBIDDEN"


class Unauthorized(RequestRefused):
    """The token is missing or wrong; send the one this server printed or hands out."""

    code = "UNAUTHORIZED"


class NotFound(RequestRefused):
    """There is nothing at this address."""

    code = "NOT_FOUND"


class MethodNotAllowed(RequestRefused):
    """This address does not take that method."""

    code = "METHOD_NOT_ALLOWED"


class Misdirected(RequestRefused):
    """The Host header does not name this server."""

    code = "MISDIRECTED"


class TooLarge(RequestRefused):
    """The request body is larger than this server takes."""

    code = "TOO_LARGE"


class UnsupportedMediaType(RequestRefused):
    """The request body must be application/json."""

    code = "UNSUPPORTED_MEDIA_TYPE"


class RangeNotSatisfiable(RequestRefused):
    """The range begins behind the end of the content."""

    code = "RANGE_NOT_SATISFIABLE"


class Internal(OncewardError):
    """The server failed to answer; the log names the cause."""
