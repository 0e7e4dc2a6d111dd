"""Interrupts and failures of callers whose operations are grouped into one commit."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

import onceward
from onceward.errors import OutcomeUnknown, SqlFailed
from onceward.stores import Row
from onceward.stores.sqlite.group_commit import GroupCommitWriter, _QueuedWrite
from onceward.stores.sqlite.store import SqliteStore
from onceward.stores.sqlite.transaction import SqliteTransaction


class Mutex:
    """A lock that calls these before it is taken and after it is released, the nth time."""

    def __init__(self, nth: int, before: Callable[[], Any], after: Callable[[], Any]) -> None:
        self._lock = threading.Lock()
        self._left = nth
        self._before, self._after = before, after

    def __enter__(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._before()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None
    ) -> None:
        self._lock.release()
        if self._left == 0:
            self._after()


def _nothing() -> None:
    pass


def _interrupt() -> None:
    raise KeyboardInterrupt


def _queued(writer: GroupCommitWriter) -> _QueuedWrite[None]:
    """Queue an operation, as a thread that waits has."""
    ticket: _QueuedWrite[None] = _QueuedWrite(lambda _: None)
    ticket.woken = threading.Lock()
    ticket.woken.acquire()
    writer._queue.append(ticket)
    return ticket


def test_a_caller_that_leaves_while_it_is_made_leader_hands_on(tmp_path: Path) -> None:
    """An interrupted caller is the leader the moment it leaves: the next one leads."""
    with onceward.open(f"sqlite:///{tmp_path / 'a.db'}") as ow:
        assert isinstance(ow.store, SqliteStore)
        writer = ow.store._writer
        leaving = _queued(writer)
        writer._mutex = Mutex(1, writer._hand_over, _nothing)  # type: ignore[assignment]
        writer._withdraw(leaving)
        assert writer._leader is None


@pytest.mark.parametrize("nth", [2, 3])
def test_an_interrupted_leader_leaves_no_thread_asleep(tmp_path: Path, nth: int) -> None:
    """Threads whose operations it had taken are woken, without a claim of durability."""
    with onceward.open(f"sqlite:///{tmp_path / 'a.db'}") as ow:
        assert isinstance(ow.store, SqliteStore)
        writer = ow.store._writer
        waiting = _queued(writer)
        writer._mutex = Mutex(nth, _nothing, _interrupt)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            writer.run(lambda _: None)
        assert waiting.woken is not None
        assert not waiting.woken.locked()
        assert writer._leader is None
        if nth == 2:
            with pytest.raises(OutcomeUnknown):
                waiting.outcome()


@pytest.mark.parametrize(
    ("action", "stored"), [("abort", {"first", "last"}), ("rollback", set[str]())]
)
def test_a_statement_that_fails_in_a_group_fails_only_its_caller(
    tmp_path: Path, action: str, stored: set[str]
) -> None:
    """It is undone alone; where SQLite undoes the whole group, every caller gets an error."""
    with onceward.open(f"sqlite:///{tmp_path / 'a.db'}") as ow:
        assert isinstance(ow.store, SqliteStore)
        with ow.transaction() as tx:
            tx.execute(
                "create trigger refuse before insert on onceward_outcomes when new.key = 'bad'"
                f" begin select raise({action}, 'no'); end"
            )
        tickets = {key: _claim(key) for key in ("first", "bad", "last")}
        writer = ow.store._writer
        for key in ("bad", "last"):
            tickets[key].woken = woken = threading.Lock()
            woken.acquire()
            writer._queue.append(tickets[key])
        with suppress(SqlFailed):
            writer._run(tickets["first"])
        errors = {key: str(each.error) for key, each in tickets.items() if each.error is not None}
        assert tickets.keys() - errors.keys() == stored
        assert set(errors.values()) == {"outcome_claim: no"}
        rows = ow.store.select("select key from onceward_outcomes")
        assert {row[0] for row in rows} == stored


def test_an_error_that_is_not_of_sqlite_undoes_the_whole_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its statement may have run: nothing of the group is committed, and all callers fail."""
    query = SqliteTransaction.query

    def failing(transaction: SqliteTransaction, name: str, /, **params: object) -> list[Row]:
        rows = query(transaction, name, **params)
        if params.get("key") == "bad":
            raise MemoryError
        return rows

    with onceward.open(f"sqlite:///{tmp_path / 'a.db'}") as ow:
        assert isinstance(ow.store, SqliteStore)
        first, bad = _claim("first"), _claim("bad")
        bad.woken = woken = threading.Lock()
        woken.acquire()
        ow.store._writer._queue.append(bad)
        monkeypatch.setattr(SqliteTransaction, "query", failing)
        with pytest.raises(MemoryError):
            ow.store._writer._run(first)
        assert isinstance(bad.error, MemoryError)
        assert ow.store.select("select * from onceward_outcomes") == []


def _claim(key: str) -> _QueuedWrite[Any]:
    params = {"scope": "s", "key": key, "fingerprint": "f", "owner": "o"}
    return _QueuedWrite(
        None, "outcome_claim", {**params, "on_crash": "ambiguous", "lease_seconds": 60.0}
    )
