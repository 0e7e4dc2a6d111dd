"""Workspace tree: snapshots of a workspace's files, their manifests and differences."""

from __future__ import annotations

from onceward.errors import StorageError
from onceward.keys import Snapshot, snapshot
from onceward.keys.snapshot import DigestCache
from onceward.orchestrator.models import FileChange
from onceward.orchestrator.workspace import Workspace, read_sealed, write_sealed
from onceward.system import Clock, Files


class WorkspaceTree:
    """The files of a workspace, except Onceward's own."""

    def __init__(self, workspace: Workspace, *, files: Files, clock: Clock) -> None:
        """Use the workspace; reads nothing yet."""
        self._workspace, self._files, self._clock = workspace, files, clock
        self._digests: DigestCache | None = None
        #: Snapshots whose manifests are known to exist and be valid.
        self._listed: set[str] = set()

    def now(self) -> str:
        """Take a snapshot, store its manifest, and return the snapshot id."""
        if self._digests is None:
            self._digests = DigestCache(self._load())
        found = snapshot(self._workspace.root, digests=self._digests, clock=self._clock)
        self._keep(found)
        return found.id

    def files_now(self) -> dict[str, tuple[str, int]]:
        """Return the current files with checksum and size; stores nothing."""
        found = snapshot(self._workspace.root, clock=self._clock)
        return {each.path: (each.sha256, each.size) for each in found.files}

    def save(self) -> None:
        """Store the cache of file digests, so that the next process need not read all files."""
        if self._digests is not None:
            record = {"schemaVersion": 1, "digests": self._digests.to_json()}
            write_sealed(self._workspace.digests(), record, self._files)

    def changes(self, before: str, after: str) -> list[FileChange] | None:
        """Return how two snapshots differ; None if one manifest is missing."""
        old, new = self.manifest(before), self.manifest(after)
        if old is None or new is None:
            return None
        found = [FileChange(path=path, how="removed") for path in old if path not in new]
        found += [FileChange(path=path, how="added") for path in new if path not in old]
        changed = [path for path in new if path in old and old[path] != new[path]]
        found += [FileChange(path=path, how="changed") for path in changed]
        return sorted(found, key=lambda each: each.path)

    def _keep(self, found: Snapshot) -> None:
        path = self._workspace.manifest(found.id)
        is_known = found.id in self._listed and self._files.stat(path) is not None
        if is_known or self.manifest(found.id) is not None:
            self._listed.add(found.id)
            return
        entries = [{"path": f.path, "sha256": f.sha256, "size": f.size} for f in found.files]
        record = {"schemaVersion": 1, "id": found.id, "files": entries}
        write_sealed(path, record, self._files)

    def manifest(self, snapshot_id: str) -> dict[str, tuple[str, int]] | None:
        """Return the files of a snapshot, with checksum and size; None without its manifest."""
        try:
            record = read_sealed(self._workspace.manifest(snapshot_id), self._files)
        except StorageError:
            return None
        if record is None:
            return None
        return {each["path"]: (each["sha256"], each["size"]) for each in record["files"]}

    def _load(self) -> dict[str, str]:
        """Return the stored file digests; empty if unreadable, since they are only a cache."""
        try:
            record = read_sealed(self._workspace.digests(), self._files) or {}
        except StorageError:
            return {}
        found: dict[str, str] = record.get("digests", {})
        return found
