"""Safe paths: open files below one directory so that no symbolic link leads out of it.

Walks from a trusted root down to a file, one component at a time, each held open. So a link that is
swapped in between check and use has no effect.
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
from onceward.system import file_error

#: Directories with more files than this are not listed.
ENTRIES_MAX: Final = 10_000
#: The kernel's limit for paths.
PATH_BYTES_MAX: Final = 4096

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Without O_NONBLOCK, opening a pipe would wait for its other end.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Errors for opening sockets and devices, which are not regular files.
_NOT_REGULAR_ERRNOS: Final = frozenset({errno.ENXIO, errno.ENODEV})
_CHUNK_BYTES: Final = 1024 * 1024
_SHOWN_CHARACTERS: Final = 200
_RESOLVE_ATTEMPTS: Final = 100


class RootedStat(NamedTuple):
    """Identity, size and modification time of a file when it was opened."""

    device: int
    inode: int
    size: int
    mtime_ns: int


class DirectoryEntry(NamedTuple):
    """A regular file directly inside a directory."""

    name: str
    size: int
    mtime_ns: int


class RootedFile:
    """A regular file, open for reading."""

    #: State when it was opened.
    stat: RootedStat

    def __init__(self, descriptor: int, shown: str, found: os.stat_result) -> None:
        """Own an open descriptor; created by `RootedDirectory.open_file`."""
        self._descriptor = descriptor
        self._shown = shown
        self.stat = RootedStat(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`; none at the end of the file."""
        with _mapped_errors(self._shown, "read"):
            return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        """Close the descriptor; idempotent."""
        # Cleared first: the number may be reused for another file.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class RootedDirectory:
    """An open directory at or below a root; reads never leave it."""

    def __init__(self, descriptor: int) -> None:
        """Own an open descriptor; created by `RootedDirectory.open`."""
        self._descriptor = descriptor

    @classmethod
    def open(cls, root: Path, relative: PurePath | str = ".") -> Self:
        """Open `root` and from there, component by component, `relative`.

        The root is trusted, but neither it nor any component below may be a symbolic link.
        """
        parts, shown = ([], ".") if str(relative) == "." else _parts(relative)
        shown = str(root) if shown == "." else shown
        try:
            with _mapped_errors(shown, "open"):
                top = os.open(root, _DIRECTORY)
                try:
                    return cls(_descend(top, parts))
                finally:
                    os.close(top)
        except WrongPath as exc:
            fix = "pass the path of a directory, without symbolic links"
            raise WrongPath(exc.message, fix=fix, path=shown) from exc

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_file(self, relative: str) -> RootedFile:
        """Open a regular file for reading; raise FileMissing, or WrongPath for anything else."""
        (*above, name), shown = _parts(relative)
        with _mapped_errors(shown, "open"):
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
        """Return the content; raise TooLarge for more than `bytes_max` bytes."""
        with self.open_file(relative) as file:
            content = bytearray()
            # It may grow while being read, so its size is only used to reject it early.
            while file.stat.size <= bytes_max and len(content) <= bytes_max:
                chunk = file.read(len(content), min(_CHUNK_BYTES, bytes_max + 1 - len(content)))
                if not chunk:
                    return bytes(content)
                content += chunk
        shown = _shown(relative)
        message = f"{shown} is larger than {bytes_max} bytes"
        raise TooLarge(message, fix=f"reduce it to at most {bytes_max} bytes", path=shown)

    def entries(self) -> list[DirectoryEntry]:
        """Return the regular files directly inside, sorted by name; no links, no directories."""
        found: list[DirectoryEntry] = []
        with _mapped_errors("the directory", "list"):
            # Reopened, because listing moves the offset that all users of a descriptor share.
            descriptor = os.open(".", _DIRECTORY, dir_fd=self._descriptor)
            try:
                with os.scandir(descriptor) as listing:
                    for each in listing:
                        try:
                            status = each.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue  # Removed since it was listed.
                        if stat.S_ISREG(status.st_mode):
                            found.append(
                                DirectoryEntry(each.name, status.st_size, status.st_mtime_ns)
                            )
                        if len(found) > ENTRIES_MAX:
                            message = f"the directory holds more than {ENTRIES_MAX} files"
                            raise TooLarge(message, fix=f"keep at most {ENTRIES_MAX} files in it")
            finally:
                os.close(descriptor)
        return sorted(found)

    def path(self) -> Path:
        """Return a path to this directory that is valid while it is open, even if moved."""
        return Path(f"/proc/self/fd/{self._descriptor}")

    def close(self) -> None:
        """Close the descriptor; idempotent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def locate_below(path: str, roots: Sequence[Path]) -> tuple[Path, PurePath] | None:
    """Return the root that contains the real `path`, and the path below it; None if none does.

    Compares components, so `/a/bc` is not inside `/a/b`. Roots must be real paths: a root that was
    replaced by a link contains nothing. The path need not exist.
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
        _reject_path("is empty")
    if "\0" in path:
        _reject_path("holds a NUL character")
    _check_text(path, "is not Unicode text")
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        _reject_path(f"is longer than {PATH_BYTES_MAX} bytes")
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)  # noqa: PTH111 - pathlib would expand `~name` as well
    if path.startswith("//"):  # POSIX gives it another meaning, Linux does not.
        path = "/" + path.lstrip("/")
    with _mapped_errors("the working directory", "inspect"):
        # `..` is resolved first and lexically: following it through directories outside the roots
        # would reveal whether they exist.
        absolute = os.path.abspath(path)  # noqa: PTH100 - pathlib keeps the `..`
    return _resolved(absolute)


def _resolved(path: str | Path) -> str:
    for _ in range(_RESOLVE_ATTEMPTS):
        # Only a link that is replaced during the read raises here.
        with suppress(OSError):
            return os.path.realpath(path)
    message = f"{_shown(str(path))} changed while it was resolved"
    raise StorageError(message, fix="try again", path=_shown(str(path)))


def _check_text(text: str, problem: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        _reject_path(problem)


def _reject_path(problem: str) -> NoReturn:
    message = f"path: it {problem}"
    raise InvalidArgument(message, fix="correct the path", field="path")


def _parts(relative: PurePath | str) -> tuple[list[str], str]:
    """Return the components and their display form; raise for a path that leaves the root."""
    shown = _shown(str(relative))
    parts = list(relative.parts) if isinstance(relative, PurePath) else relative.split("/")
    for part in parts:
        if part in ("", ".", "..") or "/" in part or "\0" in part or not _is_encodable(part):
            message = f"{shown} is not a plain path below a directory"
            fix = "pass a path relative to the directory, without `.`, `..` or empty parts"
            raise WrongPath(message, fix=fix, path=shown)
    return parts, shown


def _is_encodable(part: str) -> bool:
    try:
        os.fsencode(part)
    except UnicodeEncodeError:
        return False
    return True


def _descend(top: int, parts: Sequence[str]) -> int:
    """Return a new descriptor of the directory at `parts` below `top`."""
    held = os.dup(top)
    for part in parts:
        try:
            below = os.open(part, _DIRECTORY, dir_fd=held)
        finally:
            os.close(held)
        held = below
    return held


@contextmanager
def _mapped_errors(shown: str, doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise _mapped_error(exc, shown, doing) from exc


def _mapped_error(exc: OSError, shown: str, doing: str) -> StorageError:
    if exc.errno in _NOT_REGULAR_ERRNOS:
        return WrongPath(f"{shown} is not a regular file", path=shown)
    return file_error(exc, Path(shown), doing)


def _shown(name: str) -> str:
    """Return a name for messages: valid text of limited length."""
    text = name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
