"""Workspace: names that stay inside, and files that prove themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward.errors import InvalidArgument, StorageError
from onceward.orchestrator.workspace import (
    Workspace,
    check_task_id,
    digest,
    is_run_id,
    read_sealed,
    write_sealed,
)
from onceward.system import SystemFiles

RUN = "run-20260206-120000-1a2b3c4d"


def test_every_file_has_its_place(tmp_path: Path) -> None:
    """Where each kind of file of a run lies below the workspace."""
    workspace = Workspace(root=tmp_path)
    found = [
        workspace.ledger(RUN),
        workspace.lock(RUN),
        workspace.state(),
        workspace.state(RUN),
        workspace.cache("builder"),
        workspace.receipt("T-1", RUN, 3),
        workspace.manifest("snap-1"),
        workspace.transcript(RUN),
    ]
    assert [str(each.relative_to(tmp_path)) for each in found] == [
        f"events/{RUN}.ndjson",
        f"state/locks/{RUN}.lock",
        "state/run.json",
        f"state/runs/{RUN}.json",
        "state/cache/builder",
        f"receipts/T-1/{RUN}-step-3.json",
        "snapshots/snap-1.manifest.json",
        f"transcripts/{RUN}.txt",
    ]


@pytest.mark.parametrize("name", ["", "run-1", f"{RUN}/..", f"../{RUN}", f"{RUN}\n", f"{RUN}0"])
def test_only_run_ids_become_paths(name: str, tmp_path: Path) -> None:
    """Anything else is refused before it is part of one."""
    assert not is_run_id(name)
    for path in (Workspace(root=tmp_path).ledger, Workspace(root=tmp_path).transcript):
        with pytest.raises(InvalidArgument, match="is not a run id"):
            path(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".hidden", "T 1", "T-1\n", "x" * 65])
def test_only_task_ids_become_paths(name: str) -> None:
    """Anything else is refused before it is part of one."""
    with pytest.raises(InvalidArgument, match="is not a task id"):
        check_task_id(name)


def test_sealed_files_come_back_or_are_called_damaged(tmp_path: Path) -> None:
    """Missing is none; each changed byte that matters is noticed."""
    files, path = SystemFiles(), tmp_path / "deep" / "one.json"
    assert read_sealed(path, files) is None
    record = {"schemaVersion": 1, "text": "ü", "list": [1, {"a": None}]}
    assert write_sealed(path, record, files) == digest(record)
    assert read_sealed(path, files) == record
    whole = path.read_bytes()
    for content in (b"", b"[]", b"{}", b"null", whole[:-5], whole.replace(b"ist", b"ost")):
        path.write_bytes(content)
        with pytest.raises(StorageError, match="damaged"):
            read_sealed(path, files)
