"""Appending: one record, one line, one write, on disk before it is acknowledged."""

import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from onceward.errors import (
    DiskFull,
    FileRefused,
    InvalidArgument,
    NotCanonical,
    NotWritable,
    OutcomeUnknown,
    StorageError,
)
from onceward.journal import Journal
from onceward.system import SystemFiles
from tests.support.small_disks import small_disk

__all__ = ["small_disk"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "feedback.jsonl"


def test_a_record_is_one_line(path: Path) -> None:
    """Keys keep their order, text is UTF-8, and the line ends in a newline."""
    appended = Journal(path).append({"id": "fb_1", "createdAt": "t", "notes": "größer\n"})
    assert path.read_bytes() == '{"id":"fb_1","createdAt":"t","notes":"größer\\n"}\n'.encode()
    assert (appended.start, appended.end) == ("0", str(path.stat().st_size))


def test_many_records_are_one_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several records go to the kernel in a single call."""
    writes: list[int] = []
    real = os.write

    def counted(fd: int, data: bytes) -> int:
        writes.append(len(data))
        return real(fd, data)

    monkeypatch.setattr(os, "write", counted)
    Journal(path).append({"id": "1"}, {"id": "2"}, {"id": "3"})
    assert writes == [path.stat().st_size]
    assert [item["id"] for item in Journal(path).read().items] == ["1", "2", "3"]


def test_missing_directories_are_made_for_the_owner_only(tmp_path: Path) -> None:
    """The first append makes the way to its file, closed to others."""
    path = tmp_path / "a" / "b" / "c.jsonl"
    Journal(path).append({"id": "1"})
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_h06_a_torn_line_is_skipped_once_and_the_next_record_is_whole(path: Path) -> None:
    """A writer died in the middle of a line: the next append ends it with its own newline."""
    journal = Journal(path)
    first = journal.append({"id": "1"})
    with path.open("ab") as file:
        file.write(b'{"id":"torn","notes":"half a rec')
    assert journal.read(first.end).items == []
    assert journal.read(first.end).next_cursor == first.end

    second = journal.append({"id": "2"})
    page = journal.read(first.end)
    assert [item["id"] for item in page.items] == ["2"]
    assert page.next_cursor == second.end
    assert journal.read(second.start).items == page.items
    assert journal.read(page.next_cursor).items == []
    assert journal.verify().damaged_count == 1


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"id": float("nan")}, r"^record\.id: is nan"),
        ({"id": {"deep": [1, {2}]}}, r"^record\.id\.deep\[1\]: is a set"),
        ({1: "x"}, "^record: has the key 1"),
    ],
)
def test_values_that_are_not_json_change_nothing(path: Path, record: Any, problem: str) -> None:
    """A record that cannot be written exactly is refused by path, and no file appears."""
    with pytest.raises(NotCanonical, match=problem):
        Journal(path).append(record)
    assert not path.exists()


@pytest.mark.parametrize("record", ["text", None, [1], 7])
def test_only_objects_are_records(path: Path, record: Any) -> None:
    """Anything but an object is refused by its place in the call."""
    with pytest.raises(InvalidArgument, match=r"^records\[1\]: must be a JSON object"):
        Journal(path).append({"id": "1"}, record)
    assert not path.exists()


def test_a_file_replaced_while_waiting_for_its_lock_is_not_written(path: Path) -> None:
    """The record goes to the file that has the name when the lock is held."""
    journal = Journal(path)
    journal.append({"id": "old"})
    held = SystemFiles().open_append(path)
    held.lock()
    thread = threading.Thread(target=journal.append, args=({"id": "new"},))
    thread.start()
    path.rename(path.with_suffix(".rotated"))
    path.write_bytes(b"")
    held.close()
    thread.join()
    assert [item["id"] for item in Journal(path).read().items] == ["new"]
    assert [item["id"] for item in Journal(path.with_suffix(".rotated")).read().items] == ["old"]


def test_a_short_write_is_unknown_and_mended_by_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a record is never continued; readers do not see it, and the next append is whole."""
    journal = Journal(path)
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
        with pytest.raises(OutcomeUnknown, match="only 7 of"):
            journal.append({"id": "half"})
    assert journal.read().items == []
    journal.append({"id": "whole"})
    assert [item["id"] for item in journal.read().items] == ["whole"]


def test_a_failed_fsync_is_unknown_and_final_for_this_process(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed fsync the file is refused for writing and for reading."""
    journal = Journal(path)
    journal.append({"id": "1"})

    def fail(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(OutcomeUnknown, match="may not be on disk"):
            journal.append({"id": "2"})
    with pytest.raises(FileRefused):
        journal.append({"id": "3"})
    with pytest.raises(FileRefused):
        Journal(path).read()
    code = (
        "import sys; from onceward.journal import Journal; print(Journal(sys.argv[1]).verify().ok)"
    )
    fresh = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True)
    assert fresh.stdout == b"True\n"


def test_without_sync_nothing_waits_for_the_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Syncing can be switched off, for the writer and for the reader."""
    monkeypatch.setattr(os, "fdatasync", lambda _fd: pytest.fail("synced"))
    journal = Journal(path, sync=False)
    journal.append({"id": "1"})
    assert len(journal.read().items) == 1


def test_a_full_disk_is_a_clear_error_and_nothing_half_is_seen(small_disk: Path) -> None:
    """When the disk is full the append fails, readers see whole records only, and it heals."""
    journal = Journal(small_disk / "j.jsonl")
    acknowledged = []
    with pytest.raises((DiskFull, OutcomeUnknown)) as refused:
        for number in range(1000):
            journal.append({"id": str(number), "notes": "x" * 700})
            acknowledged.append(str(number))
    assert "space" in refused.value.fix
    with pytest.raises(DiskFull, match="No space left"):
        for number in range(2000, 3000):
            journal.append({"id": str(number), "notes": "x" * 4000})
    page = journal.read()
    seen = [item["id"] for item in page.items]
    assert seen == acknowledged[: len(seen)]
    assert len(seen) == len(acknowledged) > 10


def test_a_read_only_disk_is_a_clear_error(small_disk: Path) -> None:
    """A mount that refuses writing is named, with what to check."""
    Journal(small_disk / "j.jsonl").append({"id": "1"})
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(NotWritable, match="Read-only file system") as refused:
        Journal(small_disk / "j.jsonl").append({"id": "2"})
    assert "read-only" in refused.value.fix
    with pytest.raises(NotWritable):
        Journal(small_disk / "other.jsonl").append({"id": "2"})
    assert len(Journal(small_disk / "j.jsonl").read().items) == 1


def test_appending_does_not_read_what_is_there(path: Path) -> None:
    """An append costs the same memory whether the file is empty or large."""
    with path.open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Journal(path).append({"id": "1"})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024
    assert json.loads(path.read_bytes()[-11:]) == {"id": "1"}


def test_a_lock_is_given_back_when_looking_fails(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error after the lock was taken does not leave the file locked for other writers."""
    journal = Journal(path)
    journal.append({"id": "1"})

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", fail)
        with pytest.raises(StorageError):
            journal.append({"id": "2"})
    journal.append({"id": "3"})
    assert [item["id"] for item in journal.read().items] == ["1", "3"]
