"""Base files: the small text files of a snapshot, kept so that a review can be shown a diff.

One archive per pinned snapshot, written in one step before the task's first command. It is a
convenience: without it the review is told which files changed, and not how.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Collection, Mapping
from typing import Final

from onceward.errors import OncewardError, StorageError
from onceward.journal import atomic
from onceward.orchestrator.workspace import Workspace
from onceward.rooted import RootedDirectory
from onceward.seams import Files

FILE_BYTES_MAX: Final = 64 * 1024
FILES_BYTES_MAX: Final = 16 * 1024 * 1024
_SUFFIX: Final = ".zip"
#: Checksum and size of each file by its path.
Manifest = Mapping[str, tuple[str, int]]


def keep(workspace: Workspace, snapshot_id: str, manifest: Manifest, files: Files) -> None:
    """Keep the files of a snapshot as they are now, as far as they are small and still the same."""
    path = workspace.base(snapshot_id)
    if files.stat(path) is not None:
        return
    made, room, kept = io.BytesIO(), FILES_BYTES_MAX, set[str]()
    with (
        RootedDirectory.open(workspace.root) as root,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        for name, (sha256, size) in manifest.items():
            if sha256 in kept or size > min(room, FILE_BYTES_MAX):
                continue
            content = read_text(root, name)
            if content is not None and hashlib.sha256(content).hexdigest() == sha256:
                # Under its checksum: a path may have characters that no archive has.
                archive.writestr(sha256, content)
                kept.add(sha256)
                room -= size
    files.make_directories(path.parent)
    atomic.write(path, made.getvalue(), files=files)


def read(workspace: Workspace, snapshot_id: str, checksums: Collection[str]) -> dict[str, bytes]:
    """Return the kept contents among these, by checksum; what is damaged is not there."""
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(workspace.base(snapshot_id)) as archive:
            for name in set(archive.namelist()).intersection(checksums):
                content = archive.read(name)
                if hashlib.sha256(content).hexdigest() == name:
                    found[name] = content
    except (OSError, zipfile.BadZipFile, ValueError, EOFError):
        pass
    return found


def read_text(root: RootedDirectory, path: str) -> bytes | None:
    """Return a small file of text; None for any other, for a link, or when it is gone."""
    try:
        content = root.read(path, bytes_max=FILE_BYTES_MAX)
    except OncewardError:
        return None
    return None if b"\0" in content else content


def prune(workspace: Workspace, needed: Collection[str], files: Files) -> None:
    """Remove the archives of snapshots that no unfinished run is pinned to."""
    folder = workspace.base("snap-").parent
    for name in files.names(folder):
        snapshot_id = name.removesuffix(_SUFFIX)
        is_ours = snapshot_id.startswith("snap-") and name.endswith(_SUFFIX)
        if is_ours and snapshot_id not in needed:
            try:
                files.remove(folder / name)
            except StorageError:
                return
