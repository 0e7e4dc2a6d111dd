"""Cursor errors: a cursor, or what it has handed out, is in other hands or not there."""

from __future__ import annotations

from onceward.errors.base import OncewardError


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
    default_fix = "see `onceward cursors list`; --store names another store than your own"


class NothingToUndo(CursorError):
    """No seek of this cursor is left to be undone."""

    default_fix = "see `onceward cursors history`"


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
