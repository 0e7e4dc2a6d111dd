"""Rooted: files below one directory, reached so that no link leads out of it.

Owns the walk from a trusted root down to a file, one component at a time and each held open, so
that swapping a link in between a check and a use gains nothing. Knows not what the files mean.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Final, NamedTuple, NoReturn, Self

from onceward.errors import InvalidArgument, StorageError, TooLarge, WrongPath
from onceward.seams import refusal

#: More files than this in one directory are not listed.
ENTRIES_MAX: Final = 10_000
#: The kernel takes no longer path; a longer one would only cost time.
PATH_BYTES_MAX: Final = 4096

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Without O_NONBLOCK, opening a pipe would wait for its other end.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: What the system answers for sockets and devices, which are no files to us.
_NO_FILE: Final = frozenset({errno.ENXIO, errno.ENODEV})
_CHUNK_BYTES: Final = 1024 * 1024
_SHOWN_CHARACTERS: Final = 200
_RESOLVE_ATTEMPTS: Final = 100


class RootedStat(NamedTuple):
    """Which file it is, and when and how long it was as it was opened."""

    device: int
    inode: int
    size: int
    mtime_ns: int


class Entry(NamedTuple):
    """A regular file directly inside a directory."""

    name: str
    size: int
    mtime_ns: int


class RootedFile:
    """A regular file, open for reading."""

    #: As it was when it was opened.
    stat: RootedStat

    def __init__(self, descriptor: int, shown: str, found: os.stat_result) -> None:
        """Own an open descriptor; `RootedDirectory.open_file` is the way to get one."""
        self._descriptor = descriptor
        self._shown = shown
        self.stat = RootedStat(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`; none at the end of the file."""
        with _translated(self._shown, "read"):
            return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        """Give the descriptor back; a second time changes nothing."""
        # The number may soon be another file's, so it is forgotten first.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class RootedDirectory:
    """A directory at or below a root, held open; what it reads lies below it, whatever happens."""

    def __init__(self, descriptor: int) -> None:
        """Own an open descriptor; `RootedDirectory.open` is the way to get one."""
        self._descriptor = descriptor

    @classmethod
    def open(cls, root: Path, relative: PurePath | str = ".") -> Self:
        """Open `root` and from there, component by component, `relative`.

        The root is taken at the caller's word, but neither it nor anything below may be a link.
        """
        parts, shown = ([], ".") if str(relative) == "." else _parts(relative)
        with _translated(str(root) if shown == "." else shown, "open"):
            top = os.open(root, _DIRECTORY)
            try:
                return cls(_descend(top, parts))
            finally:
                os.close(top)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_file(self, relative: str) -> RootedFile:
        """Open a regular file for reading; raise FileMissing, or WrongPath for anything else."""
        (*above, name), shown = _parts(relative)
        with _translated(shown, "open"):
            holder = _descend(self._descriptor, above)
            try:
                descriptor = os.open(name, _FILE, dir_fd=holder)
            finally:
                os.close(holder)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            message = f"{shown} is not a regular file"
            raise WrongPath(message, path=shown)
        return RootedFile(descriptor, shown, found)

    def read(self, relative: str, *, bytes_max: int) -> bytes:
        """Return the whole content; raise TooLarge rather than more than `bytes_max`."""
        with self.open_file(relative) as file:
            content = bytearray()
            # It may grow while we read, so its size alone decides nothing but an early refusal.
            while file.stat.size <= bytes_max and len(content) <= bytes_max:
                chunk = file.read(len(content), min(_CHUNK_BYTES, bytes_max + 1 - len(content)))
                if not chunk:
                    return bytes(content)
                content += chunk
        shown = _shown(relative)
        message = f"{shown} is larger than {bytes_max} bytes"
        raise TooLarge(message, fix=f"keep it below {bytes_max} bytes", path=shown)

    def entries(self) -> list[Entry]:
        """Return the regular files directly inside, by name; links and all else are left out."""
        found: list[Entry] = []
        with _translated("the directory", "list"):
            # Opened anew, because listing moves an offset that all users of a descriptor share.
            descriptor = os.open(".", _DIRECTORY, dir_fd=self._descriptor)
            try:
                with os.scandir(descriptor) as listing:
                    for each in listing:
                        try:
                            status = each.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue  # Gone since it was listed.
                        if stat.S_ISREG(status.st_mode):
                            found.append(Entry(each.name, status.st_size, status.st_mtime_ns))
                        if len(found) > ENTRIES_MAX:
                            message = f"the directory holds more than {ENTRIES_MAX} files"
                            raise TooLarge(message, fix="name a directory with fewer files")
            finally:
                os.close(descriptor)
        return sorted(found)

    def path(self) -> Path:
        """Return a path to this very directory that holds while it is open, moved or not."""
        return Path(f"/proc/self/fd/{self._descriptor}")

    def close(self) -> None:
        """Give the descriptor back; a second time changes nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def contained(path: str, roots: Sequence[Path]) -> tuple[Path, PurePath] | None:
    """Return the root that `path` really lies in and the way from there, or None when in none.

    Compared by components, so that `/a/bc` is not inside `/a/b`. Roots are real paths themselves: a
    root that somebody replaced by a link contains nothing. Whether the path exists plays no part.
    """
    real = PurePath(_real(path)).parts
    for root in roots:
        anchored = PurePath(_resolved(root.parent), root.name)
        if real[: len(anchored.parts)] == anchored.parts:
            _check_text("".join(real), "leads to a name that is not Unicode text")
            return Path(anchored), PurePath(*real[len(anchored.parts) :])
    return None


def _real(path: str) -> str:
    if not path:
        _refuse("is empty")
    if "\0" in path:
        _refuse("holds a NUL character")
    _check_text(path, "is not Unicode text")
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        _refuse(f"is longer than {PATH_BYTES_MAX} bytes")
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)  # noqa: PTH111 - pathlib would expand `~name` as well
    if path.startswith("//"):  # Which POSIX lets mean something else, and Linux does not.
        path = "/" + path.lstrip("/")
    with _translated("the working directory", "look at"):
        # `..` goes first and by the letter: followed through directories outside the roots, it
        # would tell what those are.
        absolute = os.path.abspath(path)  # noqa: PTH100 - pathlib keeps the `..`
    return _resolved(absolute)


def _resolved(path: str | Path) -> str:
    for _ in range(_RESOLVE_ATTEMPTS):
        # A link that is replaced while it is read is all that makes the system refuse here.
        with suppress(OSError):
            return os.path.realpath(path)
    message = f"{_shown(str(path))} changes while it is looked at"
    raise StorageError(message, fix="try again", path=_shown(str(path)))


def _check_text(text: str, problem: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse(problem)


def _refuse(problem: str) -> NoReturn:
    message = f"path: it {problem}"
    raise InvalidArgument(message, fix="correct path", field="path")


def _parts(relative: PurePath | str) -> tuple[list[str], str]:
    """Return the components and how to show them, or refuse what is no way down."""
    shown = _shown(str(relative))
    parts = list(relative.parts) if isinstance(relative, PurePath) else relative.split("/")
    for part in parts:
        if part in ("", ".", "..") or "/" in part or "\0" in part or not _is_encodable(part):
            message = f"{shown} is not a plain path below a directory"
            fix = "name it relative to the directory, without `.`, `..` or empty parts"
            raise WrongPath(message, fix=fix, path=shown)
    return parts, shown


def _is_encodable(part: str) -> bool:
    try:
        os.fsencode(part)
    except UnicodeEncodeError:
        return False
    return True


def _descend(top: int, parts: Sequence[str]) -> int:
    """Return a new descriptor of the directory that `parts` lead to."""
    held = os.dup(top)
    for part in parts:
        try:
            below = os.open(part, _DIRECTORY, dir_fd=held)
        finally:
            os.close(held)
        held = below
    return held


@contextmanager
def _translated(shown: str, doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise _refusal(exc, shown, doing) from exc


def _refusal(exc: OSError, shown: str, doing: str) -> StorageError:
    if exc.errno in _NO_FILE:
        return WrongPath(f"{shown} is not a regular file", path=shown)
    return refusal(exc, Path(shown), doing)


def _shown(name: str) -> str:
    """Return a name as a message can carry it: of bounded length, and nothing but text."""
    text = name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
