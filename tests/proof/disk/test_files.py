"""Files on a disk that fails, fills up, loses its power, or kills, at every operation."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from onceward.testing import AuditedFiles, CrashFiles
from tests.proof.disk.file_campaign import ENDS, FAULTS, WORKLOADS, Campaign
from tests.proof.disk.file_workloads import Promises
from tests.support.evidence import Entry, Evidence

#: How many of the disks that a crash may leave are checked.
DISKS_MAX: Final = 4
SLICE_DISKS_MAX: Final = 2
#: A run has so many operations that each kind of fault strikes at every other one.
STRIDES: Final = {"running": 2}
#: A slice strikes at some operations only, where there are many.
SLICE_STRIDES: Final = {"running": 61, "judging": 23, "following": 3}
SEEDS: Final = 3
SOAK_SEEDS: Final = 200


@pytest.mark.prove
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_bad_disk_takes_nothing_back_that_was_promised(
    name: str, tmp_path: Path, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """EIO, ENOSPC, short writes, failed renames, crashes and kills, each at every operation."""
    campaign = Campaign(name, tmp_path, disks_max=DISKS_MAX if prove else SLICE_DISKS_MAX)
    strides = {} if soak else STRIDES if prove else SLICE_STRIDES
    stride = strides.get(name, 1)
    for number, fault in enumerate(FAULTS):
        seeds = SOAK_SEEDS if soak else SEEDS if prove and fault in ENDS and stride == 1 else 1
        for seed in range(seeds):
            campaign.every(fault, first=1 + number % stride, stride=stride, seed=1_000 * seed)
    seen = campaign.seen
    entry = Entry(
        campaign=f"files on a disk that fails, dies or loses its power: {name}",
        layer="disk",
        claims=WORKLOADS[name].claims,
        engine="files",
        schedules=seen.disks,
        faults={fault: count for fault, count in seen.faults.items() if count},
        work=seen.work,
        reached=dict(seen.reached) if prove else {},
    )
    evidence.record(entry)


@pytest.mark.parametrize("name", WORKLOADS)
def test_nothing_is_promised_before_it_is_on_disk(name: str, tmp_path: Path) -> None:
    """At each promise, no change of the files it rests on, or of their names, is unsynced."""
    workload = WORKLOADS[name](tmp_path)
    files = AuditedFiles(workload.start())
    promises = Promises(lambda *paths: files.ack(*paths) if paths else None)
    workload.work(files, promises)
    assert len(promises) > 2
    assert sum(event.kind == "ack" for event in files.audit.events) > 1


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_missing_sync_would_be_noticed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit can fail: on files that never sync it does, in every workload."""
    workload = WORKLOADS[name](tmp_path)
    files = AuditedFiles(workload.start())
    monkeypatch.setattr("onceward.testing.sync_audit._AuditedFile.sync", lambda _: None)
    with pytest.raises(AssertionError, match="acknowledged before it was durable"):
        workload.work(files, Promises(lambda *paths: files.ack(*paths) if paths else None))


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_disk_that_lies_about_syncs_would_be_noticed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The crashes can be seen: on a disk whose sync does nothing, promises are lost."""
    campaign = Campaign(name, tmp_path, disks_max=SLICE_DISKS_MAX)
    monkeypatch.setattr("onceward.testing.disk.Inode.sync", lambda _: None)
    with pytest.raises(Exception) as broken:  # noqa: PT011 - whatever a workload says then
        campaign.every("crash", first=3, stride=11)
    assert sum(note.startswith("REPRO: ") for note in broken.value.__notes__) == 1


def test_a_lost_name_is_a_lost_file(tmp_path: Path) -> None:
    """A file whose content was synced, but not its directory, may be gone after a crash."""
    files = CrashFiles()
    files.make_directories(tmp_path)
    file = files.open_append(tmp_path / "file")
    file.write(b"data")
    file.sync()
    assert {state.stat(tmp_path / "file") is None for state in files.crashes()} == {True, False}
