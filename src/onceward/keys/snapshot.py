"""Snapshots: the state of a workspace as one id, made of content alone.

No clock and no mtime goes in, so that the same files give the same id on every machine. In a git
checkout the tracked and the untracked-but-not-ignored files count, elsewhere everything not hidden.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from onceward.errors import FileMissing, StorageError
from onceward.keys.canonical import canonical_json

#: Folders at the root that Onceward writes itself; counting them would change the id by using it.
OWN_FOLDERS: Final = frozenset({"events", "logs", "receipts", "snapshots", "state", "transcripts"})
GIT_SECONDS_MAX: Final = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackedFile:
    """One file of a snapshot."""

    #: Relative to the root, with forward slashes.
    path: str
    #: Of the content; of the target's name for a symbolic link.
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """A workspace at one moment."""

    #: `snap-` and twelve hexadecimal digits.
    id: str
    #: Sorted by path.
    files: tuple[TrackedFile, ...]


def snapshot(root: Path | str) -> Snapshot:
    """Read every tracked file below `root` and name the whole."""
    base = Path(root)
    if not base.is_dir():
        message = f"{base} is not a directory"
        raise FileMissing(message, fix="name the workspace's directory", path=str(base))
    names = _git_names(base) if _in_checkout(base) else _visible_names(base)
    found = (_tracked(base, name) for name in sorted(set(names)) if _is_foreign(name))
    return snapshot_of(file for file in found if file is not None)


def snapshot_of(files: Iterator[TrackedFile]) -> Snapshot:
    """Name a set of files that was read already."""
    ordered = tuple(sorted(files, key=lambda file: file.path))
    digest = hashlib.sha256(canonical_json([asdict(file) for file in ordered])).hexdigest()
    return Snapshot(id=f"snap-{digest[:12]}", files=ordered)


def _is_foreign(name: bytes) -> bool:
    first, slash, _ = name.partition(b"/")
    return not slash or os.fsdecode(first) not in OWN_FOLDERS


def _in_checkout(root: Path) -> bool:
    resolved = root.resolve()
    return any((level / ".git").exists() for level in (resolved, *resolved.parents))


def _git_names(root: Path) -> list[bytes]:
    """Ask git; a guess instead of its answer would give another machine another id."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        listing = subprocess.run(  # noqa: S603 - a fixed command line
            command,
            cwd=root,
            env=environment,
            capture_output=True,
            check=True,
            timeout=GIT_SECONDS_MAX,
        )
    except FileNotFoundError as exc:
        message = f"{root} is a git checkout, but there is no git to list its files"
        raise StorageError(message, fix="install git", path=str(root)) from exc
    except subprocess.TimeoutExpired as exc:
        message = f"git took longer than {GIT_SECONDS_MAX} s to list {root}"
        raise StorageError(message, fix="run `git status` there", path=str(root)) from exc
    except subprocess.CalledProcessError as exc:
        said = exc.stderr.decode(errors="replace").strip().partition("\n")[0]
        message = f"git cannot list the files of {root}: {said}"
        raise StorageError(message, fix="run `git status` there", path=str(root)) from exc
    return [name for name in listing.stdout.split(b"\0") if name]


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
    raise StorageError(message, fix="make it readable or move it out of the workspace") from exc


def _tracked(root: Path, name: bytes) -> TrackedFile | None:
    """Read one file; None for what is gone, or is neither a file nor a link."""
    path = root / os.fsdecode(name)
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            target = os.fsencode(path.readlink())
            digest, size = hashlib.sha256(target).hexdigest(), len(target)
        elif stat.S_ISREG(mode):
            digest, size = _digest(path)
        else:
            return None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        _unreadable(exc)
        raise
    # A name that is not UTF-8 has no JSON form; written with backslashes it stays distinct.
    written = name.decode("utf-8", errors="backslashreplace")
    return TrackedFile(path=written, sha256=digest, size=size)


def _digest(path: Path) -> tuple[str, int]:
    """Hash what is read and count it, so that both speak of the same bytes."""
    hashed, size = hashlib.sha256(), 0
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        while chunk := file.read(1 << 20):
            hashed.update(chunk)
            size += len(chunk)
    return hashed.hexdigest(), size
