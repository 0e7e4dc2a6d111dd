"""Damage to what carries a checksum is noticed and named, and never taken for what was written."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from onceward.errors import LedgerDamaged, StorageError
from onceward.orchestrator.ledger import Ledger
from onceward.orchestrator.ledger_replay import UNSYNCED_KINDS
from onceward.orchestrator.workspace import read_sealed
from onceward.system import ManualClock
from onceward.testing import CrashFiles
from tests.proof.disk.file_workloads import Promises
from tests.proof.disk.orchestrator_workload import Running, change, content
from tests.support.evidence import Entry, Evidence

#: How many bits of each file are flipped, and at how many places it is cut, in a slice.
SLICE_FLIPS: Final = 60
SLICE_CUTS: Final = 20


class Finished:
    """The files of a run that is done."""

    def __init__(self, directory: Path) -> None:
        """Run it."""
        self.workload = Running(directory)
        self.files: CrashFiles = self.workload.start()
        self.records = Promises()
        self.workload.work(self.files, self.records)
        workspace, root = self.workload.workspace, self.workload.workspace.root
        self.ledger = workspace.ledger(self.workload.run_id)
        kept = [root / each["path"] for each in self.records if each["kind"] == "receipt"]
        pinned = [each for each in self.records if each["kind"] == "task.started"]
        self.sealed = [*kept, *(workspace.manifest(each["snapshot_id"]) for each in pinned)]

    def named(self) -> list[str]:
        """Return which files the run's own check complains of."""
        found = self.workload.orchestrator(self.files).verify(self.workload.run_id).findings
        return [each.path for each in found]


@pytest.fixture
def finished(tmp_path: Path) -> Finished:
    """Return a run that is done."""
    return Finished(tmp_path)


def places(size: int, count: int, *, prove: bool) -> list[int]:
    """Return all places of a file, or some."""
    return list(range(size)) if prove else sorted(random.Random(7).sample(range(size), count))


def flipped(data: bytes, place: int) -> bytes:
    """Return the data with one bit of this byte the other way round."""
    return data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :]


def read(files: CrashFiles, path: Path) -> object:
    """Return what a sealed file holds, or the complaint about it."""
    try:
        return read_sealed(path, files)
    except StorageError as exc:
        return exc.message.partition(":")[0]


def record(evidence: Evidence, what: str, faults: dict[str, int], work: int) -> None:
    """Write down what was tried."""
    entry = Entry(
        campaign=f"damage to {what}",
        layer="disk",
        claims=("D3",),
        engine="files",
        schedules=sum(faults.values()),
        faults=faults,
        work=work,
    )
    evidence.record(entry)


@pytest.mark.prove
def test_every_flipped_bit_of_a_ledger_is_named(
    finished: Finished, prove: bool, evidence: Evidence
) -> None:
    """No record is read that was not written; the check names the place, and no run goes on."""
    files, path = finished.files, finished.ledger
    whole = content(files, path)
    ledger = Ledger(path, files=files, clock=ManualClock())
    written = ledger.read().records
    chosen = places(len(whole), SLICE_FLIPS, prove=prove)
    for place in chosen:
        change(files, path, flipped(whole, place))
        read = ledger.read()
        assert all(each in written for each in read.records), place
        assert len(read.records) < len(written), place
        named = finished.named() if place % 7 == 0 or not prove else [path.name]
        assert any(path.name in each for each in named), place
    change(files, path, whole)
    assert finished.named() == []
    record(evidence, "a ledger: flipped bits", {"flipped bit": len(chosen)}, len(written))


@pytest.mark.prove
def test_a_ledger_that_was_cut_is_resumed_or_refused(
    finished: Finished, prove: bool, evidence: Evidence
) -> None:
    """Its end is a record that was never finished; a hole in the middle stops the run."""
    files, path, workload = finished.files, finished.ledger, finished.workload
    whole = content(files, path)
    ledger = Ledger(path, files=files, clock=ManualClock())
    written = ledger.read().records
    chosen = places(len(whole), SLICE_CUTS, prove=prove)
    for place in chosen:
        change(files, path, whole[:place])
        read = ledger.read()
        assert read.records == written[: len(read.records)], place
        assert not read.damaged, place
        assert read.torn_bytes == place - (whole.rfind(b"\n", 0, place) + 1), place
    lines = whole.splitlines(keepends=True)
    for number in range(1, len(lines) - 1):
        change(files, path, b"".join(lines[:number] + lines[number + 1 :]))
        if written[number]["kind"] in UNSYNCED_KINDS:  # Nothing is decided by it.
            assert workload.orchestrator(files).resume(workload.run_id).was_complete
            continue
        with pytest.raises(LedgerDamaged, match=f"lacks record {number + 1}"):
            workload.orchestrator(files).resume(workload.run_id)
    change(files, path, whole)
    faults = {"truncated": len(chosen), "record lost": len(lines) - 2}
    record(evidence, "a ledger: a cut end, a lost record", faults, len(written))


@pytest.mark.prove
def test_damaged_receipts_and_snapshots_are_named(
    finished: Finished, prove: bool, evidence: Evidence
) -> None:
    """Flipped bits and cut ends are refused when read, and the run's check names the file."""
    files, tried = finished.files, {"flipped bit": 0, "truncated": 0}
    for path in finished.sealed:
        whole = content(files, path)
        record_ = read_sealed(path, files)
        for place in places(len(whole), SLICE_FLIPS // 3, prove=prove):
            damages = {"flipped bit": flipped(whole, place), "truncated": whole[:place]}
            for what, data in damages.items():
                change(files, path, data)
                tried[what] += 1
                # Only what says nothing may be lost, such as the newline at the end.
                assert read(files, path) in (record_, f"{path} is damaged"), (place, what)
        change(files, path, whole[: len(whole) // 2])
        name = str(path.relative_to(finished.workload.workspace.root))
        assert finished.named() == [name]
        change(files, path, whole)
    assert finished.named() == []
    record(evidence, "receipts and snapshots", tried, len(finished.sealed))
