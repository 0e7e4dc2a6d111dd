"""Poll cycles of workers: after deaths, over parked messages, and ended by a stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import orjson
import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.retries import FixedDelays
from onceward.stores import Transaction
from onceward.system import crash_points
from onceward.testing.moving_time import MovingTime
from onceward.workers import App, Message, Reject
from onceward.workers.poison_guard import PoisonGuard
from tests.support.list_source import ListPartitions, ListSource
from tests.support.running_worker import at_work, drain
from tests.support.waiting import until


def die_idle(ow: Onceward, ow_time: MovingTime, times: int = 4) -> None:
    """Let one worker after another take the cursor and die without having done anything."""
    for number in range(times):
        assert ow.cursors.acquire("numbers", f"dead{number}", 1.0) is not None
        ow_time.advance(seconds=2)


@pytest.mark.parametrize("batch", [None, 3])
def test_idle_deaths_blame_no_message(ow: Onceward, ow_time: MovingTime, batch: int | None) -> None:
    """What arrives after one worker after another died runs, even without any retry."""
    app, seen, source = App(ow), list[int](), ListSource()
    die_idle(ow, ow_time)
    source.values.extend([1, 2, 3])

    @app.consumer("numbers", source=source, retry=FixedDelays(seconds=()), batch=batch)
    def handle(messages: Any) -> None:
        seen.extend(each.data for each in (messages if batch else [messages]))

    drain(app)
    assert seen == [1, 2, 3]
    assert ow.dead.list() == []


@pytest.mark.parametrize("order", ["cursor", "none"])
def test_a_failure_after_deaths_is_recorded_as_it_is(
    ow: Onceward, ow_time: MovingTime, order: Any
) -> None:
    """Its own error, its own attempts, its own schedule; a Reject is one at once."""
    app, tries = App(ow), []
    die_idle(ow, ow_time)

    @app.consumer(
        "numbers", source=ListSource(1, 2), order=order, retry=FixedDelays(seconds=(10.0,))
    )
    def handle(message: Message) -> None:
        tries.append((message.data, message.attempt))
        if message.data == 2:
            raise Reject(message.data)
        raise ValueError(message.data)

    drain(app)
    ow_time.advance(seconds=10.1)
    drain(app)
    assert sorted(tries) == [(1, 1), (1, 2), (2, 1)]
    kinds = {letter.position: (letter.error_type, letter.attempts) for letter in ow.dead.list()}
    assert kinds == {"1": ("ValueError", 2), "2": ("Reject", 1)}
    assert ow.retries.attempts.positions("~begun/numbers") == frozenset()


@pytest.mark.parametrize("stage", ["decoding", "handling"])
@pytest.mark.parametrize("order", ["cursor", "key", "none"])
def test_h21_what_a_worker_died_of_is_counted_by_the_next(
    ow: Onceward, ow_time: MovingTime, order: Any, stage: Any
) -> None:
    """New or parked: a run that never ended was an attempt, and the last one is the last."""
    app, seen, broken = App(ow), [], [True]
    key: Any = (lambda _: "a") if order == "key" else None

    @app.consumer(
        "numbers",
        source=ListSource(1),
        order=order,
        key=key,
        retry=FixedDelays(seconds=(10.0, 10.0)),
    )
    def handle(message: Message) -> None:
        seen.append(message.attempt)
        if broken[0]:
            raise ValueError

    drain(app)
    ow_time.advance(seconds=10.1)
    for number in range(2):
        lease = ow.cursors.acquire("numbers", f"killed{number}", 1.0)
        assert lease is not None
        PoisonGuard(ow, lease).note_start("1", stage)
        ow_time.advance(seconds=11)
        drain(app)
        ow_time.advance(seconds=10.1)
    (letter,) = ow.dead.list()
    assert (letter.error_type, letter.attempts) == ("WorkerDied", 3)
    assert seen == [1], "a poison message is not run again"
    assert ow.retries.attempts.positions("~begun/numbers") == frozenset()


# --- turns ---------------------------------------------------------------------------------------


def test_parked_messages_do_not_keep_others_waiting(ow: Onceward, ow_time: MovingTime) -> None:
    """Neither new messages of their cursor nor other cursors starve because of them."""
    app, other, broken = App(ow), list[tuple[str, int]](), [True]
    retried: list[int] = []
    source, others = ListSource(*range(60)), ListSource()

    @app.consumer("numbers", source=source, order="none")
    def handle(message: Message) -> None:
        if broken[0]:
            raise ValueError
        if message.attempt == 1:
            other.append(("new", len(retried)))
        else:
            if not retried:
                others.values.append(1)
            time.sleep(0.1)
            retried.append(message.data)

    drain(app)
    broken[0] = False
    ow_time.advance(seconds=61)
    source.values.append(60)
    app.consumer("others", source=others, poll_seconds=0.05)(
        lambda _: other.append(("other", len(retried)))
    )
    with at_work(app, threads=1):
        until(lambda: len(other) == 2)
    assert {kind for kind, _ in other} == {"new", "other"}
    assert all(after < 30 for _, after in other), other


def test_a_stop_does_not_wait_for_a_batch_taken_singly(ow: Onceward) -> None:
    """Between two of its messages it ends."""
    app, seen = App(ow), []

    @app.consumer("numbers", source=ListSource(*range(200)), batch=200)
    def handle(messages: list[Message]) -> None:
        if len(messages) > 1:
            raise ValueError
        time.sleep(0.02)
        seen.append(messages[0].data)

    with at_work(app) as worker:
        until(lambda: len(seen) > 2)
        worker.stop()
        before = len(seen)
    assert len(seen) <= before + 2


def test_a_batch_taken_singly_is_decoded_again(ow: Onceward) -> None:
    """What a handler did to the data of a batch that failed is not seen again."""
    app, seen = App(ow), []

    @app.consumer("numbers", source=ListSource({"n": 1}, {"n": 2}), batch=2)
    def handle(messages: list[Message]) -> None:
        seen.append([message.data.pop("n") for message in messages])
        if len(messages) > 1:
            raise ValueError

    drain(app)
    assert seen == [[1, 2], [1], [2]]


@pytest.mark.parametrize("order", ["key", "none"])
def test_what_was_parked_in_the_last_turn_is_left(ow: Onceward, order: Any) -> None:
    """A run that leaves messages waiting says so."""
    app = App(ow)
    key: Any = (lambda _: "a") if order == "key" else None

    @app.consumer("numbers", source=ListSource(1, 2), order=order, key=key)
    def handle(_: Message) -> None:
        raise ValueError

    assert drain(app).unfinished == ("numbers",)


def test_messages_before_a_trouble_are_counted(ow: Onceward) -> None:
    """A source that fails in the middle of a turn hides none of what was done."""
    app, seen = App(ow), []

    class Once(ListSource):
        reads = 0

        def read(self, after: str | None, limit: int) -> Any:
            self.reads += 1
            if self.reads == 2:
                raise ConnectionError
            return super().read(after, limit)

    app.consumer("numbers", source=Once(1, 2, 3))(lambda message: seen.append(message.data))
    assert (drain(app).messages, seen) == (3, [1, 2, 3])


def test_a_waiting_partition_is_not_taken_at_every_poll(ow: Onceward) -> None:
    """It is let go until its message is due."""
    app, tries = App(ow), []

    @app.consumer("niche_{id}", source=ListPartitions(a=[1]), poll_seconds=0.02)
    def handle(message: Message) -> None:
        tries.append(message.attempt)
        raise ValueError

    with at_work(app):
        until(lambda: tries)
        time.sleep(0.5)
    assert ow.cursors.show("niche_a").epoch <= 3


def test_decode_may_exit(ow: Onceward) -> None:
    """A decoder that wants to end the process makes a dead letter, like any that raises."""
    app, seen = App(ow), []

    def decode(raw: bytes) -> object:
        if raw == b"1":
            raise SystemExit(1)
        return orjson.loads(raw)

    app.consumer("numbers", source=ListSource(1, 2), decode=decode)(lambda m: seen.append(m.data))
    drain(app)
    assert (seen, [letter.error_type for letter in ow.dead.list()]) == ([2], ["SystemExit"])


@contextmanager
def watched(look: Callable[[str], None]) -> Iterator[None]:
    """Look around at every crash point; what the look itself passes is not looked at."""
    is_looking = False

    def passed(point: str) -> None:
        nonlocal is_looking
        if not is_looking:
            is_looking = True
            look(point)
            is_looking = False

    crash_points.watch(passed)
    try:
        yield
    finally:
        crash_points.watch(None)


@pytest.mark.parametrize(
    "waiting", [{"order": "key", "key": lambda data: data["k"]}, {"order": "none"}]
)
def test_the_cursor_passes_a_failed_message_when_it_is_parked(
    ow: Onceward, ow_url: str, waiting: dict[str, Any]
) -> None:
    """A reader between the two sees neither: a death there loses nothing."""
    app, seen = App(ow), []

    @app.consumer("numbers", source=ListSource({"k": "a"}), **waiting)
    def handle(message: Message) -> None:
        raise ValueError(message.position)

    with closing(open_handle(ow_url)) as other:

        def look(point: str) -> None:
            if point == "retries.park.after_insert":
                seen.append(other.cursors.show("numbers").position)

        with watched(look):
            drain(app, threads=1)
    assert seen == [None]
    assert ow.cursors.show("numbers").position == "1"


def test_the_cursor_moves_in_the_commit_of_the_effects(ow: Onceward, ow_url: str) -> None:
    """After any commit a reader sees as many effects as messages that the cursor has passed."""
    app, seen = App(ow), []
    with ow.transaction() as tx:
        tx.execute("create table effects (n bigint)")

    @app.consumer("numbers", source=ListSource(1, 2))
    def handle(message: Message, tx: Transaction) -> None:
        tx.execute("insert into effects values (?)", [message.data])

    with closing(open_handle(ow_url)) as other:

        def look(point: str) -> None:
            if point == "transaction.after_commit":
                with other.transaction() as tx:
                    ((effects,),) = tx.execute("select count(*) from effects")
                seen.append((effects, int(other.cursors.show("numbers").position or 0)))

        with watched(look):
            drain(app, threads=1)
    assert {(1, 1), (2, 2)} <= set(seen)
    assert all(effects == passed for effects, passed in seen)
