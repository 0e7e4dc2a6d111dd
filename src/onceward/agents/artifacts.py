"""Artifacts: files in the workspace that an agent declares, by path, checksum and size.

Validates paths and verifies content. Files are opened through `system.safe_paths`, so that no link
leads out of the workspace. Knows neither agents nor receipts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final, NoReturn

from typing_extensions import TypedDict

from onceward.errors import FileMissing, InvalidArgument, OncewardError, WrongPath
from onceward.keys.snapshot import OWN_FOLDERS
from onceward.system import Files
from onceward.system.safe_paths import PATH_BYTES_MAX, RootedDirectory

#: Folders that no artifact may be in, at any depth.
FORBIDDEN_FOLDERS: Final = frozenset({".git"})

_CHUNK_BYTES: Final = 1024 * 1024
_SHOWN_CHARACTERS: Final = 200


class ArtifactRecord(TypedDict):
    """A file that an answer names, as the agent sent it."""

    path: str
    sha256: str
    size: int


def check_path(path: str, workspace: Path | None = None) -> None:
    """Refuse a path that is not a plain relative path to a file of the user.

    With a workspace, also refuse a path through a symbolic link or through something that is not a
    directory. The file need not exist.
    """
    parts = path.split("/")
    if not path or path.startswith("/"):
        _refuse(path, "must be relative to the workspace")
    if any(part in ("", ".", "..") for part in parts):
        _refuse(path, "must not contain `.`, `..` or empty parts")
    if "\0" in path:
        _refuse(path, "contains a NUL character")
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        _refuse(path, "is not Unicode text")
    if len(encoded) > PATH_BYTES_MAX:
        _refuse(path, f"is longer than {PATH_BYTES_MAX} bytes")
    if parts[0] in OWN_FOLDERS:
        _refuse(path, f"is in `{parts[0]}`, which is reserved for Onceward's own files")
    closed = FORBIDDEN_FOLDERS.intersection(parts)
    if closed:
        _refuse(path, f"is in `{min(closed)}`, where no artifact may be")
    if workspace is not None:
        _check_ancestors(path, workspace)


def describe(workspace: Path, path: str) -> dict[str, Any]:
    """Return `{path, sha256, size}` of a file; raise if it cannot be an artifact."""
    check_path(path)
    hashed, size = hashlib.sha256(), 0
    with RootedDirectory.open(workspace) as root, root.open_file(path) as file:
        while chunk := file.read(size, _CHUNK_BYTES):
            hashed.update(chunk)
            size += len(chunk)
    return {"path": path, "sha256": hashed.hexdigest(), "size": size}


def check(workspace: Path, artifact: Mapping[str, Any]) -> str | None:
    """Return what is wrong with an artifact on disk, or None if it is unchanged."""
    path, size = str(artifact["path"]), artifact["size"]
    try:
        check_path(path)
        # A file of a different size need not be read.
        with RootedDirectory.open(workspace) as root, root.open_file(path) as file:
            if file.stat.size != size:
                return f"{_shown(path)} has {file.stat.size} bytes, not {size}"
        found = describe(workspace, path)
    except FileMissing:
        return f"{_shown(path)} does not exist"
    except OncewardError as exc:
        return exc.message
    if found["sha256"] != artifact["sha256"] or found["size"] != size:
        return f"{_shown(path)} has other content"
    return None


def sync(workspace: Path, paths: Iterable[str], files: Files) -> None:
    """Make these files and their directory entries durable."""
    folders: set[PurePosixPath] = set()
    for path in paths:
        check_path(path)
        place = PurePosixPath(path)
        with RootedDirectory.open(workspace, place.parent) as folder:
            file = files.open_read(folder.path() / place.name)
            try:
                file.sync()
            finally:
                file.close()
        folders.update(place.parents)
    # Deepest first: a directory entry is durable only with all of its parents.
    for each in sorted(folders, key=lambda folder: (-len(folder.parts), str(folder))):
        with RootedDirectory.open(workspace, each) as folder:
            files.sync_directory(folder.path())


def _check_ancestors(path: str, workspace: Path) -> None:
    try:
        with RootedDirectory.open(workspace) as root, root.open_file(path):
            return
    except FileMissing:
        return  # All existing parents are directories; a dangling link raises WrongPath instead.
    except WrongPath as exc:
        _refuse(path, "is not a regular file, or has a link or a file among its parents", exc)


def _refuse(path: str, problem: str, cause: Exception | None = None) -> NoReturn:
    shown = _shown(path)
    message = f"artifact {shown!r} {problem}"
    fix = "name a regular file of yours by its path in the workspace, such as src/main.py"
    raise InvalidArgument(message, fix=fix, field="path", path=shown) from cause


def _shown(path: str) -> str:
    text = path.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
