"""Operations of the simulated disk fail as the machine's would, and one process ends alone."""

from __future__ import annotations

import errno
import threading

import pytest

from onceward.errors import DiskFull, FileRefused, StorageError
from onceward.system.crash_points import Crashed
from onceward.testing import CrashFiles
from tests.support.crash_file_contents import LOG, ROOT, content, contents, durable_log

# --- faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_failed_sync_is_final(seed: int) -> None:
    """After one failed sync the process refuses the file, whichever way it comes."""
    files = CrashFiles()
    file = durable_log(files, b"safe")
    file.write(b"data")
    files.fail("sync", seed=seed)
    with pytest.raises(FileRefused, match="fsync of /log failed: Input/output error"):
        file.sync()
    for attempt in (
        file.sync,
        lambda: file.write(b"more"),
        lambda: files.open_append(LOG),
        lambda: files.open_read(LOG),
    ):
        with pytest.raises(FileRefused, match="does not use it any more"):
            attempt()


def test_failed_sync_may_lose_data_for_good() -> None:
    """The next process sees the data and syncs without an error, and still it is gone."""
    durable: set[bytes | None] = set()
    for seed in range(8):
        files = CrashFiles()
        file = durable_log(files, b"safe")
        file.write(b"data")
        files.fail("sync", seed=seed)
        with pytest.raises(FileRefused):
            file.sync()
        following = files.killed()
        assert content(following) == b"safedata"
        following.open_append(LOG).sync()
        durable.update(contents(following))
    assert durable == {b"safe", b"safedata"}


def test_nth_write_fails_and_writes_nothing() -> None:
    """The first write passes, the second is refused for want of space, the third passes."""
    files = CrashFiles()
    file = durable_log(files)
    files.fail("write", nth=2, error=errno.ENOSPC)
    file.write(b"a")
    with pytest.raises(DiskFull, match="No space left"):
        file.write(b"b")
    file.write(b"c")
    assert content(files) == b"ac"


def test_short_write_takes_fewer_bytes() -> None:
    """A short write reports how much it took and raises nothing."""
    files = CrashFiles()
    file = durable_log(files)
    files.fail("write", short=2)
    assert file.write(b"abcd") == 2
    assert file.write(b"abcd") == 4
    assert content(files) == b"ababcd"


def test_failed_replace_changes_no_name() -> None:
    """Both files keep their names when the rename is refused."""
    files = CrashFiles()
    durable_log(files, b"old")
    files.open_append(ROOT / "tmp").write(b"new")
    files.fail("replace")
    with pytest.raises(StorageError, match="cannot replace /log: Input/output error"):
        files.replace(ROOT / "tmp", LOG)
    assert (content(files), content(files, ROOT / "tmp")) == (b"old", b"new")


def test_failed_directory_sync_leaves_the_names_pending() -> None:
    """A name whose sync failed may vanish."""
    files = CrashFiles()
    files.open_append(LOG)
    files.fail("sync_directory")
    with pytest.raises(StorageError, match="cannot sync /: Input/output error"):
        files.sync_directory(ROOT)
    assert files.crash().stat(LOG) is None


def test_a_lasting_fault_fails_every_time_until_it_is_healed() -> None:
    """A disk that is full stays full; the count says how often that was seen."""
    files = CrashFiles()
    file = durable_log(files)
    files.fail("write", nth=2, error=errno.ENOSPC, lasting=True)
    file.write(b"a")
    for _ in range(3):
        with pytest.raises(DiskFull):
            file.write(b"b")
    files.heal()
    file.write(b"c")
    assert (content(files), files.failures) == (b"ac", 3)


def test_a_read_fails_and_is_no_operation_on_the_disk() -> None:
    """Reads are not announced, as they change nothing; but they can fail."""
    files = CrashFiles()
    file = durable_log(files, b"data")
    heard: list[str] = []
    files.on_operation = lambda what, _: heard.append(what)
    files.fail("read", nth=2)
    assert file.read(0, 4) == b"data"
    with pytest.raises(StorageError, match="cannot read /log: Input/output error"):
        file.read(0, 4)
    assert (file.read(0, 4), heard) == (b"data", [])


# --- operations, processes, locks ----------------------------------------------------------------


def test_every_operation_is_announced_before_it_happens() -> None:
    """The hook hears of each change and each sync, numbered from one."""
    files = CrashFiles()
    heard: list[tuple[int, str, bytes | None]] = []
    files.on_operation = lambda what, number: heard.append((number, what, content(files)))
    file = durable_log(files, b"data")
    file.truncate(0)
    files.remove(LOG)
    assert heard == [
        (1, "create /log", None),
        (2, "write 4 bytes at 0 to /log", b""),
        (3, "sync /log", b"data"),
        (4, "sync_directory /", b"data"),
        (5, "truncate /log to 0 bytes", b"data"),
        (6, "remove /log", b""),
    ]


def test_killed_process_leaves_its_writes_and_no_locks() -> None:
    """The next process sees unsynced data, which a crash can still undo."""
    files = CrashFiles()
    file = durable_log(files)
    file.lock()
    file.write(b"data")
    following = files.killed()
    following.open_append(LOG).lock()
    assert content(following) == b"data"
    assert content(following.crash()) == b""
    with pytest.raises(Crashed):
        file.write(b"from the grave")


def test_locks_do_not_survive_a_crash() -> None:
    """After a reboot no lock is held."""
    files = CrashFiles()
    durable_log(files).lock()
    files.crash().open_append(LOG).lock()


def test_lock_excludes_other_descriptors_until_closed() -> None:
    """A second descriptor waits for the first one, even within the same process."""
    files = CrashFiles()
    first, second = durable_log(files), files.open_append(LOG)
    first.lock()
    first.lock()
    taken = threading.Event()

    def wait() -> None:
        second.lock()
        taken.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    second.unlock()
    assert not taken.is_set()
    first.close()
    waiting.join(timeout=60)
    assert taken.is_set()


def test_locked_threads_never_interleave() -> None:
    """Read-then-append under the lock by several threads loses no count."""
    files = CrashFiles()
    durable_log(files).close()

    def count() -> None:
        for _ in range(50):
            file = files.open_append(LOG)
            file.lock()
            size = file.stat().size
            file.write(f"{size:04}\n".encode())
            file.close()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    lines = (content(files) or b"").splitlines()
    assert [int(line) for line in lines] == [5 * number for number in range(200)]


def test_use_after_close_is_noticed() -> None:
    """A closed descriptor can do nothing."""
    file = durable_log(CrashFiles())
    file.close()
    with pytest.raises(AssertionError, match="used after close"):
        file.write(b"data")
