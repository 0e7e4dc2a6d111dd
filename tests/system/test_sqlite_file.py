"""One SQLite file, and what shares a process with it: handles, threads and forks."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

import onceward
from onceward.client import Onceward
from onceward.errors import ForkedInTransaction, SqlFailed, WriterHeld
from onceward.stores import Params, Row, Transaction
from onceward.stores.sqlite import database, wal_checkpoints
from onceward.stores.sqlite.connection import SqliteConnection
from onceward.stores.sqlite.second_library import has_open
from onceward.stores.sqlite.store import SqliteStore

#: A child that takes longer hangs.
CHILD_SECONDS_MAX = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "work.db"


@pytest.fixture
def ow(path: Path) -> Iterator[Onceward]:
    with onceward.open(f"sqlite:///{path}") as handle:
        with handle.transaction() as tx:
            tx.execute("create table effects (n int)")
        yield handle


def insert(ow: Onceward, n: int) -> None:
    with ow.transaction() as tx:
        tx.execute("insert into effects values (?)", [n])


def rows(ow: Onceward) -> list[int]:
    return [row[0] for row in ow.store.select("select n from effects order by n")]


def child(work: Callable[[], None]) -> int:
    """Run this in a forked child; return its exit code, or the signal that ended it, negative."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(CHILD_SECONDS_MAX)
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - reported, then the child ends whatever it was
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# --- forks ----------------------------------------------------------------------------------------


def test_h53_a_fork_beside_a_writing_thread_leaves_both_working(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Children forked while another thread commits can write, and so can the parent."""
    monkeypatch.setattr(database, "FORK_WAITS_MAX", 120_000)  # However slow the disk is.
    stop, failures = threading.Event(), []

    def write() -> None:
        n = 0
        while not stop.is_set():
            try:
                insert(ow, n)
            except Exception as exc:  # noqa: BLE001 - raised below
                failures.append(exc)
                return
            n += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        codes = [child(lambda number=number: insert(ow, -number)) for number in range(1, 9)]  # type: ignore[misc]
    finally:
        stop.set()
        thread.join()
    assert (codes, failures) == ([0] * 8, [])
    assert rows(ow)[:8] == list(range(-8, 0))
    assert ow.store.problems() == []


def test_h53_a_fork_during_another_threads_transaction_is_refused_at_once(ow: Onceward) -> None:
    """The child gets an error instead of the file; the parent's transaction is not disturbed."""
    is_open, may_end = threading.Event(), threading.Event()

    def write() -> None:
        with ow.transaction() as tx:
            tx.execute("insert into effects values (1)")
            is_open.set()
            may_end.wait()
            tx.execute("insert into effects values (2)")

    def refused() -> None:
        for use in (lambda: insert(ow, 3), lambda: rows(ow)):
            with pytest.raises(ForkedInTransaction, match="forked while its parent"):
                use()

    thread = threading.Thread(target=write)
    thread.start()
    is_open.wait()
    code = child(refused)
    may_end.set()
    thread.join()
    assert code == 0
    insert(ow, 4)
    assert rows(ow) == [1, 2, 4]


def test_a_fork_leaves_no_connection_of_the_parents_in_the_child(ow: Onceward, path: Path) -> None:
    """SQLite's memory of the file is clean: the child's locks are its own."""
    insert(ow, 1)

    def looks() -> None:
        every = [path, path.with_name("work.db-wal"), path.with_name("work.db-shm")]
        files = [each.stat() for each in every if each.exists()]
        assert not [each for each in files if has_open((each.st_dev, each.st_ino))]
        insert(ow, 2)

    assert child(looks) == 0
    assert rows(ow) == [1, 2]


def test_a_transaction_that_has_only_read_goes_on_after_a_fork(ow: Onceward) -> None:
    """Its connection is closed for the fork and opened again for its thread."""
    with ow.transaction() as tx:
        assert tx.execute("select count(*) from effects") == [(0,)]
        assert child(lambda: insert(ow, 1)) == 0
        tx.execute("insert into effects values (2)")
    assert rows(ow) == [1, 2]


# --- handles --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["same path", "symbolic link"])
def test_h54_two_handles_in_one_thread_name_the_holder(ow: Onceward, path: Path, kind: str) -> None:
    """The second one would wait for the first, for ever: it is refused, and nothing is lost."""
    other_path = path
    if kind == "symbolic link":
        other_path = path.with_name("link.db")
        other_path.symlink_to(path)
    with onceward.open(f"sqlite:///{other_path}") as other:

        @other.once()
        def called(n: int) -> int:
            return n

        with ow.transaction() as tx:
            tx.execute("insert into effects values (1)")
            for use in (lambda: insert(other, 2), lambda: called(3)):
                with pytest.raises(WriterHeld, match=r"work\.db: thread MainThread is inside"):
                    use()
        insert(other, 4)
    assert rows(ow) == [1, 4]


def test_handles_on_one_file_share_the_write_lock_over_threads(ow: Onceward, path: Path) -> None:
    """A thread with the one waits for a thread with the other, and no row is refused or lost."""
    with onceward.open(f"sqlite:///{path}") as other:
        threads = [
            threading.Thread(target=lambda each=each, n=n: insert(each, n))
            for n, each in enumerate([ow, other] * 20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert rows(ow) == list(range(40))


def test_an_inode_that_was_given_to_another_file_leads_to_that_file(tmp_path: Path) -> None:
    """What is remembered of a deleted file says nothing about the next one with its number."""
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    with onceward.open(f"sqlite:///{old}") as first:
        remembered = first.store.writer_identity
    new.hardlink_to(old)
    old.unlink()
    with onceward.open(f"sqlite:///{new}") as second:
        assert second.store.problems() == []
        assert second.store.writer_identity is not remembered


def test_closing_one_handle_leaves_the_other_its_connections(ow: Onceward, path: Path) -> None:
    """The last handle closes the file; the log is gone then."""
    other = onceward.open(f"sqlite:///{path}")
    insert(other, 1)
    other.close()
    insert(ow, 2)
    assert rows(ow) == [1, 2]
    assert path.with_name("work.db-wal").exists()
    ow.close()
    assert not path.with_name("work.db-wal").exists()


# --- group commit ---------------------------------------------------------------------------------


def test_h55_a_leader_returns_with_its_own_batch(ow: Onceward) -> None:
    """A caller that queued during the leader's commit leads the next; the first one returns."""
    store = ow.store
    assert isinstance(store, SqliteStore)
    begun, queued = threading.Event(), threading.Event()
    first_over, may_end = threading.Event(), threading.Event()

    def first(tx: Transaction) -> None:
        begun.set()
        queued.wait()
        tx.execute("insert into effects values (1)")

    def second(tx: Transaction) -> None:
        may_end.wait()
        tx.execute("insert into effects values (2)")

    def lead() -> None:
        store.run_in_own_transaction(first)
        first_over.set()

    leading = threading.Thread(target=lead)
    leading.start()
    begun.wait()
    following = threading.Thread(target=lambda: store.run_in_own_transaction(second))
    following.start()
    while not store._writer._queue:
        threading.Event().wait(0.001)
    queued.set()
    is_over = first_over.wait(CHILD_SECONDS_MAX)
    may_end.set()
    leading.join()
    following.join()
    assert is_over, "the leader serves others"
    assert rows(ow) == [1, 2]


def test_an_interrupted_follower_leaves_the_queue(ow: Onceward) -> None:
    """Its operation is not run, and the callers before and after it get theirs."""
    store = ow.store
    assert isinstance(store, SqliteStore)
    writer = store._writer
    begun, may_end = threading.Event(), threading.Event()

    def first(tx: Transaction) -> None:
        begun.set()
        may_end.wait()
        tx.execute("insert into effects values (1)")

    def interrupt() -> None:
        while not writer._queue:
            threading.Event().wait(0.001)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def raised(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, raised)
    leading = threading.Thread(target=lambda: store.run_in_own_transaction(first))
    interrupting = threading.Thread(target=interrupt)
    leading.start()
    begun.wait()
    interrupting.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            store.run_in_own_transaction(lambda tx: tx.execute("insert into effects values (2)"))
    finally:
        signal.signal(signal.SIGUSR1, before)
        may_end.set()
        leading.join()
        interrupting.join()
    insert(ow, 3)
    assert rows(ow) == [1, 3]


# --- the file itself ------------------------------------------------------------------------------


def test_new_files_are_readable_by_their_owner_only(path: Path) -> None:
    """The database, its log and its lock are created with mode 0600, whatever the umask says."""
    before = os.umask(0)
    try:
        with onceward.open(f"sqlite:///{path}"):
            modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert set(modes) == {f"work.db{end}" for end in ("", "-wal", "-shm", "-write-lock")}
    assert set(modes.values()) == {0o600}


def test_the_log_is_written_back_before_other_programs_have_to(ow: Onceward, path: Path) -> None:
    """However many commits there were, the log stays below what makes others checkpoint."""
    pages = []
    for n in range(1_500):
        insert(ow, n)
        if n % 100 == 99:
            pages.append(path.with_name("work.db-wal").stat().st_size // 4096)
    assert max(pages) < 1_000
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("select count(*) from effects").fetchall() == [(1_500,)]


def test_a_checkpoint_that_fails_is_not_a_failed_commit(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are committed and in the log; the next checkpoint tries again."""
    execute, tried = SqliteConnection.execute, []

    def fails(connection: SqliteConnection, sql: str, params: Params = ()) -> list[Row]:
        if sql.startswith("pragma wal_checkpoint"):
            tried.append(sql)
            message = "disk I/O error"
            raise sqlite3.OperationalError(message)
        return execute(connection, sql, params)

    monkeypatch.setattr(SqliteConnection, "execute", fails)
    monkeypatch.setattr(wal_checkpoints, "ROWS_MAX", 0)  # So that one is due after each commit.
    for n in range(3):
        insert(ow, n)
    assert len(tried) == 3
    assert rows(ow) == [0, 1, 2]


def test_values_that_sqlite_would_change_are_refused(ow: Onceward) -> None:
    """Dates, NaN and integers beyond 64 bits are no values of SQLite's; the limits are."""
    low, high = -(2**63), 2**63 - 1
    with ow.transaction() as tx:
        tx.execute("insert into effects values (?), (?)", [low, high])
        for value in (date(2026, 1, 1), float("nan"), high + 1, low - 1, [1], "\ud800"):
            with pytest.raises(SqlFailed):
                tx.execute("insert into effects values (?)", [value])
    assert rows(ow) == [low, high]
