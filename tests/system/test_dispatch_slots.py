"""Agents of a dispatcher have limits: how long, how many at once, and whose turn it is."""

import itertools
import threading
import time
from functools import partial
from pathlib import Path

from onceward.dispatch.models import DeliveryState
from tests.support.dispatch_store import (
    HARD_SECONDS,
    PATIENCE_SECONDS,
    World,
    chat,
    is_running,
    lines,
)
from tests.support.waiting import until

__all__ = ["chat"]

DONE, KEPT = DeliveryState.DONE, DeliveryState.KEPT


def test_h42_a_message_to_an_agent_that_is_closing_goes_to_the_next(chat: World) -> None:
    """It is handed out once, to a new process, when the old one has left."""
    own = chat.group(idle_seconds=0.1)
    (own / "linger").touch()
    chat.start()
    chat.tell("one")
    until((own / "at-leave").exists)
    chat.tell("two")
    time.sleep(0.2)
    assert chat.replies() == ["one"]
    assert chat.states() == [DONE]
    (own / "leave").touch()
    chat.answered("one", "two")
    assert lines(own / "begun") == ["one", "two"]
    assert len(lines(own / "starts")) == 2
    chat.ended(DONE, DONE)


def test_an_idle_agent_is_closed(chat: World) -> None:
    """After its limit, and the next message starts another."""
    own = chat.group(idle_seconds=0.15)
    chat.start()
    for text in ("one", "two"):
        chat.tell(text)
        until(partial(lambda said: said in chat.replies(), text))
        pid = int(lines(own / "starts")[-1])
        until(partial(lambda pid: not is_running(pid), pid), "it still runs")
    assert len(lines(own / "starts")) == 2


def test_an_agent_that_does_not_finish_is_ended(chat: World) -> None:
    """After the hard limit the process is gone, and the messages go to another."""
    chat.start()

    def is_ended_once(seconds: float) -> bool:
        group = f"team-{seconds:.0f}"
        own = chat.group(group, hard_seconds=seconds)
        chat.tell("!once wait never; say at last", "1", group=group)
        until(lambda: chat.is_idle(group), lambda: chat.summary(group))
        starts = list(map(int, lines(own / "starts")))
        if not starts:  # Each was ended before it could say that it runs.
            return False
        first, *others = starts
        assert not is_running(first)
        assert first not in others
        failed = chat.operators.deliveries(group)[-1]
        assert f"{seconds:g} s" in str(failed.error)
        return (len(others), chat.replies(group)) == (1, ["at last"])

    assert any(map(is_ended_once, HARD_SECONDS))


def test_the_hard_limit_is_for_what_is_not_done_and_not_for_a_long_talk(chat: World) -> None:
    """An agent that finishes one thing after the other may go on, however many come."""
    chat.start()

    def is_left_alone(times: int) -> bool:
        group = f"team-{times}"
        own = chat.group(group, with_kit=True, hard_seconds=2.5 * times)
        for number in range(8):
            chat.tell(f"!sleep {0.5 * times}; say {number}", str(number), group=group)
            time.sleep(0.3 * times)
        until(lambda: chat.is_idle(group), lambda: chat.summary(group))
        if len(lines(own / "starts")) > 1:
            return False
        assert chat.replies(group) == [str(number) for number in range(8)]
        assert set(chat.states(group)) == {DONE}
        return True

    # A busy machine may need the whole limit to start an agent; then everything is slower.
    assert any(map(is_left_alone, (1, 3, 9)))


def test_no_more_agents_than_allowed_run_at_once(chat: World) -> None:
    """Six groups want to talk, two do at a time, and all are answered."""
    names = [f"g{number}" for number in range(6)]
    owns = [chat.group(name) for name in names]
    chat.start(agents_max=2)
    for name in names:
        chat.tell("!wait go; say done", "1", group=name)

    def waiting() -> list[Path]:
        return [own for own in owns if (own / "at-go").exists() and not (own / "go").exists()]

    for _ in range(3):
        until(lambda: len(waiting()) == 2, waiting)
        time.sleep(0.1)
        assert len(waiting()) == 2
        assert sum(each.in_flight is not None for each in chat.operators.status()) == 2
        for own in waiting():
            (own / "go").touch()
    for name in names:
        chat.answered("done", group=name)


def test_h43_an_idle_agent_gives_its_slot_to_a_group_that_waits(chat: World) -> None:
    """Long before its own limit."""
    first = chat.group("first", idle_seconds=60)
    chat.group("second")
    chat.start(agents_max=1)
    chat.tell("one", group="first")
    chat.answered("one", group="first")
    chat.tell("two", group="second")
    chat.answered("two", group="second")
    assert not is_running(int(lines(first / "starts")[0]))


def test_h43_a_stream_of_messages_does_not_starve_other_groups(chat: World) -> None:
    """One group always has more to do than it can; the other is answered all the same."""
    chat.group("busy")
    chat.group("other")
    chat.start(agents_max=1)
    numbers = itertools.count()

    def press_on(other: str) -> None:
        """Keep the busy group busy until another is answered, and leave no backlog."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not chat.replies(other):
            assert time.monotonic() < deadline, "it starves"
            if chat.operators.status_of("busy").pending < 20:
                number = next(numbers)
                chat.tell(f"!sleep 0.03; say {number}", str(number), group="busy")
            time.sleep(0.01)

    press_on("busy")
    chat.tell("me too", group="other")
    press_on("other")
    count = next(numbers)
    until(lambda: len(chat.replies("busy")) == count, lambda: chat.summary("busy"))
    assert chat.replies("busy") == [str(each) for each in range(count)]


def test_a_group_that_people_never_stop_writing_to_is_answered(chat: World) -> None:
    """However fast they write, what has come so far is handed out."""
    chat.group()
    chat.start()
    stopping = threading.Event()

    def write() -> None:
        for number in itertools.count():
            chat.tell(str(number))
            if stopping.is_set():
                return

    writing = threading.Thread(target=write)
    writing.start()
    try:
        until(chat.replies)
    finally:
        stopping.set()
        writing.join()


def test_h43_a_backlog_is_worked_off_and_others_come_in_between(chat: World) -> None:
    """More than one batch holds: all of it is handed out, without waiting for a new message."""
    chat.group("long", idle_seconds=60)
    chat.group("other")
    size = 120_000
    for number in range(40):
        chat.tell(f"{number:02}" + "x" * size, f"{number:02}", group="long")
    chat.tell("me too", group="other")
    chat.start(agents_max=1)
    until(lambda: len(chat.replies("long")) == 40, lambda: chat.summary("long")[0])  # type: ignore[index]
    assert [each[:2] for each in chat.replies("long")] == [f"{each:02}" for each in range(40)]
    chat.answered("me too", group="other")


def test_a_paused_group_waits_and_goes_on(chat: World) -> None:
    """What arrives meanwhile is kept; others go on; what ran may finish."""
    own = chat.group()
    chat.group("other")
    chat.start()
    chat.tell("!wait go; say one", "1")
    until((own / "at-go").exists)
    chat.dispatcher.groups.set("team", is_paused=True)
    chat.tell("two")
    (own / "go").touch()
    chat.answered("one")
    chat.tell("elsewhere", group="other")
    chat.answered("elsewhere", group="other")
    time.sleep(0.2)
    assert chat.operators.status_of("team").pending == 1
    chat.dispatcher.groups.set("team", is_paused=False)
    chat.answered("one", "two")


def test_a_replay_is_noticed_by_the_dispatcher_that_runs(chat: World) -> None:
    """A person moves a group back, from wherever: its messages are handed out again."""
    chat.group()
    chat.start()
    chat.tell("one")
    chat.answered("one")
    until(chat.is_idle)
    chat.operators.replay("team", 1, reason="again", actor="ann")
    chat.answered("one", "one")
