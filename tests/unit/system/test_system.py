"""The doors to time, chance and disk do what they say."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceward.errors import DiskFull, FileMissing, FileRefused, NotWritable, StorageError
from onceward.system import (
    Ids,
    ManualClock,
    SeededRandomness,
    SystemClock,
    SystemFiles,
    SystemRandomness,
    timestamp,
)
from onceward.system.system_files import _SystemFile
from tests.support.small_disks import small_disk

__all__ = ["small_disk"]

if TYPE_CHECKING:
    from onceward.system import OpenFile, Randomness

EAST = timezone(timedelta(hours=2))

# --- time ----------------------------------------------------------------------------------------


def test_manual_clock_stands_still_until_it_is_moved() -> None:
    """Only advancing and sleeping move it, wall time and monotonic time alike."""
    start = datetime(2026, 7, 1, 12, tzinfo=UTC)
    clock = ManualClock(start)
    assert (clock.now(), clock.monotonic()) == (start, 0.0)
    clock.advance(seconds=61.5)
    clock.sleep(8.5)
    assert (clock.now(), clock.monotonic()) == (start + timedelta(seconds=70), 70.0)


def test_manual_clock_never_runs_backwards() -> None:
    """A negative step is a mistake of the test."""
    with pytest.raises(AssertionError):
        ManualClock().advance(seconds=-1)


def test_system_clock_gives_utc_and_never_runs_backwards() -> None:
    """Wall time carries its zone; monotonic time only grows."""
    clock = SystemClock()
    before = clock.monotonic()
    clock.sleep(0)
    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() >= before


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05.000Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 678_999, tzinfo=UTC), "2026-01-02T03:04:05.678Z"),
        (datetime(2026, 1, 1, 1, tzinfo=EAST), "2025-12-31T23:00:00.000Z"),
    ],
)
def test_timestamp_has_one_form(moment: datetime, written: str) -> None:
    """Always UTC, always three digits of milliseconds, always a Z."""
    assert timestamp(moment) == written


# --- chance --------------------------------------------------------------------------------------


@pytest.mark.parametrize("randomness", [SystemRandomness(), SeededRandomness(1)])
def test_randomness_has_the_promised_shape(randomness: Randomness) -> None:
    """Fractions lie in [0, 1) and digits keep their leading zeros."""
    assert all(0 <= randomness.fraction() < 1 for _ in range(1000))
    assert all(re.fullmatch("[0-9a-f]{5}", randomness.hex(5)) for _ in range(1000))


def test_seeded_randomness_repeats_itself() -> None:
    """The same seed gives the same sequence, another seed another one."""
    first, again, other = SeededRandomness(7), SeededRandomness(7), SeededRandomness(8)
    assert [first.fraction(), first.hex(32)] == [again.fraction(), again.hex(32)]
    assert first.hex(32) != other.hex(32)


def test_ids_are_a_prefix_and_a_random_uuid() -> None:
    """An id says what it names; the rest is a UUID of version 4."""
    uuid4 = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    ids = Ids()
    made = [ids.new("fb") for _ in range(1000)]
    assert all(re.fullmatch(f"fb_{uuid4}", each) for each in made)
    assert len(set(made)) == 1000


def test_seeded_ids_repeat_themselves() -> None:
    """With the same chance come the same ids, in the same order, and no id twice."""
    first, again = Ids(SeededRandomness(1)), Ids(SeededRandomness(1))
    made = [first.new("run") for _ in range(100)]
    assert made == [again.new("run") for _ in range(100)]
    assert len(set(made)) == 100


# --- files ---------------------------------------------------------------------------------------


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> SystemFiles:
    """Return the machine's files, with a memory of failures that ends with the test."""
    monkeypatch.setattr(_SystemFile, "_refused", set())
    return SystemFiles()


def test_appending_creates_a_file_for_its_owner_only(files: SystemFiles, tmp_path: Path) -> None:
    """A new file has mode 0600, and an existing one keeps its own."""
    path = tmp_path / "log"
    with closing(files.open_append(path)) as file:
        file.write(b"data")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    files.open_append(path).close()
    assert path.stat().st_mode & 0o777 == 0o640


def test_reading_a_missing_file_says_so(files: SystemFiles, tmp_path: Path) -> None:
    """The error names the file and is not retryable."""
    with pytest.raises(FileMissing, match="log does not exist") as caught:
        files.open_read(tmp_path / "log")
    assert caught.value.context == {"fix": "check the path", "path": str(tmp_path / "log")}
    assert not caught.value.retryable


def test_link_is_refused_where_it_must_not_be_followed(files: SystemFiles, tmp_path: Path) -> None:
    """A planted link leads nowhere, unless links are welcome."""
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(StorageError, match=r"cannot open .*link"):
        files.open_append(link, follow_links=False)
    assert not target.exists()
    files.open_append(link).close()
    assert target.exists()


def test_opening_a_pipe_for_reading_does_not_wait(files: SystemFiles, tmp_path: Path) -> None:
    """A pipe without a writer does not block its reader."""
    os.mkfifo(tmp_path / "pipe")
    files.open_read(tmp_path / "pipe").close()


def test_descriptors_are_not_inherited(files: SystemFiles, tmp_path: Path) -> None:
    """A program that we start holds none of our files, nor their locks."""
    with closing(files.open_append(tmp_path / "log")) as file:
        assert isinstance(file, _SystemFile)
        assert not os.get_inheritable(file._descriptor)


def test_lock_excludes_other_descriptors(files: SystemFiles, tmp_path: Path) -> None:
    """While one descriptor holds the lock, another cannot get it; unlocking gives it back."""
    with closing(files.open_append(tmp_path / "log")) as file, (tmp_path / "log").open() as other:
        file.lock()
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.unlock()
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_full_disk_is_reported_and_can_be_retried(files: SystemFiles, small_disk: Path) -> None:
    """Writing stops with DiskFull, and goes on once there is space."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(40 * 1024))
    with closing(files.open_append(small_disk / "log")) as file:
        with pytest.raises(DiskFull, match="No space left") as caught:
            _fill(file)
        assert caught.value.retryable
        files.remove(ballast)
        assert file.write(bytes(4096)) == 4096


def _fill(file: OpenFile) -> None:
    for _ in range(20):
        file.write(bytes(4096))


def test_read_only_disk_is_reported(files: SystemFiles, small_disk: Path) -> None:
    """Nothing can be opened for appending, replaced, removed or made on it."""
    (small_disk / "log").write_bytes(b"data")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for attempt in (
        lambda: files.open_append(small_disk / "log"),
        lambda: files.replace(small_disk / "log", small_disk / "other"),
        lambda: files.remove(small_disk / "log"),
        lambda: files.make_directories(small_disk / "directory"),
    ):
        with pytest.raises(NotWritable, match="Read-only file system") as caught:
            attempt()
        assert not caught.value.retryable
    with closing(files.open_read(small_disk / "log")) as file:
        assert file.read(0, 100) == b"data"


def test_failed_sync_is_final(
    files: SystemFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one failed sync the file stays refused, also under another name; others do not."""
    path, moved = tmp_path / "log", tmp_path / "moved"

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with closing(files.open_append(path)) as file:
        file.write(b"data")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            with pytest.raises(FileRefused, match="Input/output error"):
                file.sync()
    for attempt in (files.open_append, files.open_read):
        with pytest.raises(FileRefused, match="does not use it any more") as caught:
            attempt(path)
        assert not caught.value.retryable
    files.replace(path, moved)
    with pytest.raises(FileRefused):
        files.open_read(moved)
    with closing(files.open_append(path)) as another:
        another.sync()


def test_directories_are_made_for_their_owner_only(files: SystemFiles, tmp_path: Path) -> None:
    """Every level that was missing has mode 0700, and making them again changes nothing."""
    tmp_path.chmod(0o755)
    files.make_directories(tmp_path / "a" / "b")
    files.make_directories(tmp_path / "a" / "b")
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path, tmp_path / "a", tmp_path / "a/b")]
    assert modes == [0o755, 0o700, 0o700]


def test_each_directory_is_durable_before_the_next(
    files: SystemFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent is synced after each level, when the level below is still missing."""
    synced: list[tuple[Path, bool]] = []
    real = SystemFiles.sync_directory

    def note(self: SystemFiles, path: Path) -> None:
        synced.append((path, (tmp_path / "a" / "b").exists()))
        real(self, path)

    monkeypatch.setattr(SystemFiles, "sync_directory", note)
    files.make_directories(tmp_path / "a" / "b")
    assert synced[-2:] == [(tmp_path, False), (tmp_path / "a", True)]


def test_failed_directory_sync_is_reported_unless_there_is_none(
    files: SystemFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk error is an error; a file system that syncs no directories is not."""
    code = errno.EINVAL

    def fail(_descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    files.sync_directory(tmp_path)
    code = errno.EIO
    with pytest.raises(StorageError, match=r"cannot sync .*: Input/output error"):
        files.sync_directory(tmp_path)


def test_identity_stays_while_a_file_grows(files: SystemFiles, tmp_path: Path) -> None:
    """Size changes, identity does not, and another file has another one."""
    with closing(files.open_append(tmp_path / "log")) as file:
        before = file.stat()
        file.write(b"data")
        after = file.stat()
    assert (before.size, after.size) == (0, 4)
    assert before.identity == after.identity
    with closing(files.open_append(tmp_path / "other")) as other:
        assert other.stat().identity != before.identity
