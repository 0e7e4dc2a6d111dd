"""Runs that are to end: they end, when everything is done that can be, and say what is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from onceward.client import Onceward
from onceward.errors import InvalidArgument, StoreUnavailable
from onceward.retries import FixedDelays
from onceward.testing.moving_time import MovingTime
from onceward.workers import ActivePartitions, App, Item, Message, Worker, WorkerResult, worker
from onceward.workers.cursor_reader import CursorReader, PollResult
from tests.support.list_source import ListPartitions, ListSource

SECONDS_MAX = 60.0


def once(app: App) -> WorkerResult:
    """Run in a thread, so that a run without an end fails its test."""
    found: list[WorkerResult] = []
    one = Worker(app, threads=2)
    thread = threading.Thread(target=lambda: found.append(one.run(once=True)), daemon=True)
    thread.start()
    thread.join(SECONDS_MAX)
    one.stop()
    assert found, "it never ended"
    return found[0]


def test_a_paused_cursor_with_something_due_is_left(ow: Onceward, ow_time: MovingTime) -> None:
    """It is woken by what is due, and cannot be had: that is no reason to go on for ever."""
    app = App(ow)

    @app.consumer(
        "numbers", source=ListSource(1, 2), order="none", retry=FixedDelays(seconds=(60.0,))
    )
    def handle(message: Message) -> None:
        if message.data == 1:
            raise ValueError

    assert once(app).states == {"numbers": "waiting"}
    ow.cursors.pause("numbers")
    ow_time.advance(seconds=61)
    worked = once(app)
    assert worked.unfinished == ("numbers",)
    assert worked.states == {"numbers": "elsewhere"}


def test_a_source_that_always_fails_is_left(ow: Onceward) -> None:
    """After some patience, and the others are done."""

    class Broken:
        def read(self, after: str | None, limit: int) -> Sequence[Item]:
            raise RuntimeError(after, limit)

    app, seen = App(ow), []
    app.consumer("broken", source=Broken())(lambda _: None)
    app.consumer("numbers", source=ListSource(1))(lambda message: seen.append(message.data))
    assert once(app).unfinished == ("broken",)
    assert seen == [1]


def test_partitions_that_cannot_be_searched_are_left(ow: Onceward) -> None:
    """A search that fails for good does not keep a run alive, one that fails at times does."""

    class Broken(ListPartitions):
        asked, is_well_at = 0, 1_000_000

        def active(self, marker: str | None) -> ActivePartitions:
            self.asked += 1
            if 1 < self.asked < self.is_well_at:
                raise StoreUnavailable
            return super().active(marker)

    app, source, seen = App(ow), Broken(a=[1]), []
    app.consumer("niche_{id}", source=source)(lambda message: seen.append(message.data))
    assert once(app).unfinished == ("niche_{id}",)
    source.asked, source.is_well_at = 0, 4
    source.lists["b"] = [2]
    assert once(app).unfinished == ()
    assert seen == [1, 2]


def test_a_partition_whose_name_no_cursor_can_have_is_left(
    ow: Onceward, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once, and the others are worked."""
    app, seen, long = App(ow), [], "x" * 300
    source = ListPartitions(a=[1], b=[3])
    source.lists[long] = [2]
    app.consumer("niche_{id}", source=source)(lambda message: seen.append(message.data))
    assert once(app).unfinished == (f"niche_{long}",)
    assert sorted(seen) == [1, 3]
    assert [each.levelname for each in caplog.records if "refused" in each.getMessage()] == [
        "ERROR"
    ]


def test_a_limit_of_none_at_all_is_refused(ow: Onceward) -> None:
    """No worker could ever run: that is an error when it is declared or when it is found."""
    app, source = App(ow), ListPartitions(a=[1], b=[2])
    with pytest.raises(InvalidArgument, match="max_in_flight_per_group"):
        app.consumer("niche_{id}", source=source, max_in_flight_per_group=0)
    app.consumer("niche_{id}", source=source, max_in_flight_per_group=lambda g: int(g == "b"))(
        lambda _: None
    )
    assert once(app).unfinished == ("niche_a",)


def test_a_store_that_is_away_for_a_moment_ends_nothing(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is asked for at that moment is asked for again."""
    app, seen = App(ow), []
    asked: list[None] = []
    due_cursors = ow.retries.parked.due_cursors

    def away() -> object:
        asked.append(None)
        if len(asked) in (1, 2):
            raise StoreUnavailable
        return due_cursors()

    monkeypatch.setattr(ow.retries.parked, "due_cursors", away)
    app.consumer("numbers", source=ListSource(1))(lambda message: seen.append(message.data))
    assert once(app).unfinished == ()
    assert seen == [1]


def test_a_run_that_fails_leaves_no_thread_and_no_lease(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens to its main thread, others can take over at once."""
    app, seen = App(ow), threading.Event()
    app.consumer("numbers", source=ListSource(1), lease_seconds=60)(lambda _: seen.set())
    one = Worker(app)

    def look(*_: object, **__: object) -> bool:
        assert seen.wait(SECONDS_MAX)
        raise KeyboardInterrupt

    monkeypatch.setattr(one, "_find_work", look)
    with pytest.raises(KeyboardInterrupt):
        one.run()
    targets = [getattr(each, "_target", None) for each in threading.enumerate()]
    assert one._run_thread not in targets
    assert not ow.cursors.show("numbers").is_held


def test_a_cursor_that_is_woken_while_it_looks_is_looked_at_again(ow: Onceward) -> None:
    """B found nothing, slowly; meanwhile A wrote for it: the run does not end before B reads it."""
    app, values, seen = App(ow), ListSource(), []
    looked, may_answer = threading.Event(), threading.Event()

    class Slow:
        def read(self, after: str | None, limit: int) -> Sequence[Item]:
            found = values.read(after, limit)
            if not looked.is_set():
                looked.set()
                may_answer.wait(SECONDS_MAX)
            return found

    @app.consumer("a", source=ListSource(1))
    def a(_: Message) -> None:
        looked.wait(SECONDS_MAX)
        values.values.extend(range(20))

    app.consumer("b", source=Slow())(lambda message: seen.append(message.data))
    one = Worker(app, threads=2)
    note = one._record_result

    def noted(reader: CursorReader, result: PollResult) -> None:
        note(reader, result)
        if reader.name == "a" and result.messages:
            may_answer.set()

    one._record_result = noted  # type: ignore[method-assign]
    assert one.run(once=True).unfinished == ()
    assert len(seen) == 20


def test_what_was_written_before_a_trouble_is_read(ow: Onceward) -> None:
    """A writes for B, then its source fails: B hears of it all the same."""
    app, values, seen, asked = App(ow), ListSource(), [], []
    looked = threading.Event()

    class Failing(ListSource):
        def read(self, after: str | None, limit: int) -> Sequence[Item]:
            asked.append(after)
            if len(asked) == 2:
                raise ConnectionError
            return super().read(after, limit)

    class Looking:
        def read(self, after: str | None, limit: int) -> Sequence[Item]:
            found = values.read(after, limit)
            looked.set()
            return found

    @app.consumer("a", source=Failing(1, 2, 3))
    def a(message: Message) -> None:
        assert looked.wait(SECONDS_MAX)
        time.sleep(0.02)
        values.values.append(message.data)

    app.consumer("b", source=Looking())(lambda message: seen.append(message.data))
    assert once(app).unfinished == ()
    assert seen == [1, 2, 3]


def test_the_pause_after_a_trouble_is_not_the_end(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cursor whose trouble may pass is waited for."""
    monkeypatch.setattr(worker, "WAKE_BATCH_SECONDS_MIN", 0.001)
    app, asked, seen = App(ow), [], []

    class Failing(ListSource):
        def read(self, after: str | None, limit: int) -> Sequence[Item]:
            asked.append(after)
            if len(asked) <= 2:
                raise ConnectionError
            return super().read(after, limit)

    app.consumer("a", source=Failing(1))(lambda message: seen.append(message.data))
    assert once(app).unfinished == ()
    assert seen == [1]
