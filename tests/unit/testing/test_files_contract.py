"""The simulated file system and the machine's answer alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onceward.errors import FileMissing, StorageError
from onceward.system import SystemFiles
from onceward.testing import AuditedFiles, CrashFiles

if TYPE_CHECKING:
    from pathlib import Path

    from onceward.system import Files


@pytest.fixture(params=["system", "crash", "audited"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    made: Files = SystemFiles() if request.param == "system" else CrashFiles()
    made.make_directories(tmp_path)
    return AuditedFiles(made) if request.param == "audited" else made


def test_appended_bytes_are_read_back(files: Files, tmp_path: Path) -> None:
    """Appends land at the end, and reads stop there."""
    file = files.open_append(tmp_path / "log")
    assert file.write(b"one ") == 4
    assert files.open_append(tmp_path / "log").write(b"two") == 3
    assert file.stat().size == 7
    assert file.read(2, 3) == b"e t"
    assert files.open_read(tmp_path / "log").read(4, 100) == b"two"
    assert file.read(7, 1) == b""


def test_append_after_truncate_lands_at_the_new_end(files: Files, tmp_path: Path) -> None:
    """A cut file grows from the cut."""
    file = files.open_append(tmp_path / "log")
    file.write(b"123456")
    file.truncate(2)
    file.write(b"x")
    assert file.read(0, 100) == b"12x"


def test_truncating_beyond_the_end_fills_with_zeros(files: Files, tmp_path: Path) -> None:
    """A file cut longer than it is ends in zeros."""
    file = files.open_append(tmp_path / "log")
    file.write(b"1")
    file.truncate(3)
    assert file.read(0, 100) == b"1\0\0"


def test_missing_file_is_reported(files: Files, tmp_path: Path) -> None:
    """Reading needs a file, appending needs a directory, looking needs neither."""
    with pytest.raises(FileMissing, match="none does not exist"):
        files.open_read(tmp_path / "none")
    with pytest.raises(FileMissing, match="log does not exist"):
        files.open_append(tmp_path / "none" / "log")
    assert files.stat(tmp_path / "none") is None
    assert files.stat(tmp_path / "none" / "log") is None


def test_replace_takes_the_identity_along(files: Files, tmp_path: Path) -> None:
    """The target's name leads to the source's file, and open descriptors stay where they were."""
    old, new = files.open_append(tmp_path / "a"), files.open_append(tmp_path / "b")
    files.replace(tmp_path / "b", tmp_path / "a")
    assert files.stat(tmp_path / "a") == new.stat()
    assert files.stat(tmp_path / "b") is None
    old.write(b"no name leads here")
    assert files.open_read(tmp_path / "a").read(0, 100) == b""


def test_replace_refuses_what_it_cannot_do(files: Files, tmp_path: Path) -> None:
    """A missing source, or a directory in the way, is an error of ours."""
    files.make_directories(tmp_path / "directory")
    files.open_append(tmp_path / "file")
    with pytest.raises(StorageError, match=r"cannot replace .*file"):
        files.replace(tmp_path / "none", tmp_path / "file")
    with pytest.raises(StorageError, match="Is a directory"):
        files.replace(tmp_path / "file", tmp_path / "directory")


def test_remove_takes_the_name_and_forgives_a_missing_one(files: Files, tmp_path: Path) -> None:
    """Removing twice is like removing once."""
    files.open_append(tmp_path / "log")
    files.remove(tmp_path / "log")
    files.remove(tmp_path / "log")
    files.remove(tmp_path / "none" / "log")
    assert files.stat(tmp_path / "log") is None


def test_file_in_the_way_of_a_directory_is_reported(files: Files, tmp_path: Path) -> None:
    """A file is no directory, wherever one is needed."""
    files.open_append(tmp_path / "file")
    files.make_directories(tmp_path)
    for attempt in (
        lambda: files.make_directories(tmp_path / "file"),
        lambda: files.sync_directory(tmp_path / "file"),
        lambda: files.sync_directory(tmp_path / "none"),
        lambda: files.open_append(tmp_path / "file" / "below"),
        lambda: files.stat(tmp_path / "file" / "below"),
        lambda: files.open_append(tmp_path),
        lambda: files.remove(tmp_path),
    ):
        with pytest.raises(StorageError):
            attempt()


def test_reader_cannot_write_but_can_sync(files: Files, tmp_path: Path) -> None:
    """A descriptor for reading refuses changes and still makes the file durable."""
    files.open_append(tmp_path / "log")
    file = files.open_read(tmp_path / "log")
    with pytest.raises(StorageError, match="cannot write to"):
        file.write(b"data")
    with pytest.raises(StorageError, match="cannot truncate"):
        file.truncate(0)
    file.sync()


def test_lock_can_be_taken_again_after_unlock_and_close(files: Files, tmp_path: Path) -> None:
    """Two descriptors take turns."""
    first, second = files.open_append(tmp_path / "log"), files.open_read(tmp_path / "log")
    first.lock()
    first.unlock()
    second.lock()
    second.close()
    first.lock()
    first.close()


def test_a_held_lock_is_not_waited_for(files: Files, tmp_path: Path) -> None:
    """Two descriptors: the second one gets it once the first gave it back."""
    first, second = (files.open_append(tmp_path / "log") for _ in range(2))
    assert first.try_lock()
    assert not second.try_lock()
    first.unlock()
    assert second.try_lock()
    first.close()
    second.close()


def test_a_directory_lists_its_names(files: Files, tmp_path: Path) -> None:
    """Names are sorted, a missing directory has none, and a file is not a directory."""
    files.make_directories(tmp_path / "here" / "b")
    files.open_append(tmp_path / "here" / "a").close()
    assert files.names(tmp_path / "here") == ["a", "b"]
    assert files.names(tmp_path / "none") == []
    with pytest.raises(StorageError):
        files.names(tmp_path / "here" / "a")
