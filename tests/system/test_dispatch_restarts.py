"""Dispatchers with real agents, killed and restarted: nothing is undone or done twice."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onceward.client import open as open_handle
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.models import DeliveryState
from onceward.errors import OncewardError, OutcomeUnknown, StoreUnavailable
from onceward.testing.postgres import PostgresServer
from onceward.testing.zombie import freeze, wake
from tests.support.dispatch_store import (
    PATIENCE_SECONDS,
    World,
    chat,
    is_running,
    lines,
    world,
)
from tests.support.waiting import until

__all__ = ["chat"]

DONE, KEPT = DeliveryState.DONE, DeliveryState.KEPT
ROLLED_BACK, DEAD = DeliveryState.ROLLED_BACK, DeliveryState.DEAD


def test_h39_a_dispatcher_that_dies_leaves_nothing_undone(chat: World) -> None:
    """Its agents are ended, and what had no output yet is handed out again, at once."""
    own, spoken = chat.group(), chat.group("spoken")
    process = chat.life()
    chat.tell("!once wait go; say hello", "1")
    chat.tell("!say half; once wait go; say whole", "1", group="spoken")
    until(lambda: (own / "at-go").exists() and (spoken / "at-go").exists())
    chat.answered("half", group="spoken")
    process.send_signal(signal.SIGKILL)
    process.wait()
    # Its lease holds for an hour more: waiting for its end would take too long.
    assert chat.ow.cursors.acquire("~dispatch", chat.dispatcher.holder, lease_seconds=3600.0)
    chat.start()
    chat.answered("hello")
    for place in (own, spoken):
        assert not is_running(int(lines(place / "at-go")[0]))
    chat.ended(ROLLED_BACK, DONE)
    chat.ended(KEPT, group="spoken")
    chat.tell("and now?", group="spoken")
    chat.answered("half", "and now?", group="spoken")


def test_a_dispatcher_that_stops_well_counts_no_failure(chat: World) -> None:
    """Agents are ended, what they had is handed out by the next one, the lease is free."""
    own = chat.group()
    chat.start()
    chat.tell("!once wait go; say hello", "1")
    until((own / "at-go").exists)
    chat.dispatcher.stop(seconds=60)
    assert not is_running(int(lines(own / "at-go")[0]))
    assert chat.dispatcher.holder is None
    assert not chat.dispatcher.is_held
    assert chat.operators.status_of("team").group.attempts == 0
    chat.start()
    chat.answered("hello")
    assert [each.attempt for each in chat.operators.deliveries("team")] == [1, 1]


def test_of_two_dispatchers_one_works_and_the_other_takes_over(chat: World) -> None:
    """Each message is answered once, whichever holds the store."""
    own = chat.group()
    first = chat.start()
    until(lambda: first.is_held)
    with open_handle(chat.url) as other:
        _two_dispatchers(chat, own, first, chat.start(ow=other))


def _two_dispatchers(chat: World, own: Path, first: Dispatcher, second: Dispatcher) -> None:
    for number in range(5):
        chat.tell(f"m{number}")
    until(lambda: len(chat.replies()) == 5)
    assert first.is_held
    assert not second.is_held
    first.stop(seconds=60)
    chat.tell("last")
    until(lambda: "last" in chat.replies())
    assert second.is_held
    assert chat.replies() == [*(f"m{number}" for number in range(5)), "last"]
    assert sorted(lines(own / "begun")) == sorted(chat.replies())
    second.stop(seconds=60)


@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
def test_a_frozen_dispatcher_that_wakes_up_late_changes_nothing(chat: World) -> None:
    """Another took over when its lease had expired; what its agent says then is not shown."""
    own = chat.group()
    process = chat.life()
    chat.tell("!once wait go; say hello", "1")
    until((own / "at-go").exists)
    freeze(process)
    with chat.ow.transaction() as tx:
        tx.execute(
            "update cursor_positions set lease_expires_at = onceward_now() - interval '1 second'"
            " where cursor_name = '~dispatch'"
        )
    chat.start()
    chat.answered("hello")
    wake(process)
    (own / "go").touch()
    chat.tell("two")
    chat.answered("hello", "two")
    assert chat.dispatcher.is_held
    chat.ended(ROLLED_BACK, DONE, DONE)
    assert process.poll() is None


def test_a_store_that_is_away_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """PostgreSQL dies and comes back: what was said before, meanwhile and after is answered."""
    server = PostgresServer()
    server.start()
    try:
        with world(server.url, tmp_path / "home") as chat:
            own = chat.group()
            chat.group("other")
            chat.start()
            chat.tell("!wait go; say one", "1")
            until((own / "at-go").exists)
            server.kill()
            (own / "go").touch()
            time.sleep(1.5)
            server.start()
            chat.dispatcher.wake()
            until(lambda: shown_again(chat, "two"))
            until(lambda: shown_again(chat, "there", "other"))
            until(lambda: chat.replies()[-1:] == ["two"], lambda: chat.summary("team"))
            chat.answered("there", group="other")
            assert chat.replies() == ["one", "two"]
    finally:
        server.close()


def shown_again(chat: World, text: str, group: str = "team") -> bool:
    """Say something as a channel does: again and again, until it is known to be kept."""
    try:
        chat.tell(text, group=group)
    except OncewardError:
        return False
    return True


def test_a_delivery_whose_start_was_not_acknowledged_is_found(chat: World) -> None:
    """It began, the answer of the store was lost; it is handed out without waiting for news."""
    chat.group()
    dispatcher = chat.made()
    begin = dispatcher.deliveries.begin
    calls: list[int] = []

    def lost(*given: object) -> object:
        calls.append(1)
        found = begin(*given)  # type: ignore[arg-type]
        if len(calls) == 1:
            message = "no answer"
            raise OutcomeUnknown(message)
        return found

    dispatcher.deliveries.begin = lost  # type: ignore[method-assign,assignment]
    chat.dispatcher = dispatcher
    chat._running.append(dispatcher)
    dispatcher.start()
    chat.tell("hello")
    chat.answered("hello")
    chat.ended(ROLLED_BACK, DONE)


def test_a_run_that_goes_well_is_not_ended_for_an_earlier_trouble(chat: World) -> None:
    """The store failed once when the group was to begin; its next try is left in peace."""
    own = chat.group()
    dispatcher = chat.made()
    begin = dispatcher.deliveries.begin
    calls: list[int] = []

    def failing(*given: object) -> object:
        calls.append(1)
        if len(calls) == 1:
            message = "away"
            raise StoreUnavailable(message)
        return begin(*given)  # type: ignore[arg-type]

    dispatcher.deliveries.begin = failing  # type: ignore[method-assign,assignment]
    chat.dispatcher = dispatcher
    chat._running.append(dispatcher)
    dispatcher.start()
    chat.tell("!say half; sleep 1.6; say whole", "1")
    while not (own / "begun").exists():
        dispatcher.wake()
        time.sleep(0.01)
    chat.answered("half", "whole")
    chat.ended(DONE)


def test_an_unrecorded_agent_does_nothing_after_its_dispatcher_died(chat: World) -> None:
    """It was just started; with its dispatcher its stdin ends, and it was handed nothing."""
    own = chat.group()
    command = [sys.executable, "-m", "tests.support.dispatcher_process"]
    command += [chat.url, str(chat.place), str(chat.place / "looks")]
    env = {**os.environ, "ONCEWARD_CRASH": "dispatch.agent.after_start:1:kill"}
    with subprocess.Popen(command, env=env) as process:
        chat.tell("hello")
        assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    (stranger,) = until(lambda: lines(own / "starts"))
    until(lambda: not is_running(int(stranger)))
    assert lines(own / "begun") == []
    chat.start()
    chat.answered("hello")
    assert lines(own / "begun") == ["hello"]
