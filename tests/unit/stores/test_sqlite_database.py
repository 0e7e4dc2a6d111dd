"""What several handles of one process share of a SQLite file, and what they must not."""

import gc
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import onceward
from onceward.errors import LeaseLost
from onceward.stores import Store
from onceward.stores.sqlite import database as database_module
from onceward.stores.sqlite.database import Database
from onceward.stores.sqlite.store import SqliteStore

#: A thread that takes longer waits for itself.
HANG_SECONDS: Final = 30.0


def _database(store: object) -> Database:
    assert isinstance(store, SqliteStore)
    return store.database


def test_a_file_with_the_number_of_a_deleted_one_is_another_file(tmp_path: Path) -> None:
    """A new file that got the inode of a deleted one is opened at its own path."""
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    ow = onceward.open(f"sqlite:///{first}")
    kept = _database(ow.store)  # As a transaction does that is still referenced.
    ow.close()
    # A file system that reuses the inode at once, on every machine.
    first.rename(second)
    with onceward.open(f"sqlite:///{second}") as ow:
        assert _database(ow.store) is not kept
        with ow.transaction() as tx:
            tx.execute("create table t (x integer)")
    assert not first.exists()
    with sqlite3.connect(second) as raw:
        assert raw.execute("select count(*) from t").fetchall() == [(0,)]
    raw.close()


@pytest.mark.parametrize("place", ["connecting", "taking the turn"])
def test_a_forgotten_handle_is_closed_wherever_it_is_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The garbage collector may close a handle in a thread that holds the locks of the file."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    ow = onceward.open(url)
    database = _database(ow.store)
    onceward.open(url)  # It is never closed.

    def work() -> None:
        with ow.transaction(immediate=True):
            database.release_connection(database.acquire_connection())

    if place == "connecting":
        database.close()
        _collect_in(monkeypatch, database_module, "connect")
    else:
        database.write_lock.close()
        _collect_in(monkeypatch, database.write_lock, "_opened")
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(HANG_SECONDS)
    assert not thread.is_alive()
    assert database._handles == 1
    ow.close()


_FORGETFUL: Final = """
import gc, sys, onceward
unraisable = []
sys.unraisablehook = unraisable.append
for number in range(20):
    onceward.open(f"sqlite:///{sys.argv[1]}/{number}.db").store.applied()
    gc.collect()
print([str(found.exc_value) for found in unraisable])
"""


def test_forgotten_handles_close_their_connections_without_a_warning(tmp_path: Path) -> None:
    """A handle in a cycle of garbage closes its connections before their own finalizers warn.

    Python warns of a connection that was not closed from 3.13 on.
    """
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", _FORGETFUL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _collect_in(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
    """Collect garbage whenever this is called."""
    call: Callable[..., Any] = getattr(owner, name)

    def collect(*args: object) -> object:
        gc.collect()
        return call(*args)

    monkeypatch.setattr(owner, name, collect)


def test_a_closed_handle_passes_its_writer_to_no_other_handle(tmp_path: Path) -> None:
    """A write that waits while its handle is closed shares its connection with no other handle."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with onceward.open(url) as other:
        ow = onceward.open(url)
        assert isinstance(ow.store, SqliteStore)
        assert other.store.applied()
        store, database = ow.store, _database(ow.store)
        with other.transaction(immediate=True):
            waiting = threading.Thread(target=lambda: store.write_query("create_migrations"))
            waiting.start()
            while store._writer._leader is None:
                threading.Event().wait(0.001)
            ow.close()
            assert other.store.applied()
        waiting.join()
        assert len(set(database._idle)) == len(database._idle)
        assert set(database._idle) == database._connections


def test_a_connection_with_an_open_transaction_is_not_used_again(tmp_path: Path) -> None:
    """A reader that was interrupted passes its snapshot to no other reader."""
    with onceward.open(f"sqlite:///{tmp_path / 'a.db'}") as ow:
        database = _database(ow.store)
        left = database.acquire_connection()
        left.execute("begin")
        database.release_connection(left)
        found = database.acquire_connection()
        assert not found.in_transaction
        database.release_connection(found)


def test_a_connection_that_a_fork_could_not_open_again_is_not_used_again(tmp_path: Path) -> None:
    """A connection that is closed neither stays in use nor breaks the next fork."""
    with onceward.open(f"sqlite:///{tmp_path / 'a.db'}") as ow:
        database = _database(ow.store)
        left = database.acquire_connection()
        left.raw.close()
        assert not left.in_transaction
        database.release_connection(left)
        found = database.acquire_connection()
        assert found is not left
        assert found.execute("select 1") == [(1,)]
        database.release_connection(found)


def test_a_connection_that_is_still_in_use_is_not_used_again(tmp_path: Path) -> None:
    """An interrupt may leave it locked; its next user could never use it."""
    with onceward.open(f"sqlite:///{tmp_path / 'a.db'}") as ow:
        database = _database(ow.store)
        left = database.acquire_connection()
        left.busy.acquire()
        database.release_connection(left)
        found = database.acquire_connection()
        assert found is not left
        database.release_connection(found)


def test_finding_a_row_does_not_wait_for_a_connection(tmp_path: Path) -> None:
    """A finalizer that runs while a connection is opened may find a row, too."""
    with onceward.open(f"sqlite:///{tmp_path / 'a.db'}") as ow:
        store, database = ow.store, _database(ow.store)
        database.close()
        finding = [threading.Thread(target=find, args=[store], daemon=True) for _ in range(2)]

        def open_and_find() -> None:
            with database._mutex:  # As while a connection is opened.
                finding[0].start()
                finding[1].start()
                threading.Event().wait(0.2)  # They are waiting for a connection now.
                find(store)

        opening = threading.Thread(target=open_and_find, daemon=True)
        opening.start()
        opening.join(HANG_SECONDS)
        assert not opening.is_alive()
        for each in finding:
            each.join()


def find(store: Store) -> None:
    store.find("outcome_find", scope="s", key="k")


def test_a_lost_lease_is_seen_whatever_the_frameworks_connection_counts(tmp_path: Path) -> None:
    """With `pragma count_changes` every write returns a row, one that changed nothing too."""
    with onceward.open(f"sqlite:///{tmp_path / 'a.db'}") as ow:
        lease = ow.cursors.acquire("c", "w")
        assert lease is not None
        ow.cursors.seek("c", "5", reason="a test", actor="a test")
        raw = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        raw.execute("pragma count_changes = 1")
        raw.execute("begin")
        with pytest.raises(LeaseLost), ow.transaction(connection=raw) as tx:
            lease.checkpoint("6", tx=tx)
        raw.execute("rollback")
        raw.close()
        assert ow.cursors.show("c").position == "5"
