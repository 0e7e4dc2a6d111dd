"""File errors: the machine refused, or did not say whether it obeyed."""

from __future__ import annotations

from onceward.errors.base import OncewardError


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
