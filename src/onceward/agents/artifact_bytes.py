"""Artifact bytes: archive the files of an answer, and restore them.

The archive's comment holds the idempotency key, so that no other file is mistaken for an archive.
Content is read and written below the workspace only, without following links.
"""

from __future__ import annotations

import hashlib
import io
import stat
import zipfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from onceward.agents import artifacts
from onceward.errors import OncewardError
from onceward.journal import atomic_file
from onceward.system import Files
from onceward.system.safe_paths import RootedDirectory

#: Answers whose artifacts are larger are not archived.
BYTES_MAX: Final = 4 * 1024 * 1024
_COMMENT_PREFIX: Final = "onceward agent cache "
#: Permission bits that a restored file may have.
_MODE: Final = 0o777


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchivedFile:
    """A file from an archive."""

    artifact: Mapping[str, Any]
    content: bytes
    mode: int


def pack(workspace: Path, described: Sequence[Mapping[str, Any]], *, key: str) -> bytes | None:
    """Return an archive of these artifacts; None if they are too large or not as described."""
    if sum(each["size"] for each in described) > BYTES_MAX:
        return None
    made = io.BytesIO()
    try:
        with (
            RootedDirectory.open(workspace) as root,
            zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            archive.comment = f"{_COMMENT_PREFIX}{key}".encode()
            for number, each in enumerate(described):
                content = root.read(each["path"], bytes_max=each["size"])
                if not _matches(content, each):
                    return None
                # Named by number, since a path may have characters that archives cannot hold.
                entry = zipfile.ZipInfo(str(number))
                entry.external_attr = _mode(workspace / each["path"]) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, content)
    except (OncewardError, OSError):
        return None
    return made.getvalue()


def read(
    path: Path, checksum: str, described: Sequence[Mapping[str, Any]]
) -> list[ArchivedFile] | None:
    """Return the files of an archive; None if one is missing or damaged."""
    try:
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != checksum:
            return None
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            found = [
                ArchivedFile(
                    artifact=each,
                    content=archive.read(str(number)),
                    mode=(archive.getinfo(str(number)).external_attr >> 16) & _MODE,
                )
                for number, each in enumerate(described)
            ]
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, EOFError):
        return None
    return found if all(_matches(each.content, each.artifact) for each in found) else None


def key_of(path: Path) -> str | None:
    """Return the idempotency key of an archive written by `pack`; None for any other file."""
    try:
        with zipfile.ZipFile(path) as archive:
            comment = archive.comment.decode()
    except (OSError, zipfile.BadZipFile, ValueError, EOFError):
        return None
    return comment.removeprefix(_COMMENT_PREFIX) if comment.startswith(_COMMENT_PREFIX) else None


def write_back(
    workspace: Path,
    archived: Sequence[ArchivedFile],
    tracked: Collection[str],
    staging: Path,
    files: Files,
) -> bool:
    """Restore files to their paths. All are checked before the first one is written.

    An existing file of the user is overwritten only if it is in `tracked`. Each file is completed
    in `staging`, which must be on the workspace's file system, and then renamed.
    """
    missing = [each for each in archived if artifacts.check(workspace, each.artifact) is not None]
    for each in missing:
        path = each.artifact["path"]
        try:
            artifacts.check_path(path, workspace)
        except OncewardError:
            return False
        if path not in tracked and (workspace / path).exists():
            return False
    try:
        files.make_directories(staging)
        if _device(staging) != _device(workspace):
            return False
        for number, each in enumerate(missing):
            staged, target = staging / str(number), workspace / each.artifact["path"]
            atomic_file.write(staged, each.content, files=files)
            staged.chmod(each.mode)
            with closing(files.open_read(staged)) as file:
                file.sync()  # A crash must not separate the content from the mode.
            # With default permissions, because these are the user's folders.
            target.parent.mkdir(parents=True, exist_ok=True)
            files.replace(staged, target)
    except (OncewardError, OSError):
        return False
    return True


def _device(path: Path) -> int:
    return path.stat().st_dev


def _matches(content: bytes, artifact: Mapping[str, Any]) -> bool:
    found = (len(content), hashlib.sha256(content).hexdigest())
    return found == (artifact["size"], artifact["sha256"])


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode) & _MODE
