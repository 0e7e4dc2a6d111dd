"""Checkpoints of a SQLite store where the process runs out of something."""

from __future__ import annotations

from pathlib import Path

import pytest

import onceward
from onceward.errors import NotWritable
from onceward.stores.sqlite import database, wal_checkpoints
from onceward.stores.sqlite.connection import SqliteConnection
from onceward.stores.sqlite.store import SqliteStore


def test_a_checkpoint_that_finds_no_connection_is_not_a_failed_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that can open no second connection does not report that its commit failed."""

    def fails(path: Path) -> SqliteConnection:
        message = f"{path}: unable to open database file"
        raise NotWritable(message)

    with onceward.open(f"sqlite:///{tmp_path / 'work.db'}") as ow:
        store = ow.store
        assert isinstance(store, SqliteStore)
        monkeypatch.setattr(wal_checkpoints, "ROWS_MAX", 0)  # So that one is due after each commit.
        with ow.transaction() as tx:
            tx.execute("create table effects (n int)")
            tx.execute("insert into effects values (1)")
            store.database.close()  # No idle connection is left.
            monkeypatch.setattr(database, "connect", fails)
        assert store.select("select n from effects") == [(1,)]
