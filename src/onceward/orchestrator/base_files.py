"""Base files: archived copies of small text files, to show diffs later.

One archive per pinned snapshot, written atomically before the task's first command, and one per
run, written before each receipt. They are optional: without them reviewers and people see which
files changed, but no diff.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Collection, Mapping
from typing import Final

from onceward.errors import OncewardError, StorageError
from onceward.journal import atomic_file
from onceward.orchestrator.workspace import Workspace, is_run_id
from onceward.system import Files
from onceward.system.safe_paths import RootedDirectory

FILE_BYTES_MAX: Final = 64 * 1024
FILES_BYTES_MAX: Final = 16 * 1024 * 1024
_SUFFIX: Final = ".zip"
#: Checksum and size of each file by its path.
Manifest = Mapping[str, tuple[str, int]]


def write_archive(workspace: Workspace, name: str, manifest: Manifest, files: Files) -> None:
    """Archive the files of a manifest that are small text and still unchanged."""
    path = workspace.base(name)
    buffer, bytes_left, written = io.BytesIO(), FILES_BYTES_MAX, set[str]()
    with (
        RootedDirectory.open(workspace.root) as root,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        for file, (sha256, size) in manifest.items():
            if sha256 in written or size > min(bytes_left, FILE_BYTES_MAX):
                continue
            content = read_text(root, file)
            if content is not None and hashlib.sha256(content).hexdigest() == sha256:
                # Named by checksum: a path may have characters that archives cannot hold.
                archive.writestr(sha256, content)
                written.add(sha256)
                bytes_left -= size
    files.make_directories(path.parent)
    atomic_file.write(path, buffer.getvalue(), files=files)


def read_archive(workspace: Workspace, name: str, checksums: Collection[str]) -> dict[str, bytes]:
    """Return the archived contents with these checksums; damaged ones are left out."""
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(workspace.base(name)) as archive:
            for sha256 in set(archive.namelist()).intersection(checksums):
                content = archive.read(sha256)
                if hashlib.sha256(content).hexdigest() == sha256:
                    found[sha256] = content
    except (OSError, zipfile.BadZipFile, zlib.error, ValueError, EOFError, RuntimeError):
        pass  # RuntimeError: unknown compression, or encryption.
    return found


def read_text(root: RootedDirectory, path: str) -> bytes | None:
    """Return a small text file; None for any other file, a link or a missing file."""
    try:
        content = root.read(path, bytes_max=FILE_BYTES_MAX)
    except OncewardError:
        return None
    return None if b"\0" in content else content


def prune_archives(workspace: Workspace, needed: Collection[str], files: Files) -> None:
    """Remove the archives of snapshots and runs that no unfinished run needs."""
    folder = workspace.base("snap-").parent
    for file in files.names(folder):
        name = file.removesuffix(_SUFFIX)
        is_ours = file.endswith(_SUFFIX) and (name.startswith("snap-") or is_run_id(name))
        if is_ours and name not in needed:
            try:
                files.remove(folder / file)
            except StorageError:
                return
