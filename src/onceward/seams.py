"""Seams: the only doors to time, chance and disk.

Code that needs the clock, an id, a random number or a file takes one of these as an argument; tests
pass in their own. Nothing outside this module asks the system directly, and a test makes sure.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Protocol

from onceward.errors import (
    DiskFull,
    FileMissing,
    FileRefused,
    NotWritable,
    StorageError,
    WrongPath,
)

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700


class Clock(Protocol):
    """Time as people read it, and time as it passes."""

    def now(self) -> datetime:
        """Return the wall time in UTC; it may jump, so it decides nothing."""

    def monotonic(self) -> float:
        """Return seconds that never run backwards within this process."""

    def boot_seconds(self) -> float:
        """Return seconds since this machine started, the same in every process, asleep or not."""

    def boot_id(self) -> str:
        """Return what changes when the machine starts anew."""

    def sleep(self, seconds: float) -> None:
        """Wait that long."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the machine's wall time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the machine's monotonic time in seconds."""
        return time.monotonic()

    def boot_seconds(self) -> float:
        """Return the kernel's time since boot."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def boot_id(self) -> str:
        """Return the kernel's own id of this boot."""
        return _boot_id()

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)


class ManualClock:
    """A clock that moves when it is told to; sleeping moves it too."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        """Stand still at `start`."""
        self._start = start
        self._elapsed_seconds = 0.0
        self._boots = 1

    def now(self) -> datetime:
        """Return the start plus everything advanced so far."""
        return self._start + timedelta(seconds=self._elapsed_seconds)

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._elapsed_seconds

    def boot_seconds(self) -> float:
        """Return the seconds advanced so far, as if the machine had started at `start`."""
        return self._elapsed_seconds

    def boot_id(self) -> str:
        """Return the id of the one boot there is, unless `reboot` was called."""
        return f"manual-{self._boots}"

    def reboot(self) -> None:
        """Let every boot id of before be of another boot."""
        self._boots += 1

    def sleep(self, seconds: float) -> None:
        """Advance instead of waiting."""
        self.advance(seconds=seconds)

    def advance(self, *, seconds: float) -> None:
        """Move time forward."""
        assert seconds >= 0, seconds
        self._elapsed_seconds += seconds


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def timestamp(moment: datetime) -> str:
    """Write a moment as `YYYY-MM-DDTHH:MM:SS.mmmZ`, the only form in our files."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds")[: -len("+00:00")] + "Z"


class Randomness(Protocol):
    """Chance."""

    def fraction(self) -> float:
        """Return a number from 0 up to, but not including, 1."""

    def hex(self, digits: int) -> str:
        """Return that many random lower-case hexadecimal digits."""


class SystemRandomness:
    """Chance from the operating system; fit for tokens."""

    _source: ClassVar = random.SystemRandom()

    def fraction(self) -> float:
        """Return an unpredictable fraction."""
        return self._source.random()

    def hex(self, digits: int) -> str:
        """Return unpredictable digits."""
        return f"{self._source.getrandbits(4 * digits):0{digits}x}"


class SeededRandomness:
    """Chance that repeats itself, for tests."""

    def __init__(self, seed: int) -> None:
        """Start the sequence that belongs to `seed`."""
        self._source = random.Random(seed)  # noqa: S311 - repeatable on purpose

    def fraction(self) -> float:
        """Return the next fraction of the sequence."""
        return self._source.random()

    def hex(self, digits: int) -> str:
        """Return the next digits of the sequence."""
        return f"{self._source.getrandbits(4 * digits):0{digits}x}"


class Ids:
    """New identifiers: a prefix that says what it is, and a random UUID."""

    def __init__(self, randomness: Randomness | None = None) -> None:
        """Draw from `randomness`, the system's unless told otherwise."""
        self._randomness = randomness or SystemRandomness()

    def new(self, prefix: str) -> str:
        """Return an identifier nobody has seen, such as `fb_6f1c…`."""
        return f"{prefix}_{uuid.UUID(hex=self._randomness.hex(32), version=4)}"


class FileStat(NamedTuple):
    """Which file it is, and how long; a tuple, because several are made for every append."""

    #: With `inode`, the file's identity: another file under the same name has another one.
    device: int
    inode: int
    size: int

    @property
    def identity(self) -> tuple[int, int]:
        """Return what stays the same while the file grows."""
        return self[:2]


class OpenFile(Protocol):
    """One open file. What is not offered here, our code does not do to files."""

    def stat(self) -> FileStat:
        """Return identity and size as they are now."""

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`, fewer only at the end of the file."""

    def write(self, data: bytes) -> int:
        """Append with a single call and return how many bytes were taken, which may be fewer."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""

    def lock(self) -> None:
        """Wait for the exclusive lock on this file; whoever dies gives it back."""

    def try_lock(self) -> bool:
        """Take the lock if nobody has it, and say whether that is so."""

    def unlock(self) -> None:
        """Give the lock back."""

    def sync(self) -> None:
        """Return once the content is on disk. A failure is final: this process refuses the file."""

    def close(self) -> None:
        """Give the descriptor back, and any lock with it."""


class Files(Protocol):
    """The file system, reduced to what can be made to survive a crash."""

    def open_append(self, path: Path, *, follow_links: bool = True) -> OpenFile:
        """Open for appending and reading; create it when missing."""

    def open_read(self, path: Path) -> OpenFile:
        """Open for reading; raise FileMissing when it is not there."""

    def stat(self, path: Path) -> FileStat | None:
        """Return what the name points to now, or None."""

    def names(self, path: Path) -> list[str]:
        """Return what a directory holds, sorted; nothing when it is missing."""

    def replace(self, source: Path, target: Path) -> None:
        """Give `source` the name `target` in one step; durable after sync_directory."""

    def remove(self, path: Path) -> None:
        """Take the name away; durable after sync_directory. A missing file is fine."""

    def make_directories(self, path: Path) -> None:
        """Create the directory and its missing parents, each durable before the next."""

    def sync_directory(self, path: Path) -> None:
        """Return once the names in this directory, and those that lead to it, are on disk."""


class SystemFiles:
    """The machine's file system."""

    #: Directories whose way from the root this process knows to be on disk.
    _anchored: ClassVar[set[tuple[int, int]]] = set()

    def open_append(self, path: Path, *, follow_links: bool = True) -> OpenFile:
        """Open for appending and reading; create it readable by its owner only."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | (0 if follow_links else os.O_NOFOLLOW)
        return _SystemFile(path, flags)

    def open_read(self, path: Path) -> OpenFile:
        """Open for reading; opening never waits, not even for a pipe's other end."""
        return _SystemFile(path, os.O_RDONLY | os.O_NONBLOCK)

    def stat(self, path: Path) -> FileStat | None:
        """Return what the name points to now, or None."""
        try:
            return _file_stat(os.stat(path))  # noqa: PTH116 - a third of pathlib's cost
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise refusal(exc, path, "look at") from exc

    def names(self, path: Path) -> list[str]:
        """List the directory."""
        try:
            return sorted(os.listdir(path))  # noqa: PTH208 - names are what is wanted
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise refusal(exc, path, "list") from exc

    def replace(self, source: Path, target: Path) -> None:
        """Rename over the target."""
        with translated(target, "replace"):
            source.replace(target)

    def remove(self, path: Path) -> None:
        """Unlink."""
        with translated(path, "remove"):
            path.unlink(missing_ok=True)

    def make_directories(self, path: Path) -> None:
        """Create what is missing, from the top, syncing each parent."""
        missing = [level for level in (path, *path.parents) if not level.is_dir()]
        for level in reversed(missing):
            with translated(level, "create"):
                level.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            self.sync_directory(level.parent)

    def sync_directory(self, path: Path) -> None:
        """Fsync the directory and, the first time, those above it."""
        identity = _sync_directory(path)
        if identity in self._anchored:
            return
        # Whoever made them may have died before it synced them.
        for above in path.resolve().parents:
            with contextlib.suppress(NotWritable):  # We may pass through it, but not open it.
                _sync_directory(above)
        self._anchored.add(identity)


class _SystemFile:
    """A descriptor, and the memory of which files failed to sync in this process."""

    #: Linux may drop the pages it failed to write and report success next time: once is for ever.
    _refused: ClassVar[set[tuple[int, int]]] = set()

    def __init__(self, path: Path, flags: int) -> None:
        self._path = path
        try:
            self._descriptor = os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
        except OSError as exc:
            raise refusal(exc, path, "open") from exc
        try:
            self._check_trusted()
        except FileRefused:
            self.close()
            raise

    def stat(self) -> FileStat:
        return _file_stat(os.fstat(self._descriptor))

    def read(self, offset: int, size: int) -> bytes:
        try:
            return os.pread(self._descriptor, size, offset)
        except OSError as exc:
            raise refusal(exc, self._path, "read") from exc

    def write(self, data: bytes) -> int:
        self._check_trusted()
        try:
            return os.write(self._descriptor, data)
        except OSError as exc:
            raise refusal(exc, self._path, "write to") from exc

    def truncate(self, size: int) -> None:
        with translated(self._path, "truncate"):
            os.ftruncate(self._descriptor, size)

    def lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError as exc:
            raise refusal(exc, self._path, "lock") from exc

    def try_lock(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as exc:
            raise refusal(exc, self._path, "lock") from exc
        return True

    def unlock(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def sync(self) -> None:
        self._check_trusted()
        try:
            os.fdatasync(self._descriptor)
        except OSError as exc:
            self._refused.add(self.stat().identity)
            raise sync_failure(exc, self._path) from exc

    def close(self) -> None:
        os.close(self._descriptor)

    def _check_trusted(self) -> None:
        if self._refused and self.stat().identity in self._refused:
            raise distrust(self._path)


def _file_stat(found: os.stat_result) -> FileStat:
    return FileStat(found.st_dev, found.st_ino, found.st_size)


def _sync_directory(path: Path) -> tuple[int, int]:
    with translated(path, "open"):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as exc:
        if exc.errno != errno.EINVAL:  # Some file systems keep no directories to sync.
            raise refusal(exc, path, "sync") from exc
    finally:
        identity = _file_stat(os.fstat(descriptor)).identity
        os.close(descriptor)
    return identity


# --- how the system's refusals become ours; test doubles of Files use the same ------------------

_KINDS: Final[dict[int, type[StorageError]]] = {
    errno.ENOENT: FileMissing,
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EROFS: NotWritable,
    errno.EACCES: NotWritable,
    errno.EPERM: NotWritable,
    errno.EISDIR: WrongPath,
    errno.ENOTDIR: WrongPath,
    errno.EEXIST: WrongPath,
    errno.ELOOP: WrongPath,
    errno.ENAMETOOLONG: WrongPath,
    errno.ESPIPE: WrongPath,
}


def refusal(exc: OSError, path: Path, doing: str) -> StorageError:
    """Return our error for what the system answered."""
    kind = _KINDS.get(exc.errno or 0, StorageError)
    message = f"cannot {doing} {path}: {exc.strerror or exc}"
    if kind is FileMissing and doing == "open":
        message = f"{path} does not exist"
    return kind(message, path=str(path))


@contextlib.contextmanager
def translated(path: Path, doing: str) -> Iterator[None]:
    """Turn the system's refusals into ours."""
    try:
        yield
    except OSError as exc:
        raise refusal(exc, path, doing) from exc


def sync_failure(exc: OSError, path: Path) -> FileRefused:
    """Return the error for an fsync that failed, which is final for that file."""
    return FileRefused(f"fsync of {path} failed: {exc.strerror or exc}", path=str(path))


def distrust(path: Path) -> FileRefused:
    """Return the error for a file whose fsync failed earlier."""
    message = f"an earlier fsync of {path} failed; this process trusts it no more"
    return FileRefused(message, path=str(path))
