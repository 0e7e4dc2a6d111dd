"""Tree: the state of the workspace at a moment, kept as a manifest, and how two states differ."""

from __future__ import annotations

from onceward.errors import StorageError
from onceward.keys import Snapshot, snapshot
from onceward.keys.snapshot import Digests
from onceward.orchestrator.models import Change
from onceward.orchestrator.workspace import Workspace, read_sealed, write_sealed
from onceward.seams import Clock, Files


class Tree:
    """The files of a workspace, but for our own."""

    def __init__(self, workspace: Workspace, *, files: Files, clock: Clock) -> None:
        """Look at nothing yet."""
        self._workspace, self._files, self._clock = workspace, files, clock
        self._digests: Digests | None = None

    def now(self) -> str:
        """Return the id of what is there now, and keep the list of its files under that id."""
        if self._digests is None:
            self._digests = Digests(self._load())
        found = snapshot(self._workspace.root, digests=self._digests, clock=self._clock)
        self._keep(found)
        return found.id

    def files_now(self) -> dict[str, tuple[str, int]]:
        """Return the files that are there now, each with checksum and size; keeps nothing."""
        found = snapshot(self._workspace.root, clock=self._clock)
        return {each.path: (each.sha256, each.size) for each in found.files}

    def save(self) -> None:
        """Keep what is known of the files, so that the next process need not read them all."""
        if self._digests is not None:
            record = {"schemaVersion": 1, "digests": self._digests.to_json()}
            write_sealed(self._workspace.digests(), record, self._files)

    def changes(self, before: str, after: str) -> list[Change] | None:
        """Return how two states differ; None when the list of one of them is gone."""
        old, new = self.manifest(before), self.manifest(after)
        if old is None or new is None:
            return None
        found = [Change(path=path, how="removed") for path in old if path not in new]
        found += [Change(path=path, how="added") for path in new if path not in old]
        changed = [path for path in new if path in old and old[path] != new[path]]
        found += [Change(path=path, how="changed") for path in changed]
        return sorted(found, key=lambda each: each.path)

    def _keep(self, found: Snapshot) -> None:
        path = self._workspace.manifest(found.id)
        if self._files.stat(path) is not None:
            return
        entries = [{"path": f.path, "sha256": f.sha256, "size": f.size} for f in found.files]
        record = {"schemaVersion": 1, "id": found.id, "files": entries}
        write_sealed(path, record, self._files)

    def manifest(self, snapshot_id: str) -> dict[str, tuple[str, int]] | None:
        """Return the files of a state, each with checksum and size; None when the list is gone."""
        try:
            record = read_sealed(self._workspace.manifest(snapshot_id), self._files)
        except StorageError:
            return None
        if record is None:
            return None
        return {each["path"]: (each["sha256"], each["size"]) for each in record["files"]}

    def _load(self) -> dict[str, str]:
        """Return what was kept of the files; nothing when it cannot be read: it is a cache."""
        try:
            record = read_sealed(self._workspace.digests(), self._files) or {}
        except StorageError:
            return {}
        found: dict[str, str] = record.get("digests", {})
        return found
