"""Discovery: a worker finds every cursor, whatever is wrong with one."""

from __future__ import annotations

import itertools
import time

import pytest

from onceward.client import Onceward
from onceward.retries import FixedDelays
from onceward.testing.moving_time import MovingTime
from onceward.workers import App, Item, Message, Worker
from onceward.workers.cursor_reader import (
    BACKOFF_SECONDS_MAX,
    BACKOFF_SECONDS_MIN,
    CursorReader,
    PollResult,
)
from onceward.workers.worker import JITTER
from tests.support.list_source import ListPartitions, ListSource
from tests.support.running_worker import at_work
from tests.support.waiting import until


@pytest.mark.parametrize("has_source", [True, False])
def test_what_is_parked_is_tried_though_its_partition_has_no_rows_any_more(
    ow: Onceward, ow_time: MovingTime, has_source: bool
) -> None:
    """The rows were passed and pruned; a worker that starts then finds it by what is due."""
    app, seen, is_broken = App(ow), [], True
    source = ListPartitions(a=[1], b=[2])

    @app.consumer("niche_{id}", source=source, order="none", retry=FixedDelays(seconds=(60.0,)))
    def handle(message: Message) -> None:
        if is_broken and message.data == 1:
            raise ValueError
        seen.append((message.data, message.partition))

    Worker(app).run(once=True)
    assert seen == [(2, "b")]
    is_broken = False
    ow_time.advance(seconds=61)
    if has_source:
        source.active = lambda marker: type(source).active(ListPartitions(), marker)  # type: ignore[method-assign]
    else:
        del source.lists["a"]
    Worker(app).run(once=True)
    assert seen == [(2, "b"), (1, "a")]
    assert ow.retries.parked.due_cursors() == []


def test_a_redriven_letter_of_such_a_partition_is_tried_too(ow: Onceward) -> None:
    """An operator fixed the cause after the rows were pruned."""
    app, seen, is_broken = App(ow), [], True
    source = ListPartitions(a=[1])

    @app.consumer("niche_{id}", source=source, order="none", retry=FixedDelays(seconds=()))
    def handle(message: Message) -> None:
        if is_broken:
            raise ValueError
        seen.append(message.data)

    Worker(app).run(once=True)
    is_broken = False
    source.lists["a"] = []
    with at_work(app):
        (letter,) = ow.dead.list()
        ow.dead.redrive(letter.id, actor="me")
        until(lambda: seen == [1])


def test_one_partition_that_cannot_be_worked_stops_no_other(
    ow: Onceward, caplog: pytest.LogCaptureFixture
) -> None:
    """Its group raises: the rest of the search goes on, and it is tried again."""
    app, seen, is_broken = App(ow), [], True

    def group(partition: str) -> str:
        if is_broken and partition == "bad":
            raise KeyError(partition)
        return partition

    source, other = ListPartitions(bad=[1], late=[2]), ListPartitions(z=[3])
    for name, each in (("niche_{id}", source), ("zebra_{id}", other)):
        app.consumer(name, source=each, group=group, max_in_flight_per_group=1, poll_seconds=0.02)(
            lambda message: seen.append(message.data)
        )
    with at_work(app):
        until(lambda: sorted(seen) == [2, 3])
        source.lists["later"] = [4]
        other.lists["z"].append(5)
        until(lambda: sorted(seen) == [2, 3, 4, 5])
        is_broken = False
        until(lambda: sorted(seen) == [1, 2, 3, 4, 5])
    assert len([each for each in caplog.records if "refused" in each.getMessage()]) == 1


@pytest.mark.parametrize("is_plain_first", [True, False])
def test_two_consumers_never_share_a_cursor(
    ow: Onceward, caplog: pytest.LogCaptureFixture, is_plain_first: bool
) -> None:
    """The consumer of this very name keeps it; the partition is refused and logged."""
    app, seen = App(ow), []

    def plain() -> None:
        app.consumer("orders_all", source=ListSource(100))(lambda m: seen.append(m.data))

    def parted() -> None:
        source = ListPartitions(eu=[1], all=[2])
        app.consumer("orders_{region}", source=source)(lambda m: seen.append(m.data))

    for declare in (plain, parted) if is_plain_first else (parted, plain):
        declare()
    worked = Worker(app).run(once=True)
    assert sorted(seen) == [1, 100]
    assert worked.unfinished == ("orders_all",)
    (logged,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert "orders_{region}" in logged.getMessage()


def test_the_pattern_that_says_more_has_the_cursor(ow: Onceward) -> None:
    """Which one that is does not depend on what was found first."""
    app, seen = App(ow), []
    for name, source in (
        ("orders_{region}", ListPartitions(eu=[1], a_paid=[2])),
        ("orders_{region}_paid", ListPartitions(a=[3])),
    ):
        app.consumer(name, source=source)(lambda m: seen.append(m.data))
    assert Worker(app).run(once=True).unfinished == ("orders_a_paid",)
    assert sorted(seen) == [1, 3]


def test_two_workers_of_one_handle_take_nothing_from_each_other(ow: Onceward) -> None:
    """Each has a name of its own: a lease is a lease in one process too."""
    apps, seen, source = (App(ow), App(ow)), [], ListSource(*range(60))
    for app in apps:

        @app.consumer("numbers", source=source, poll_seconds=0.01)
        def handle(message: Message) -> None:
            time.sleep(0.005)
            seen.append(message.data)

    with at_work(apps[0]), at_work(apps[1]):
        until(lambda: ow.cursors.list("numbers") and ow.cursors.show("numbers").position == "60")
    assert seen == list(range(60))


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, MemoryError])
def test_no_error_at_all_keeps_a_cursor(
    ow: Onceward,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
) -> None:
    """It is given back and tried again, by a thread that still lives, and the log knows."""
    app, seen = App(ow), []
    turns: list[None] = []
    app.consumer("numbers", source=ListSource(1), poll_seconds=0.02)(
        lambda message: seen.append(message.data)
    )
    turn = CursorReader.poll

    def crashing(self: CursorReader) -> PollResult:
        turns.append(None)
        if len(turns) == 1:
            raise error
        return turn(self)

    monkeypatch.setattr(CursorReader, "poll", crashing)
    monkeypatch.setattr("onceward.workers.worker.BACKOFF_SECONDS_MAX", 0.05)
    # A machine that has much else to do may take longer to try again.
    monkeypatch.setattr("onceward.workers.worker.TROUBLE_GRACE_SECONDS", 3600.0)
    assert Worker(app, threads=1).run(once=True).unfinished == ()
    assert seen == [1]
    (logged,) = [each for each in caplog.records if each.levelname == "CRITICAL"]
    assert "numbers" in logged.getMessage()


def test_cursors_in_trouble_do_not_wake_each_other(ow: Onceward) -> None:
    """Each comes back ever later, however many others are in trouble or at work."""
    app, reads = App(ow), dict[str, list[float]](a=[], b=[])
    handled: list[Message] = []

    class Away:
        def __init__(self, name: str) -> None:
            self.name = name

        def read(self, _after: str | None, _limit: int) -> list[Item]:
            reads[self.name].append(time.monotonic())
            raise OSError(self.name)

    def handle(message: Message) -> None:
        handled.append(message)

    for name in reads:
        app.consumer(name, source=Away(name), poll_seconds=0.01)(handle)
    busy = ListSource(*range(100))
    app.consumer("busy", source=busy, poll_seconds=0.01)(handle)

    def have_come_back() -> bool:
        busy.values.append(0)
        return min(map(len, reads.values())) >= 4 and len(handled) > 100

    with at_work(app):
        until(have_come_back)
    # Gaps and not reads per second: a slow machine makes them longer, never shorter. The first may
    # be short: until its first turn is over, no cursor is known to be in trouble.
    for times in reads.values():
        gaps = [after - before for before, after in itertools.pairwise(times)]
        for number, gap in enumerate(gaps[1:], 2):
            pause = min(BACKOFF_SECONDS_MIN * 2**number, BACKOFF_SECONDS_MAX)
            assert gap > 0.99 * (1 - JITTER) * pause, gaps
