"""Worker failures: what was paused, moved, lost, killed or badly written, on both engines."""

from __future__ import annotations

import functools
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.cursors import Lease, Renewal
from onceward.errors import InvalidArgument, LeaseLost, OutcomeUnknown, StoreBusy, StoreUnavailable
from onceward.retries import FixedDelays
from onceward.stores import Transaction
from onceward.testing.moving_time import MovingTime
from onceward.workers import App, Message
from onceward.workers import cursor_reader as readers
from tests.support.list_source import ListPartitions, ListSource
from tests.support.running_worker import PATIENCE_SECONDS, at_work, drain
from tests.support.waiting import until


@pytest.fixture
def noticed(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a renewal has found a cursor paused, or its lease lost."""
    found, renew = threading.Event(), Lease.renew

    def noting(lease: Lease) -> Renewal:
        try:
            renewal = renew(lease)
        except LeaseLost:
            found.set()
            raise
        if renewal is Renewal.PAUSED:
            found.set()
        return renewal

    monkeypatch.setattr(Lease, "renew", noting)
    return found


# --- operators -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_cursor_that_is_held_can_be_paused(ow: Onceward, is_busy: bool) -> None:
    """The running message may finish; the lease is given back, and nothing more is begun."""
    app, seen, source = App(ow), [], ListSource(*range(3))
    go = threading.Event()

    @app.consumer("numbers", source=source, poll_seconds=0.02)
    def handle(message: Message) -> None:
        seen.append(message.data)
        if is_busy and message.data == 2:
            go.wait(PATIENCE_SECONDS)

    with at_work(app):
        until(lambda: len(seen) == 3)
        ow.cursors.pause("numbers")
        go.set()
        until(lambda: ow.cursors.show("numbers").lease_owner is None)
        source.values.extend(range(3, 6))
        time.sleep(0.1)
        assert seen == [0, 1, 2]
        ow.cursors.resume("numbers")
        until(lambda: seen == list(range(6)))


def test_a_heartbeat_that_finds_a_pause_stops_a_turn(
    ow: Onceward, noticed: threading.Event
) -> None:
    """Not only the next turn: no message is begun after the renewal that said so."""
    app, seen = App(ow), []

    @app.consumer("numbers", source=ListSource(*range(100)), lease_seconds=0.3)
    def handle(message: Message) -> None:
        seen.append(message.data)
        if message.data == 3:
            ow.cursors.pause("numbers")
            noticed.wait(PATIENCE_SECONDS)

    assert drain(app).unfinished == ("numbers",)
    assert seen == [0, 1, 2, 3]
    assert ow.cursors.show("numbers").position == "4"


def test_a_seek_under_an_idle_worker_is_noticed_at_its_next_look(ow: Onceward) -> None:
    """Forward, what is skipped is not handled; backward, what is repeated is, and soon."""
    app, source, seen = App(ow), ListSource(1), []
    app.consumer("numbers", source=source, poll_seconds=0.02)(lambda m: seen.append(m.data))
    with at_work(app):
        until(lambda: seen == [1] and ow.cursors.show("numbers").position == "1")
        time.sleep(0.1)
        epoch = ow.cursors.seek("numbers", "3", "skip two", "me", count=source.count).epoch
        assert epoch is not None
        # A look that was under way when the cursor moved may still begin one message.
        until(lambda: ow.cursors.show("numbers").epoch > epoch)
        source.values.extend([2, 3, 4])
        until(lambda: 4 in seen)
        assert seen == [1, 4]
        until(lambda: ow.cursors.show("numbers").position == "4")
        ow.cursors.seek("numbers", "2", "again", "me", count=source.count)
        until(lambda: seen == [1, 4, 3, 4])


def test_a_lost_slot_stops_its_worker(ow: Onceward, noticed: threading.Event) -> None:
    """The new holder of the slot may work; no message is begun without one."""
    app, seen, taken = App(ow), [], []
    source = ListPartitions(a=list(range(50)))

    @app.consumer("niche_{id}", source=source, max_in_flight=1, lease_seconds=0.6, poll_seconds=0.1)
    def handle(message: Message) -> None:
        seen.append(message.data)
        if len(seen) == 3:
            (slot,) = ow.cursors.list("~*")
            ow.cursors.seek(slot.name, None, "as if it expired", "test")
            taken.append(ow.cursors.acquire(slot.name, "another", 3600.0))
            noticed.wait(PATIENCE_SECONDS)

    with at_work(app):
        until(lambda: taken and noticed.is_set())
        time.sleep(0.5)
        assert taken != [None]
        assert seen == [0, 1, 2]


def test_slots_of_a_group_are_not_those_of_another_consumer(ow: Onceward) -> None:
    """The group b of `a_{id}` and the consumer `a_{id}/b` do not share a limit."""
    app, names = App(ow), []

    def handle(_: Message) -> None:
        names.append({each.name for each in ow.cursors.list("~*") if each.is_held})

    source = ListPartitions(b=[1])
    app.consumer("a_{id}", source=source, max_in_flight_per_group=1)(handle)
    app.consumer("a_{id}/b", source=source, max_in_flight=1)(handle)
    drain(app, threads=1)
    assert len(names) == 2
    assert names[0].isdisjoint(names[1])


# --- handlers that are not what they seem --------------------------------------------------------


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


class AsyncObject:
    """A handler that is `async`, though no function says so."""

    def __init__(self, seen: list[int]) -> None:
        self.seen = seen

    async def __call__(self, message: Message) -> None:
        self.seen.append(message.data)


@pytest.mark.parametrize("kind", ["decorated", "object", "lambda"])
def test_whatever_can_be_awaited_is(ow: Onceward, kind: str) -> None:
    """A decorator, an object or a lambda may hide that a handler is `async`."""
    app, seen = App(ow), list[int]()
    handler = AsyncObject(seen)
    made: dict[str, Callable[..., Any]] = {
        "decorated": traced(handler.__call__),
        "object": handler,
        "lambda": lambda message: handler(message),  # noqa: PLW0108 - the point of it
    }
    app.consumer("numbers", source=ListSource(1, 2, 3))(made[kind])
    drain(app)
    assert seen == [1, 2, 3]
    assert ow.cursors.show("numbers").position == "3"


def test_a_generator_is_no_handler(ow: Onceward) -> None:
    """Nothing of it would run: refused where it shows, else a failure."""
    app = App(ow)

    def lazy(message: Message) -> Iterator[int]:
        yield message.data

    with pytest.raises(InvalidArgument, match="generator"):
        app.consumer("numbers", source=ListSource(1))(lazy)
    app.consumer("numbers", source=ListSource(1), retry=FixedDelays(seconds=()))(traced(lazy))
    drain(app)
    (letter,) = ow.dead.list()
    assert (letter.position, letter.error_type) == ("1", "TypeError")


def failing(error: BaseException) -> tuple[Callable[[Message], None], list[Any]]:
    """Return a handler that fails with message 1, and what it has seen of others."""
    seen: list[Any] = []

    def handle(message: Message) -> None:
        if message.data == 1:
            raise error
        seen.append(message.data)

    return handle, seen


@pytest.mark.parametrize("error", [SystemExit(2), KeyboardInterrupt(), GeneratorExit()])
@pytest.mark.parametrize("is_async", [False, True])
def test_what_would_end_a_thread_is_a_failed_attempt(
    ow: Onceward, error: BaseException, is_async: bool
) -> None:
    """Neither the thread nor any other message is lost."""
    app, (handle, seen) = App(ow), failing(error)

    async def handle_async(message: Message) -> None:
        handle(message)

    handler: Any = handle_async if is_async else handle
    app.consumer("numbers", source=ListSource(1, 2), retry=FixedDelays(seconds=()))(handler)
    drain(app, threads=1)
    assert seen == [2]
    (letter,) = ow.dead.list()
    assert letter.error_type == type(error).__name__


@pytest.mark.parametrize(
    "error",
    [
        StoreBusy("another store"),
        StoreUnavailable("another store"),
        OutcomeUnknown("another store"),
        LeaseLost("another cursor", 1, 2),
    ],
)
@pytest.mark.parametrize("takes_tx", [False, True])
def test_trouble_of_a_handlers_own_is_counted(
    ow: Onceward, error: Exception, takes_tx: bool
) -> None:
    """Its second database or another lease is not ours: the message fails, and has an end."""
    app, (handle, seen) = App(ow), failing(error)

    def handle_tx(message: Message, tx: Transaction) -> None:
        tx.execute("select 1")
        handle(message)

    handler: Any = handle_tx if takes_tx else handle
    app.consumer("numbers", source=ListSource(1, 2), retry=FixedDelays(seconds=()))(handler)
    drain(app)
    assert seen == [2]
    assert [letter.error_type for letter in ow.dead.list()] == [type(error).__name__]


@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
def test_trouble_of_our_own_transaction_is_not_counted(ow: Onceward) -> None:
    """A connection that is lost in the middle of a handler does not count as an attempt."""
    app, tries = App(ow), []

    @app.consumer("numbers", source=ListSource(1))
    def handle(message: Message, tx: Transaction) -> None:
        ((pid,),) = tx.execute("select pg_backend_pid()")
        tries.append(message.attempt)
        if len(tries) == 1:
            with ow.store.connector()() as other:  # type: ignore[attr-defined]
                other.execute("select pg_terminate_backend(%s, 5000)", [pid])
            tx.execute("select 1")

    assert drain(app).unfinished == ()
    assert tries == [1, 1]


@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_a_busy_store_is_not_counted(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program that locks the file does not count as an attempt."""
    monkeypatch.setattr("onceward.stores.sqlite.connection.BUSY_SECONDS", 0.02)
    path = ow.store.path  # type: ignore[attr-defined]  # SQLite's
    # A heartbeat may be writing just then: it waits, for as long as `sqlite3` does by default.
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    app, tries = App(ow), []
    with ow.transaction() as tx:
        tx.execute("create table written (n integer)")

    @app.consumer("numbers", source=ListSource(1), retry=FixedDelays(seconds=()))
    def handle(message: Message, tx: Transaction) -> None:
        tries.append(message.attempt)
        if len(tries) == 1:
            other.execute("begin immediate")
        try:
            tx.execute("insert into written values (1)")
        finally:
            if len(tries) == 1:
                other.execute("rollback")

    assert drain(app).unfinished == ()
    other.close()
    assert (tries, ow.dead.list()) == ([1, 1], [])


# --- messages that cannot be kept ----------------------------------------------------------------


def test_whole_numbers_are_keys_and_keep_their_order(ow: Onceward, ow_time: MovingTime) -> None:
    """A key of 7 is the key "7": the second message waits for the first."""
    app, seen, broken = App(ow), [], [True]
    source = ListSource({"k": 7, "n": 1}, {"k": 7, "n": 2})

    @app.consumer("numbers", source=source, order="key", key=lambda data: data["k"])
    def handle(message: Message) -> None:
        if broken[0] and message.data["n"] == 1:
            raise ValueError(message.key)
        seen.append((message.data["n"], message.key))

    drain(app)
    assert seen == []
    broken[0] = False
    ow_time.advance(seconds=61)
    drain(app)
    assert seen == [(1, "7"), (2, "7")]


@pytest.mark.parametrize("key", ["", "a\x00b", "\ud800", "k" * 1001, 1.5, True, ["a"]])
def test_a_key_that_cannot_be_kept_makes_a_dead_letter(ow: Onceward, key: Any) -> None:
    """Like bytes that cannot be decoded: the cursor goes on."""
    app, seen = App(ow), []
    keys = {1: key, 2: "b"}

    @app.consumer("numbers", source=ListSource(1, 2), order="key", key=lambda data: keys[data])
    def handle(message: Message) -> None:
        seen.append(message.data)

    drain(app)
    assert seen == [2]
    (letter,) = ow.dead.list()
    assert (letter.position, letter.error_type) == ("1", "InvalidArgument")


def test_a_failure_that_cannot_be_recorded_is_logged_and_waits(
    ow: Onceward, caplog: pytest.LogCaptureFixture
) -> None:
    """A schedule that raises does not make a worker try without a pause."""
    app, tries = App(ow), []

    class Broken:
        def delay(self, attempt: int, _: object) -> float | None:
            raise KeyError(attempt)

    @app.consumer("numbers", source=ListSource(1), retry=Broken(), poll_seconds=0.01)
    def handle(message: Message) -> None:
        tries.append(message.attempt)
        raise ValueError

    with at_work(app):
        until(lambda: "failure not recorded" in caplog.text)
        time.sleep(0.2)
    assert tries == [1]
    assert readers.NOT_RECORDED_SECONDS >= 10


@pytest.mark.parametrize("order", ["cursor", "key"])
def test_what_is_set_aside_holds_its_cursor_no_longer(
    ow: Onceward, ow_time: MovingTime, order: Any
) -> None:
    """A failing message that a new version cannot decode leaves no attempts."""
    first, second, source = App(ow), App(ow), ListSource(1)

    @first.consumer("numbers", source=source)
    def handle(_: Message) -> None:
        raise ValueError

    drain(first)
    assert ow.retries.attempts.positions("numbers") == {"1"}

    def decode(raw: bytes) -> object:
        raise ValueError(raw)

    key: Any = (lambda data: data) if order == "key" else None
    second.consumer("numbers", source=source, decode=decode, order=order, key=key)(handle)
    ow_time.advance(seconds=61)
    drain(second)
    assert ow.retries.attempts.positions("numbers") == frozenset()
    assert len(ow.dead.list()) == 1
