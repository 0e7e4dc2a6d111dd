"""Snapshots: identify the state of a workspace by a hash of its file contents.

No clock and no mtime is included, so the same files have the same id on every machine. A git
checkout includes tracked and untracked, not ignored files. Other directories include all but hidden
files, and so does a directory that git ignores as a whole.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from onceward.errors import FileMissing, StorageError
from onceward.keys.canonical import canonical_json
from onceward.system import Clock, SystemClock

#: Folders at the root that Onceward writes itself; including them would change the id.
OWN_FOLDERS: Final = frozenset({"events", "logs", "receipts", "snapshots", "state", "transcripts"})
#: Files at the root that are not part of the work, such as the configuration.
OWN_FILES: Final = frozenset({"onceward.json"})
GIT_SECONDS_MAX: Final = 60
#: Keeps the digest of a link apart from that of a file whose content is the link's target.
LINK_PREFIX: Final = b"link\0"
#: A name that no file has; if git ignores it, it ignores new files of that directory.
_PROBE: Final = "onceward-probe-of-ignored-files"
_SEE_GIT: Final = "run `git status` there, and correct what it reports"
#: A file modified more recently than this before its read may change without a visible trace.
SETTLED_NANOSECONDS: Final = 2_000_000_000
#: Size, inode, mtime and ctime.
FileSignature = tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackedFile:
    """One file of a snapshot."""

    #: Relative to the root, with forward slashes.
    path: str
    #: Digest of the content; for a symbolic link, of `LINK_PREFIX` and its target's name.
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The state of a workspace at one time."""

    #: `snap-` and twelve hexadecimal digits.
    id: str
    #: Sorted by path.
    files: tuple[TrackedFile, ...]


class DigestCache:
    """Caches the digests of files that have not changed.

    A file is unchanged if size, inode, mtime and ctime are the same, and it was not modified just
    before its read: a second write within one clock tick would not be visible.
    """

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        """Start with the result of `to_json`; malformed entries are ignored."""
        self._known: dict[str, tuple[FileSignature, str]] = {}
        for path, words in (known or {}).items():
            parts = words.split()
            if len(parts) == 5 and all(map(str.isdecimal, parts[:4])):
                size, inode, mtime, ctime = map(int, parts[:4])
                self._known[path] = ((size, inode, mtime, ctime), parts[4])
        self._next: dict[str, tuple[FileSignature, str]] = {}

    def find(self, path: str, signs: FileSignature) -> str | None:
        """Return the cached digest of a file, or None if it may have changed."""
        found = self._known.get(path)
        if found is None or found[0] != signs:
            return None
        self._next[path] = found
        return found[1]

    def keep(self, path: str, signs: FileSignature, digest: str, *, read_at_ns: int) -> None:
        """Cache a digest, unless the file was modified too recently."""
        if max(signs[2], signs[3]) + SETTLED_NANOSECONDS < read_at_ns:
            self._next[path] = (signs, digest)

    def drop_unused(self) -> None:
        """Drop the digests of files that the last snapshot did not contain."""
        self._known, self._next = self._next, {}

    def to_json(self) -> dict[str, str]:
        """Return the cache as JSON; numbers as text, since times have too many digits."""
        return {
            path: " ".join([*map(str, signs), digest])
            for path, (signs, digest) in self._known.items()
        }


def snapshot(
    root: Path | str, *, digests: DigestCache | None = None, clock: Clock | None = None
) -> Snapshot:
    """Compute the snapshot of the workspace at `root`.

    With `digests`, files that have not changed since the last snapshot are not read again.
    """
    base = Path(root)
    if not base.is_dir():
        message = f"{base} is not a directory"
        raise FileMissing(message, fix="pass the workspace's directory", path=str(base))
    reader = _SnapshotReader(base, digests, clock or SystemClock())
    found = (reader.tracked(name) for name in sorted(_names(base)))
    made = snapshot_of(file for file in found if file is not None)
    if digests is not None:
        digests.drop_unused()
    return made


def snapshot_of(files: Iterator[TrackedFile]) -> Snapshot:
    """Compute the snapshot of files that were read already."""
    ordered = tuple(sorted(files, key=lambda file: file.path))
    digest = hashlib.sha256(canonical_json([asdict(file) for file in ordered])).hexdigest()
    return Snapshot(id=f"snap-{digest[:12]}", files=ordered)


def _names(root: Path) -> set[bytes]:
    """Return the tracked files; git decides, unless it ignores the directory as a whole.

    Git lists a hidden placeholder of a directory that it ignores, such as `.gitkeep`.
    """
    listed: set[bytes] = set()
    if _in_checkout(root):
        listed = set(filter(_is_foreign, _git_names(root)))
        if any(map(_is_visible, listed)) or not _is_ignored(root):
            return listed
    return listed.union(filter(_is_foreign, _visible_names(root)))


def _is_foreign(name: bytes) -> bool:
    first, slash, _ = name.partition(b"/")
    return os.fsdecode(first) not in (OWN_FOLDERS if slash else OWN_FILES)


def _is_visible(name: bytes) -> bool:
    return not any(part.startswith(b".") for part in name.split(b"/"))


def _in_checkout(root: Path) -> bool:
    resolved = root.resolve()
    return any((level / ".git").exists() for level in (resolved, *resolved.parents))


def _git_names(root: Path) -> list[bytes]:
    """Return the files that git lists."""
    found = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return [name for name in found.stdout.split(b"\0") if name]


def _is_ignored(root: Path) -> bool:
    """Return whether git ignores new files in this directory."""
    return _git(root, "check-ignore", "-q", "--", _PROBE, accepts=(0, 1)).returncode == 0


def _git(
    root: Path, *arguments: str, accepts: tuple[int, ...] = (0,)
) -> subprocess.CompletedProcess[bytes]:
    """Ask git; without git the id would differ between machines."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        found = subprocess.run(  # noqa: S603 - fixed command lines
            ["git", *arguments],  # noqa: S607 - the git of the user's PATH
            cwd=root,
            env=environment,
            capture_output=True,
            check=False,
            timeout=GIT_SECONDS_MAX,
        )
        if found.returncode not in accepts:
            found.check_returncode()
    except FileNotFoundError as exc:
        message = f"{root} is a git checkout, but git is not installed"
        raise StorageError(message, fix="install git, or add it to PATH", path=str(root)) from exc
    except subprocess.TimeoutExpired as exc:
        message = f"git took longer than {GIT_SECONDS_MAX} s to list {root}"
        fix = (
            f"{_SEE_GIT}; if it is slow, let .gitignore leave out large directories of built files"
        )
        raise StorageError(message, fix=fix, path=str(root)) from exc
    except subprocess.CalledProcessError as exc:
        said = exc.stderr.decode(errors="replace").strip().partition("\n")[0]
        message = f"git cannot list the files of {root}: {said}"
        raise StorageError(message, fix=_SEE_GIT, path=str(root)) from exc
    return found


def _visible_names(root: Path) -> Iterator[bytes]:
    base = os.fsencode(root)
    for directory, folders, files in os.walk(base, onerror=_unreadable):
        folders[:] = [folder for folder in folders if not folder.startswith(b".")]
        links = [
            name for name in folders if Path(os.fsdecode(directory + b"/" + name)).is_symlink()
        ]
        for name in (*files, *links):
            if not name.startswith(b"."):
                yield os.path.relpath(directory + b"/" + name, base)


def _unreadable(exc: OSError) -> None:
    message = f"cannot read {exc.filename!r}: {exc.strerror}"
    fix = "make it readable, or move it out of the workspace"
    raise StorageError(message, fix=fix) from exc


class _SnapshotReader:
    """Reads the files of one snapshot."""

    def __init__(self, root: Path, digests: DigestCache | None, clock: Clock) -> None:
        self._root, self._digests, self._clock = root, digests, clock

    def tracked(self, name: bytes) -> TrackedFile | None:
        """Read one file; None if it is missing, or neither a file nor a link."""
        path = self._root / os.fsdecode(name)
        # A name that is not UTF-8 has no JSON form; backslash escapes keep it distinct.
        written = name.decode("utf-8", errors="backslashreplace")
        try:
            found = path.lstat()
            if stat.S_ISLNK(found.st_mode):
                target = os.fsencode(path.readlink())
                digest, size = hashlib.sha256(LINK_PREFIX + target).hexdigest(), len(target)
            elif stat.S_ISREG(found.st_mode):
                digest, size = self._file(path, written, found)
            else:
                return None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            _unreadable(exc)
            raise
        return TrackedFile(path=written, sha256=digest, size=size)

    def _file(self, path: Path, written: str, found: os.stat_result) -> tuple[str, int]:
        if self._digests is None:
            return _digest(path)
        signs = (found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
        known = self._digests.find(written, signs)
        if known is not None:
            return known, found.st_size
        read_at_ns = int(self._clock.now().timestamp() * 1e9)
        digest, size = _digest(path)
        if size == found.st_size:
            self._digests.keep(written, signs, digest, read_at_ns=read_at_ns)
        return digest, size


def _digest(path: Path) -> tuple[str, int]:
    """Return hash and size of the same bytes."""
    hashed, size = hashlib.sha256(), 0
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        while chunk := file.read(1 << 20):
            hashed.update(chunk)
            size += len(chunk)
    return hashed.hexdigest(), size
