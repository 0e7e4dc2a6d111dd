"""File errors: a file operation failed, or its result is unknown."""

from __future__ import annotations

from onceward.errors.base import OncewardError


class StorageError(OncewardError):
    """A file operation failed; see the cause."""

    code = "STORAGE_ERROR"
    retryable = True
    default_fix = "remove the cause that the message names, then try again"


class FileMissing(StorageError):
    """The file does not exist."""

    code = "FILE_NOT_FOUND"
    retryable = False
    default_fix = "check the path"


class DiskFull(StorageError):
    """The disk or the quota is full; nothing was written."""

    code = "DISK_FULL"
    default_fix = "free some space, then try again"


class NotWritable(StorageError):
    """The file or its directory is not writable."""

    code = "NOT_WRITABLE"
    retryable = False
    default_fix = "check owner and mode, and whether the file system is mounted read-only"


class WrongPath(StorageError):
    """The path does not lead to a usable file."""

    code = "WRONG_PATH"
    retryable = False
    default_fix = "pass the path of a regular file, not of a directory, link or pipe"


class FileRefused(StorageError):
    """An fsync of this file failed. Its last writes may be lost; this process rejects the file."""

    code = "FSYNC_FAILED"
    retryable = False
    default_fix = (
        "check the disk, then restart the process; `onceward journal verify` checks a journal"
    )


class OutcomeUnknown(StorageError):
    """The operation is ambiguous: it may or may not have happened."""

    code = "OUTCOME_UNKNOWN"
    retryable = False
    default_fix = "check whether it happened before repeating it"
