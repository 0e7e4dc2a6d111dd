"""Chat: each delivery is handled by one call, and `done` covers exactly what was handled."""

import asyncio
import io
import threading
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import Chat, ChatAgent
from onceward.errors import InvalidArgument, OncewardError
from tests.support.agent_messages import ODD_TEXTS, a_delivery, a_message
from tests.support.chat_dialog import Begin, taking, talk
from tests.support.waiting import until

__all__ = ["talk"]


@pytest.mark.parametrize(("returned", "said"), [("hi", [("output", "hi")]), (None, []), ("", [])])
def test_what_a_handler_returns_is_said(
    talk: Begin, returned: str | None, said: list[tuple[str, Any]]
) -> None:
    """A text is a reply, nothing is none, and both are done."""
    talking = talk(lambda _: returned)
    talking.give("hello")
    assert talking.end() == [*said, ("done", 1)]


@pytest.mark.parametrize("text", [*ODD_TEXTS, "\0" * 131_072])
def test_h45_texts_come_in_and_go_out_unchanged(talk: Begin, text: str) -> None:
    """Whatever stands in a text, in one direction and in the other."""
    talking = talk(lambda chat: chat.text)
    talking.give(text)
    assert talking.end() == [("output", text), ("done", 1)]


def test_a_handler_sees_what_was_handed_over(talk: Begin, tmp_path: Path) -> None:
    """Messages with all they have, the call among them, the group and the run."""
    seen: list[Chat] = []
    talking = talk(seen.append, ONCEWARD_WORKSPACE=str(tmp_path))
    said = [a_message(1, "call me"), a_message(2, "by the way", is_call=False, timestamp="now")]
    talking.give(*said)
    talking.give("more", first=3, is_follow_up=True)
    talking.end()
    first, second = seen
    assert first.messages == tuple(said)
    assert first.text == "call me"
    assert (first.group, first.run_id, first.workspace) == ("garden", "run-1", tmp_path)
    assert (first.is_follow_up, second.is_follow_up) == (False, True)


def test_replies_keep_their_order_and_keys(talk: Begin) -> None:
    """Each is on its way when `reply` returns, the returned one at last."""

    def answer(chat: Chat) -> str:
        chat.reply("one", key="k1")
        chat.reply("two")
        return "three"

    talking = talk(answer)
    talking.give("hello")
    assert talking.end() == [*(("output", each) for each in ("one", "two", "three")), ("done", 1)]
    assert [each.get("key") for each in talking.all() if each["kind"] == "output"] == [
        *("k1", None, None)
    ]


def test_coroutines_answer_too(talk: Begin) -> None:
    """All calls of one agent share an event loop, so that what one opened the next can use."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def answer(chat: Chat) -> str:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        chat.reply("at once")
        return chat.text

    talking = talk(answer)
    for number in (1, 2):
        talking.give("later", first=number)
    said = [("output", "at once"), ("output", "later")]
    assert talking.end() == [*said, ("done", 1), *said, ("done", 2)]
    assert loops[0] is loops[1]
    assert loops[0].is_closed()


# --- follow-ups ----------------------------------------------------------------------------------


def test_follow_ups_that_are_taken_are_done_with_the_call(talk: Begin) -> None:
    """`done` names the last message that the call took, and nothing is handled again."""
    talking = talk(lambda chat: ",".join(taking(chat, 3)))
    talking.give("hello")
    talking.give("a", "b", first=2, is_follow_up=True)
    talking.give("c", first=4, is_follow_up=True)
    until(lambda: ("done", 4) in talking.said())
    assert talking.end() == [("output", "a,b,c"), ("done", 4)]


def test_a_reply_says_how_far_the_call_had_looked(talk: Begin) -> None:
    """What was handed over and not taken by then is not answered by it."""

    def answer(chat: Chat) -> str:
        until(lambda: talking.agent._stdin_lines._lines)
        chat.reply("before")
        taking(chat, 1)
        return "after"

    talking = talk(answer)
    talking.give("hello")
    talking.give("more", first=2, is_follow_up=True)
    talking.end()
    outputs = [each for each in talking.all() if each["kind"] == "output"]
    assert [(each["text"], each["upto"]) for each in outputs] == [("before", 1), ("after", 2)]


def test_follow_ups_that_are_not_taken_are_the_next_call(talk: Begin) -> None:
    """They wait, and are done with a number of their own."""
    gate = threading.Event()

    def answer(chat: Chat) -> str:
        assert gate.wait(60)
        return chat.text

    talking = talk(answer)
    talking.give("hello")
    talking.give("more", first=2, is_follow_up=True)
    assert talking.said() == []
    gate.set()
    assert talking.end() == [("output", "hello"), ("done", 1), ("output", "more"), ("done", 2)]


def test_half_a_follow_up_is_not_taken(talk: Begin) -> None:
    """Only what is here as a whole; the rest of it is waited for, not handled twice or lost."""
    rest, halves = threading.Event(), a_delivery("x" * 130_000, "y" * 130_000, first=2)
    half = halves.index(b"\n") + 1
    assert half < len(halves)

    def answer(chat: Chat) -> str | None:
        if chat.text != "hello":
            return None
        until(lambda: talking.agent._stdin_lines._lines)
        found = len(chat.follow_ups())
        rest.set()
        return f"{found}, then {len(taking(chat, 2))}"

    talking = talk(answer)
    talking.give("hello")
    talking.stdin.give(halves[:half])
    assert rest.wait(60)
    talking.stdin.give(halves[half:])
    assert talking.end() == [("output", "0, then 2"), ("done", 3)]


def test_what_came_before_the_end_is_still_done(talk: Begin) -> None:
    """The end of stdin does not cut off what was handed over."""
    gate = threading.Event()
    talking = talk(lambda chat: chat.text if gate.wait(60) else None)
    for number in (1, 2):
        talking.give(str(number), first=number)
    talking.stdin.give(b"")
    gate.set()
    assert talking.ended() == [("output", "1"), ("done", 1), ("output", "2"), ("done", 2)]
    assert talking.all()[-1]["status"] == "stopping"


def test_nothing_is_said_after_a_call_is_over(talk: Begin) -> None:
    """It would answer other messages than it was meant for."""
    kept: list[Chat] = []
    talking = talk(kept.append)
    talking.give("hello")
    until(lambda: talking.said() == [("done", 1)])
    for late in (lambda: kept[0].reply("late"), kept[0].follow_ups):
        with pytest.raises(OncewardError, match="call has ended") as caught:
            late()
        assert caught.value.code == "CALL_OVER"
    assert talking.end() == [("done", 1)]


# --- around it -----------------------------------------------------------------------------------


def test_heartbeats_say_what_the_agent_is_at(talk: Begin) -> None:
    """They go on while the handler works."""

    def answer(_: Chat) -> None:
        until(lambda: any(each.get("status") == "busy" for each in talking.all()))

    talking = talk(answer, ONCEWARD_HEARTBEAT_SECONDS="0.01")
    talking.give("hello")
    talking.end()
    beats = [each for each in talking.all() if each["kind"] == "heartbeat"]
    assert {each["agent"]["agent_type"] for each in beats} == {"chat"}
    states = list(dict.fromkeys(each["status"] for each in beats))
    assert states[:3] == ["starting", "ready", "busy"]
    assert states[-1] == "stopping"


def test_work_is_finished_without_a_listening_dispatcher(talk: Begin) -> None:
    """A dispatcher that died does not stop the handler halfway."""
    seen: list[str] = []

    def answer(chat: Chat) -> str:
        talking.stdout.write = broken  # type: ignore[method-assign]
        chat.reply("lost")
        seen.append(chat.text)
        return "lost too"

    def broken(_: object) -> int:
        raise BrokenPipeError

    talking = talk(answer)
    talking.give("hello")
    assert talking.end() == []
    assert seen == ["hello"]


def test_an_agent_without_a_handler_is_refused() -> None:
    """Before anything is read."""
    with pytest.raises(InvalidArgument, match="no message handler"):
        ChatAgent(environ={}).run(io.BytesIO(), io.BytesIO())
