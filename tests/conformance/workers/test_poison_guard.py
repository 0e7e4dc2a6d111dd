"""Notes about messages that begin: they end with what became of the message, or not at all."""

from __future__ import annotations

import threading

import pytest

from onceward.client import Onceward
from onceward.testing.moving_time import MovingTime
from onceward.workers import App, Message, Worker
from onceward.workers.poison_guard import PoisonGuard
from tests.support.list_source import ListSource
from tests.support.running_worker import PATIENCE_SECONDS, drain


def test_a_note_whose_end_was_undone_can_still_be_struck_out(ow: Onceward) -> None:
    """Otherwise a later worker would take it for a death, and count it against the message."""
    lease = ow.cursors.acquire("c", worker="w")
    assert lease is not None
    begun = PoisonGuard(ow, lease)
    begun.note_start("1", "handling")
    with pytest.raises(ZeroDivisionError), ow.transaction() as tx:
        begun.remove_note("1", tx)
        raise ZeroDivisionError
    assert ow.retries.attempts.positions("~begun/c") == {"1"}
    begun.remove_note("1")
    assert ow.retries.attempts.positions("~begun/c") == frozenset()


def test_after_three_deaths_at_one_place_each_message_is_noted(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """Not before: a note costs a commit. A checkpoint in between ends the suspicion."""
    seen = []
    for number in range(6):
        lease = ow.cursors.acquire("c", worker=f"w{number}", lease_seconds=60.0)
        assert lease is not None
        begun = PoisonGuard(ow, lease)
        seen.append((begun.has_deaths, begun.has_deaths_here))
        if number == 3:
            lease.checkpoint("1")
        ow_time.advance(seconds=61)
    alive, deadly, elsewhere = (False, False), (True, True), (True, False)
    assert seen == [alive, alive, alive, deadly, elsewhere, elsewhere]


def test_a_worker_that_gives_its_cursor_back_strikes_its_notes(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """It ends while a handler still runs: that is no death, and costs the message no attempt."""
    lease = ow.cursors.acquire("c", worker="killed", lease_seconds=1.0)
    assert lease is not None
    # Of a later message: until then each one is noted.
    PoisonGuard(ow, lease).note_start("2", "handling")
    ow_time.advance(seconds=2)
    begins, ends, seen = threading.Event(), threading.Event(), list[tuple[str, int]]()
    at_work: list[threading.Thread] = []
    app = App(ow)

    @app.consumer("c", source=ListSource("a"))
    def handle(message: Message) -> None:
        seen.append((message.position, message.attempt))
        at_work.append(threading.current_thread())
        begins.set()
        assert ends.wait(PATIENCE_SECONDS)

    worker = Worker(app, threads=1, stop_seconds=0.0)
    running = threading.Thread(target=worker.run)
    running.start()
    try:
        assert begins.wait(PATIENCE_SECONDS)
        assert ow.retries.attempts.positions("~begun/c") == {"1", "2"}
        worker.stop()
        running.join(PATIENCE_SECONDS)
        assert ow.retries.attempts.positions("~begun/c") == {"2"}
    finally:
        ends.set()
    at_work[0].join(PATIENCE_SECONDS)
    drain(app)
    assert seen == [("1", 1)] * 2
