"""Orchestrator workload: a run's own files under any disk, with agents that are functions.

What agents make lies on the machine's disk, where `system.safe_paths` reaches it; the ledger, the
receipts, the snapshots, the cached state and the digests go through `Files`. Knows no faults.
"""

from __future__ import annotations

import shutil
from contextlib import closing, suppress
from pathlib import Path
from unittest import mock

from onceward.errors import FileMissing, RunMissing
from onceward.journal import Record
from onceward.orchestrator import orchestrator as room
from onceward.orchestrator.config import WorkspaceConfig
from onceward.orchestrator.ledger import Ledger
from onceward.orchestrator.ledger_replay import UNSYNCED_KINDS
from onceward.orchestrator.models import RunLimits
from onceward.orchestrator.orchestrator import Orchestrator
from onceward.orchestrator.workspace import Workspace, digest, read_sealed
from onceward.system import Files, ManualClock, SeededRandomness
from onceward.testing import CrashFiles
from tests.proof.disk.file_workloads import Promises, Workload
from tests.support.function_agents import FIRST, FakeSupervisor, OrchestratorHarness


class Hasty(SeededRandomness):
    """Chance that repeats itself, and makes no caller wait."""

    def fraction(self) -> float:
        """Return no wait."""
        return 0.0


class Running(Workload):
    """A run from its first record to its last."""

    claims = ("D1", "D2", "O1")

    def start(self) -> CrashFiles:
        """Begin with an empty workspace."""
        files = super().start()
        self.root = self.directory / "workspace"
        shutil.rmtree(self.root, ignore_errors=True)
        # The lock of a run is the machine's own.
        (self.root / "state" / "locks").mkdir(parents=True)
        files.make_directories(self.root)
        self.harness = OrchestratorHarness(self.root)
        self.workspace = Workspace(root=self.harness.workspace)
        self._left: dict[str, bytes] | None = None
        return files

    def orchestrator(self, files: Files, promises: Promises | None = None) -> Orchestrator:
        """Return an orchestrator on these files, which promises what it has written down."""
        config = WorkspaceConfig(workspace=self.harness.workspace, agents={}, limits=RunLimits())

        def watch(record: Record) -> None:
            if promises is not None and record["kind"] not in UNSYNCED_KINDS:
                promises.promise(record, *self._rests_on(record))

        return Orchestrator(
            config, files=files, clock=ManualClock(), randomness=Hasty(7), watch=watch
        )

    def _rests_on(self, record: Record) -> list[Path]:
        """Return the files without which a record would be a lie."""
        found = [self.workspace.ledger(self.run_id)]
        if record["kind"] == "receipt":
            found += [self.workspace.root / record["path"], self.workspace.manifest(record["tree"])]
        if record["kind"] == "task.started":
            found.append(self.workspace.manifest(record["snapshot_id"]))
        return found

    @property
    def run_id(self) -> str:
        """Return the run's id, which time and chance give it."""
        return f"run-{ManualClock().now():%Y%m%d-%H%M%S}-{Hasty(7).hex(8)}"

    def work(self, files: Files, promises: Promises) -> None:
        """Run one task to its end."""
        played = type("Supervisor", (FakeSupervisor,), {"harness": self.harness})
        try:
            with mock.patch.object(room, "Supervisor", played):
                self.orchestrator(files, promises).run([FIRST])
        finally:
            self._left = {
                str(path.relative_to(self.root)): path.read_bytes()
                for path in self.root.rglob("*")
                if path.is_file() and "state" not in path.parts
            }

    def check(self, files: Files, promises: Promises) -> int:
        """Find every record and receipt that was promised; resume; no command is asked twice."""
        self._put_back()
        self._check_there(files, promises)
        kept = {each["step"] for each in promises if each["kind"] == "command.answered"}
        keys = {
            each["command"]["idempotency_key"]
            for each in promises
            if each["kind"] == "command" and each["step"] in kept
        }
        self.harness.asked.clear()
        played = type("Supervisor", (FakeSupervisor,), {"harness": self.harness})
        with mock.patch.object(room, "Supervisor", played):
            try:
                result = self.orchestrator(files).resume(self.run_id)
            except RunMissing:
                assert not promises, promises
                return 1
            assert result.status == "done", result
            assert not keys & set(self.harness.keys()), "an answered command was asked again"
            verified = self.orchestrator(files).verify(self.run_id)
            # A record that no caller waited for may be damaged by a power cut: it is named.
            ledger = f"events/{self.run_id}.ndjson, byte "
            assert all(each.path.startswith(ledger) for each in verified.findings), verified
            # Twice is as good as once.
            assert self.orchestrator(files).resume(self.run_id).was_complete
        return verified.receipts

    def _check_there(self, files: Files, promises: Promises) -> None:
        ledger = Ledger(self.workspace.ledger(self.run_id), files=files, clock=ManualClock())
        try:
            read = ledger.read()
        except FileMissing:
            assert not promises, promises
            return
        found = {each["seq"]: each for each in read.records}
        for record in promises:
            assert found.get(record["seq"]) == record, record
            if record["kind"] == "receipt":
                kept = read_sealed(self.workspace.root / record["path"], files)
                assert kept is not None, record
                assert digest(kept) == record["checksum"], record

    def _put_back(self) -> None:
        """Leave what agents made as it was when the first life ended."""
        assert self._left is not None
        for path in self.root.rglob("*"):
            if path.is_file() and "state" not in path.parts:
                path.unlink()
        for name, content in self._left.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def content(files: Files, path: Path) -> bytes:
    """Return what a file holds."""
    with closing(files.open_read(path)) as file:
        return file.read(0, file.stat().size)


def change(files: Files, path: Path, data: bytes) -> None:
    """Let a file hold something else, as damage does: no temporary, no name."""
    with suppress(FileMissing), closing(files.open_append(path)) as file:
        file.truncate(0)
        file.write(data)
        file.sync()
