"""Held: one process at a time, named to the others, and noticed when the file is taken away."""

import errno
import fcntl
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from onceward.errors import Conflict, DiskFull
from onceward.journal.process_lock import acquire_process_lock, is_process_lock_held
from onceward.system import ManualClock, ProcessIdentity, SystemFiles
from onceward.testing import CrashFiles
from tests.support import namespaces


def test_the_second_process_gets_the_holder_and_its_start_time(tmp_path: Path) -> None:
    """And gets the lock once the first process has released it."""
    path = tmp_path / "locks" / "run.lock"
    held = acquire_process_lock(path, SystemFiles(), ManualClock())
    with pytest.raises(Conflict, match=f"process {os.getpid()} on .* since 2026-01-01") as refused:
        acquire_process_lock(path, SystemFiles(), ManualClock())
    assert str(os.getpid()) in str(refused.value.context["holder"])
    held.release()
    acquire_process_lock(path, SystemFiles(), ManualClock()).release()


def test_a_lock_whose_file_is_gone_or_another_one_is_not_ours(tmp_path: Path) -> None:
    """Another process could hold it now; the holder of the old file must stop."""
    path = tmp_path / "run.lock"
    held = acquire_process_lock(path, SystemFiles(), ManualClock())
    assert held.is_ours()
    path.unlink()
    assert not held.is_ours()
    other = acquire_process_lock(path, SystemFiles(), ManualClock())
    assert not held.is_ours()
    assert other.is_ours()
    held.release()
    other.release()


def test_a_lock_whose_note_cannot_be_written_is_given_back(tmp_path: Path) -> None:
    """The disk is full: the caller gets an error, and its next attempt gets the lock."""
    path = tmp_path / "run.lock"
    files = CrashFiles()
    files.make_directories(tmp_path)
    files.fail("write", error=errno.ENOSPC)
    with pytest.raises(DiskFull):
        acquire_process_lock(path, files, ManualClock())
    acquire_process_lock(path, files, ManualClock()).release()


def test_a_look_at_the_lock_blocks_no_process(tmp_path: Path) -> None:
    """It takes no lock, makes no file, and changes no note."""
    path = tmp_path / "run.lock"
    assert not is_process_lock_held(path)
    assert not path.exists()
    held = acquire_process_lock(path, SystemFiles(), ManualClock())
    note = path.read_bytes()
    assert is_process_lock_held(path)
    held.release()
    assert not is_process_lock_held(path)
    assert path.read_bytes() == note


def test_a_holder_elsewhere_is_believed_and_a_link_is_not(tmp_path: Path) -> None:
    """Locks of another machine are not seen here; what is no lock of ours is none."""
    path = tmp_path / "run.lock"
    path.write_text("process 7 on some-other-host since 2026-01-01T00:00:00.000Z\n")
    assert is_process_lock_held(path)
    (tmp_path / "link.lock").symlink_to(path)
    os.mkfifo(tmp_path / "pipe.lock")
    for name in ("link.lock", "pipe.lock", ".", "nothing/there"):
        assert not is_process_lock_held(tmp_path / name)


@pytest.mark.parametrize(
    "change", [{"pid_namespace": 1}, {"boot_id": "other"}], ids=["pid namespace", "boot"]
)
def test_h69_a_lock_of_another_namespace_or_boot_is_asked_itself(
    tmp_path: Path, change: dict[str, object]
) -> None:
    """The kernel lists here no lock that was taken there; the note may be of a dead process."""
    path = tmp_path / "run.lock"
    held = acquire_process_lock(path, SystemFiles(), ManualClock())
    elsewhere = replace(ProcessIdentity.own(), **change)  # type: ignore[arg-type]
    first = path.read_text().splitlines()[0]
    path.write_text(f"{first}\n{elsewhere.holder('lock')}\n")
    assert is_process_lock_held(path)
    with pytest.raises(Conflict, match=f"is in use by {first}$"):
        acquire_process_lock(path, SystemFiles(), ManualClock())
    held.release()
    assert not is_process_lock_held(path)
    acquire_process_lock(path, SystemFiles(), ManualClock()).release()


#: Prints whether a lock is held.
LOOK = """
import pathlib, sys
from onceward.journal.process_lock import is_process_lock_held
print(is_process_lock_held(pathlib.Path(sys.argv[1])))
"""


@pytest.mark.usefixtures("elsewhere")
def test_h69_a_lock_looks_held_from_another_pid_namespace(tmp_path: Path) -> None:
    """The kernel lists no lock there whose holder has no pid there."""
    path = tmp_path / "run.lock"
    held = acquire_process_lock(path, SystemFiles(), ManualClock())
    look = [*namespaces.pid_namespace(), sys.executable, "-c", LOOK, str(path)]
    assert subprocess.check_output(look) == b"True\n"
    held.release()
    assert subprocess.check_output(look) == b"False\n"


def test_a_look_at_a_lock_never_makes_its_taker_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look may hold the lock for an instant, so that it is asked for again."""
    path = tmp_path / "run.lock"
    acquire_process_lock(path, SystemFiles(), ManualClock()).release()
    with path.open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        clock = ManualClock()
        monkeypatch.setattr(clock, "sleep", lambda _: fcntl.flock(looking, fcntl.LOCK_UN))
        acquire_process_lock(path, SystemFiles(), clock).release()
