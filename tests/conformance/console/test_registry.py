"""The registry: which workers there are, which fell silent, and which ended as they should."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from onceward.client import Onceward
from onceward.testing.moving_time import MovingTime
from onceward.version import __version__
from onceward.workers import App, Message, worker_registry
from onceward.workers.models import Consumer
from onceward.workers.pruning import Pruner
from onceward.workers.worker_registry import (
    CONSUMERS_MAX,
    HEARTBEAT_SECONDS,
    WorkerRegistration,
    list_workers,
)
from tests.support.list_source import ListSource
from tests.support.running_worker import PATIENCE_SECONDS, at_work, drain
from tests.support.waiting import until


def consumers(count: int = 1) -> tuple[Consumer, ...]:
    app = App("sqlite:///nowhere.db")
    for number in range(count):
        app.consumer(f"c{number}", source=ListSource(), lease_seconds=30)(lambda _: None)
    return app.consumers


def entry(ow: Onceward, worker: str = "w", count: int = 1) -> WorkerRegistration:
    return WorkerRegistration(ow, worker, consumers(count))


def test_a_worker_says_what_it_is(ow: Onceward) -> None:
    """Its host, its process, its version and what it consumes, under the name its leases have."""
    entry(ow).send_heartbeat()
    (found,) = list_workers(ow.store)
    assert (found.worker, found.host, found.pid) == ("w", socket.gethostname(), os.getpid())
    assert found.version == __version__
    assert found.consumers == ({"name": "c0", "lease_seconds": 30},)
    assert found.started_at == found.seen_at
    assert found.stopped_at is None
    assert not found.is_silent


def test_a_worker_that_beats_is_not_silent(ow: Onceward, ow_time: MovingTime) -> None:
    """One that does not is, after three beats; a beat later it is there again."""
    registry = entry(ow)
    registry.send_heartbeat()
    ow_time.advance(seconds=2 * HEARTBEAT_SECONDS)
    assert not list_workers(ow.store)[0].is_silent
    ow_time.advance(seconds=2 * HEARTBEAT_SECONDS)
    (found,) = list_workers(ow.store)
    assert found.is_silent
    assert found.seen_seconds_ago == pytest.approx(4 * HEARTBEAT_SECONDS, abs=3)
    registry.send_heartbeat()
    (found,) = list_workers(ow.store)
    assert not found.is_silent
    assert found.started_at < found.seen_at


def test_a_worker_that_ended_is_not_silent(ow: Onceward, ow_time: MovingTime) -> None:
    """It reported its end, so it is not shown as missing."""
    registry = entry(ow)
    registry.send_heartbeat()
    registry.stop()
    ow_time.advance(seconds=100)
    (found,) = list_workers(ow.store)
    assert found.stopped_at is not None
    assert not found.is_silent


def test_who_never_said_that_it_lives_does_not_say_that_it_ended(ow: Onceward) -> None:
    """An end before the first beat leaves nothing."""
    entry(ow).stop()
    assert list_workers(ow.store) == ()


def test_the_latest_come_first_and_consumers_have_a_limit(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """The worker seen last is listed first; the number of consumers it names is limited."""
    entry(ow, "early").send_heartbeat()
    ow_time.advance(seconds=1)
    entry(ow, "late", CONSUMERS_MAX + 1).send_heartbeat()
    found = list_workers(ow.store)
    assert [each.worker for each in found] == ["late", "early"]
    assert len(found[0].consumers) == CONSUMERS_MAX
    assert len(list_workers(ow.store, limit=1)) == 1


def test_a_running_worker_is_registered_under_the_name_of_its_leases(ow: Onceward) -> None:
    """It is registered while it works; when it is asked to stop, that is recorded too."""
    app = App(ow)

    @app.consumer("c", source=ListSource(1), poll_seconds=0.05)
    def handle(message: Message) -> None: ...

    with at_work(app):
        until(lambda: list_workers(ow.store) and ow.cursors.list())
        (found,) = list_workers(ow.store)
        until(lambda: ow.cursors.show("c").lease_owner == found.worker)
        assert found.stopped_at is None
    (found,) = list_workers(ow.store)
    assert found.stopped_at is not None


def test_two_workers_of_one_process_are_two(ow: Onceward) -> None:
    """Each run has a name of its own, and so a row."""
    app = App(ow)

    @app.consumer("c", source=ListSource(1))
    def handle(message: Message) -> None: ...

    drain(app)
    drain(app)
    found = list_workers(ow.store)
    assert len({each.worker for each in found}) == 2
    assert all(each.stopped_at for each in found)


def test_a_store_without_a_place_for_it_does_not_stop_the_work(ow: Onceward) -> None:
    """The registry is for people; a worker whose beats fail works all the same."""
    with ow.transaction() as tx:
        tx.execute("drop table onceward_workers")
    app, done = App(ow), []

    @app.consumer("c", source=ListSource(1, 2, 3))
    def handle(message: Message) -> None:
        done.append(message.data)

    assert drain(app).is_clean
    assert done == [1, 2, 3]


def test_a_worker_that_prunes_for_long_still_beats(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise others would take it for dead while it tidies up."""
    begins, ends, beats = threading.Event(), threading.Event(), list[str]()
    beat = WorkerRegistration.send_heartbeat

    def prune(_: Pruner) -> int:
        begins.set()
        assert ends.wait(PATIENCE_SECONDS)
        return 0

    def noted(self: WorkerRegistration) -> None:
        beat(self)
        beats.append("beat")

    monkeypatch.setattr(Pruner, "run_if_due", prune)
    monkeypatch.setattr(WorkerRegistration, "send_heartbeat", noted)
    monkeypatch.setattr(worker_registry, "HEARTBEAT_SECONDS", 0.01)
    app = App(ow)
    app.consumer("c", source=ListSource())(lambda _: None)
    with at_work(app):
        try:
            assert begins.wait(PATIENCE_SECONDS)
            before = len(beats)
            until(lambda: len(beats) > before + 2)
        finally:
            ends.set()
