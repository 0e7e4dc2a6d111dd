"""Atomic replacement: the old file or the new one, never anything else."""

import os
import threading
from pathlib import Path

import pytest

from onceward.errors import StorageError
from onceward.journal import atomic_file


def test_a_file_is_created_and_replaced(tmp_path: Path) -> None:
    """The content is what was written last, closed to others, with nothing left beside it."""
    path = tmp_path / "state" / "run.json"
    atomic_file.write(path, b"one" * 1000)
    atomic_file.write(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["run.json"]


def test_a_temporary_of_the_dead_is_used_again(tmp_path: Path) -> None:
    """The files of a crash neither harm nor pile up."""
    path = tmp_path / "run.json"
    (tmp_path / ".run.json.tmp").write_bytes(b"left over, and longer than the new content")
    atomic_file.write(path, b"new")
    assert path.read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]


def test_a_link_in_place_of_the_temporary_is_refused(tmp_path: Path) -> None:
    """An attacker cannot redirect the write through a planted link."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".run.json.tmp").symlink_to(victim)
    with pytest.raises(StorageError):
        atomic_file.write(tmp_path / "run.json", b"new")
    assert victim.read_text() == "precious"


def test_writers_of_one_file_take_turns(tmp_path: Path) -> None:
    """Many writers at once: every reader sees one of the contents, whole."""
    path = tmp_path / "run.json"
    contents = [bytes([65 + n]) * 100_000 for n in range(8)]
    atomic_file.write(path, contents[0])

    def write_often(data: bytes) -> None:
        for _ in range(20):
            atomic_file.write(path, data)

    threads = [threading.Thread(target=write_often, args=[data]) for data in contents]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert path.read_bytes() in contents
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The temporary file is not visible to readers, so a short write simply goes on."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
    atomic_file.write(tmp_path / "run.json", b"0123456789" * 3)
    assert (tmp_path / "run.json").read_bytes() == b"0123456789" * 3
