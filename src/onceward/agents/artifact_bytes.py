"""Artifact bytes: the content of an answer's files in one archive, and the way back from it.

An archive carries the key that it belongs to as its comment, so that nobody else's is taken for
one. Content is read and written below the workspace only, without following links.
"""

from __future__ import annotations

import hashlib
import io
import stat
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from onceward.agents import artifacts
from onceward.errors import OncewardError
from onceward.journal import atomic
from onceward.rooted import RootedDirectory
from onceward.seams import Files

#: Of an answer that made more, nothing is kept.
BYTES_MAX: Final = 4 * 1024 * 1024
_MARK: Final = "onceward agent cache "
#: Which rights a restored file may have.
_MODE: Final = 0o777


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptFile:
    """A file that was kept."""

    artifact: Mapping[str, Any]
    content: bytes
    mode: int


def pack(workspace: Path, named: Sequence[Mapping[str, Any]], *, key: str) -> bytes | None:
    """Return an archive of these artifacts; None when they are too big, or not as described."""
    if sum(each["size"] for each in named) > BYTES_MAX:
        return None
    made = io.BytesIO()
    try:
        with (
            RootedDirectory.open(workspace) as root,
            zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            archive.comment = f"{_MARK}{key}".encode()
            for number, each in enumerate(named):
                content = root.read(each["path"], bytes_max=each["size"])
                if not _is(content, each):
                    return None
                # By number, since a path may have characters that no archive has.
                entry = zipfile.ZipInfo(str(number))
                entry.external_attr = _mode(workspace / each["path"]) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, content)
    except (OncewardError, OSError):
        return None
    return made.getvalue()


def read(path: Path, checksum: str, named: Sequence[Mapping[str, Any]]) -> list[KeptFile] | None:
    """Return the files of an archive; None when one is missing or damaged."""
    try:
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != checksum:
            return None
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            found = [
                KeptFile(
                    artifact=each,
                    content=archive.read(str(number)),
                    mode=(archive.getinfo(str(number)).external_attr >> 16) & _MODE,
                )
                for number, each in enumerate(named)
            ]
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, EOFError):
        return None
    return found if all(_is(each.content, each.artifact) for each in found) else None


def key_of(path: Path) -> str | None:
    """Return the key that an archive of ours belongs to; None for any other file."""
    try:
        with zipfile.ZipFile(path) as archive:
            comment = archive.comment.decode()
    except (OSError, zipfile.BadZipFile, ValueError, EOFError):
        return None
    return comment.removeprefix(_MARK) if comment.startswith(_MARK) else None


def write_back(
    workspace: Path, kept: Sequence[KeptFile], tracked: Collection[str], files: Files
) -> bool:
    """Write files where they were, all or, before the first is written, none.

    A file of the user's that is not among the `tracked` ones is not overwritten.
    """
    missing = [each for each in kept if artifacts.check(workspace, each.artifact) is not None]
    for each in missing:
        path = each.artifact["path"]
        try:
            artifacts.check_path(path, workspace)
        except OncewardError:
            return False
        if path not in tracked and (workspace / path).exists():
            return False
    for each in missing:
        target = workspace / each.artifact["path"]
        try:
            # Not with the rights of our own folders: these are the user's.
            target.parent.mkdir(parents=True, exist_ok=True)
            atomic.write(target, each.content, files=files)
            target.chmod(each.mode)
        except (OncewardError, OSError):
            return False
    return True


def _is(content: bytes, artifact: Mapping[str, Any]) -> bool:
    found = (len(content), hashlib.sha256(content).hexdigest())
    return found == (artifact["size"], artifact["sha256"])


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode) & _MODE
