"""Cursor errors: a cursor, batch or dead letter is missing, or held by another worker."""

from __future__ import annotations

from onceward.errors.base import OncewardError


class CursorError(OncewardError):
    """The operation conflicts with the state of the cursor; nothing was changed."""

    code = "CURSOR_ERROR"


class LeaseLost(CursorError):
    """The lease was taken over or ended, or its last checkpoint is ambiguous. Stop this work."""

    code = "LEASE_LOST"
    default_fix = (
        "stop this work and acquire the cursor again; a transaction with its checkpoint rolls back"
    )

    def __init__(
        self,
        cursor: str,
        held_epoch: int,
        current_epoch: int | None,
        *,
        is_ambiguous: bool = False,
    ) -> None:
        """Name the cursor, the epoch of the lost lease and the current epoch."""
        #: Name of the cursor.
        self.cursor = cursor
        #: The epoch, or fencing token, of the lost lease.
        self.held_epoch = held_epoch
        #: The current epoch; the same one if the lease was released; None without a cursor.
        self.current_epoch = current_epoch
        #: Whether its last checkpoint is ambiguous: it may or may not be stored.
        self.is_ambiguous = is_ambiguous
        now, fix = f"the current epoch is {current_epoch}", ""
        if is_ambiguous:
            now = "its last checkpoint may or may not be stored"
            fix = "stop this work and acquire the cursor again; its position shows what is stored"
        elif current_epoch is None:
            now = "the cursor no longer exists"
        elif current_epoch == held_epoch:
            now = "it was released"
        message = f"the lease of {cursor!r} under epoch {held_epoch} is lost: {now}"
        epochs = {"held_epoch": held_epoch, "current_epoch": current_epoch}
        super().__init__(message, fix=fix, cursor=cursor, **epochs)


class VersionMismatch(CursorError):
    """The cursor's position was written under rules that this worker cannot migrate from."""

    code = "VERSION_MISMATCH"
    default_fix = "deploy the version that wrote it, or pass migrations for every step in between"

    def __init__(self, cursor: str, stored: int, wanted: int) -> None:
        """Name the cursor, the version of its position and the version of the worker."""
        #: Name of the cursor.
        self.cursor = cursor
        #: Version under which its position was written.
        self.stored = stored
        #: Version that the worker declared.
        self.wanted = wanted
        message = (
            f"the position of {cursor!r} was written under version {stored}, "
            f"and this worker is at version {wanted}; nothing was changed"
        )
        fix = f"deploy a worker at version {stored} or later" if stored > wanted else ""
        super().__init__(message, fix=fix, cursor=cursor, stored=stored, wanted=wanted)


class CursorMissing(CursorError):
    """There is no cursor with this name. A worker creates it when it first acquires it."""

    code = "CURSOR_NOT_FOUND"
    default_fix = "list cursors with `onceward cursors list`, or pass --store for another store"


class NothingToUndo(CursorError):
    """No seek of this cursor is left to be undone."""

    code = "NOTHING_TO_UNDO"
    default_fix = "list the seeks with `onceward cursors history NAME`"


class Superseded(OncewardError):
    """Another transaction has settled this batch or message. Nothing was changed. Do not retry."""

    code = "SUPERSEDED"
    default_fix = "discard this handle, and read again what is due or pending"


class BatchInFlight(OncewardError):
    """This group has a batch in flight already. Nothing was changed."""

    code = "BATCH_IN_FLIGHT"
    retryable = True
    default_fix = (
        "commit the batch, roll it back, or pass it as `extends`; after a crash call recover() "
        "once no other process works on it"
    )


class DeadLetterMissing(OncewardError):
    """There is no dead letter with this number."""

    code = "DEAD_LETTER_NOT_FOUND"
    default_fix = "list dead letters with `onceward dead list`"
