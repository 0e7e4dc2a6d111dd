"""Chat: each delivery is handled by one call, and `done` covers exactly what was handled."""

import asyncio
import io
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.system.agent_tools import until
from tests.unit.agents.samples import ODD_TEXTS, Feed, a_delivery, a_message

from onceward.agents import Chat, ChatAgent, chat_messages
from onceward.agents.lines import LineReader
from onceward.agents.messages import Message
from onceward.errors import InvalidArgument, OncewardError, Retryable

Handler = Callable[[Chat], Any]


class Talk:
    """An agent at work in a thread, with a test at both of its ends."""

    def __init__(self, handler: Handler, **environ: str) -> None:
        self.agent = ChatAgent(environ=environ)
        self.agent.on_message(handler)
        self.stdin, self.stdout = Feed(), io.BytesIO()
        self._thread = threading.Thread(target=self.agent.run, args=(self.stdin, self.stdout))
        self._thread.start()

    def give(self, *said: Any, **fields: Any) -> None:
        self.stdin.give(a_delivery(*said, **fields))

    def all(self) -> list[Message]:
        """Return all messages so far."""
        reader = LineReader(line_bytes_max=chat_messages.LINE_BYTES_MAX)
        lines = reader.feed(self.stdout.getvalue())
        return [chat_messages.decode(each) for each in lines if isinstance(each, bytes)]

    def said(self) -> list[tuple[str, Any]]:
        """Return what was said so far, and what was done."""
        names = {"output": "text", "done": "upto", "error": "code", "log": "message"}
        return [
            (each["kind"], each.get(names[each["kind"]]))
            for each in self.all()
            if each["kind"] in names
        ]

    def end(self) -> list[tuple[str, Any]]:
        self.stdin.give(b"")
        return self.ended()

    def ended(self) -> list[tuple[str, Any]]:
        """Wait until the agent has ended by itself."""
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.said()


@pytest.fixture
def talk() -> Iterator[Callable[..., Talk]]:
    talks: list[Talk] = []

    def begin(handler: Handler, **environ: str) -> Talk:
        talks.append(Talk(handler, **environ))
        return talks[-1]

    yield begin
    for each in talks:
        each.end()


Begin = Callable[..., Talk]


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


def taking(chat: Chat, count: int) -> list[str]:
    """Take follow-ups until there are that many."""
    found: list[str] = []

    def is_enough() -> bool:
        found.extend(each.text for each in chat.follow_ups())
        return len(found) >= count

    until(is_enough)
    return found


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
        until(lambda: talking.agent._waiting._lines)
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
        assert gate.wait(20)
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
        until(lambda: talking.agent._waiting._lines)
        found = len(chat.follow_ups())
        rest.set()
        return f"{found}, then {len(taking(chat, 2))}"

    talking = talk(answer)
    talking.give("hello")
    talking.stdin.give(halves[:half])
    assert rest.wait(20)
    talking.stdin.give(halves[half:])
    assert talking.end() == [("output", "0, then 2"), ("done", 3)]


def test_what_came_before_the_end_is_still_done(talk: Begin) -> None:
    """The end of stdin does not cut off what was handed over."""
    gate = threading.Event()
    talking = talk(lambda chat: chat.text if gate.wait(20) else None)
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
        with pytest.raises(OncewardError, match="this call is over") as caught:
            late()
        assert caught.value.code == "CALL_OVER"
    assert talking.end() == [("done", 1)]


# --- failures ------------------------------------------------------------------------------------


class OddCode(OncewardError):
    """An error whose code is none."""

    code = "not a code"


def raising(problem: BaseException) -> Handler:
    def answer(chat: Chat) -> str:
        chat.reply("wait")
        raise problem

    return answer


@pytest.mark.parametrize(
    ("problem", "code", "is_retryable"),
    [
        (ValueError("no"), "HANDLER_FAILED", True),
        (SystemExit(3), "HANDLER_FAILED", True),
        (InvalidArgument("no"), "INVALID_ARGUMENT", False),
        (Retryable("later"), Retryable.code, True),
        (OddCode("no"), None, False),
        (ValueError("\ud800"), "HANDLER_FAILED", True),
    ],
)
def test_a_failure_is_told_and_nothing_behind_it_is_answered(
    talk: Begin, problem: BaseException, code: str | None, is_retryable: bool
) -> None:
    """The agent ends: what it still holds goes to its next life, and must not be answered twice."""
    gate = threading.Event()
    fails = raising(problem)
    talking = talk(lambda chat: gate.wait(20) and fails(chat))
    talking.give("hello")
    talking.give("more", first=2, is_follow_up=True)
    gate.set()
    assert talking.ended() == [("output", "wait"), ("error", code)]
    error = next(each for each in talking.all() if each["kind"] == "error")
    assert (error["retryable"], error["upto"]) == (is_retryable, 1)


def test_a_coroutine_may_fail_too(talk: Begin) -> None:
    """It is told like any other failure."""

    async def answer(_: Chat) -> str:
        await asyncio.sleep(0)
        raise KeyError

    talking = talk(answer)
    talking.give("hello")
    assert talking.ended() == [("error", "HANDLER_FAILED")]


def test_errors_and_logs_hold_no_secrets(talk: Begin) -> None:
    """Neither known ones nor what looks like one; and no more than anybody reads."""

    def answer(chat: Chat) -> str:
        chat.log("with open-sesame-1", level="warn", password="p")
        raise ValueError("open-sesame-1 " * 2000)

    talking = talk(answer, THE_TOKEN="open-sesame-1")
    talking.give("hello")
    talking.ended()
    assert b"sesame" not in talking.stdout.getvalue()
    log, error = (each for each in talking.all() if each["kind"] in ("log", "error"))
    assert (log["level"], log["fields"]) == ("warn", {"password": "[redacted]"})
    assert len(error["message"]) < 9000


@pytest.mark.parametrize(
    ("returned", "code"),
    [
        (3, "BAD_RESULT"),
        (b"bytes", "BAD_RESULT"),
        ("ä" * 65_537, "INVALID_ARGUMENT"),
        ("\ud800", "INVALID_ARGUMENT"),
    ],
)
def test_what_cannot_be_said_is_a_failure(talk: Begin, returned: object, code: str) -> None:
    """No retry helps, and nothing of it is said."""
    talking = talk(lambda _: returned)
    talking.give("hello")
    assert talking.ended() == [("error", code)]
    assert not next(each for each in talking.all() if each["kind"] == "error")["retryable"]


def test_an_empty_reply_is_refused(talk: Begin) -> None:
    """The handler hears of it at once."""
    seen: list[str] = []

    def answer(chat: Chat) -> None:
        try:
            chat.reply("")
        except InvalidArgument as exc:
            seen.append(exc.fix)

    talking = talk(answer)
    talking.give("hello")
    assert talking.end() == [("done", 1)]
    assert seen == ["say something, or nothing at all"]


@pytest.mark.parametrize(
    "line",
    [b"garbage\n", b'{"kind":"done","upto":3}\n', b'{"kind":"message"}\n', b"x" * 1_100_000],
    ids=["no JSON", "other kind", "wrong shape", "too long"],
)
def test_a_line_that_cannot_be_read_fails(talk: Begin, line: bytes) -> None:
    """Somebody's message was in it, which must not be forgotten; what came before is done."""
    talking = talk(lambda chat: chat.text)
    talking.give("hello")
    talking.stdin.give(line)
    talking.give("never", first=2)
    said = talking.end()
    assert said == [("output", "hello"), ("done", 1), ("error", "INVALID_MESSAGE")]


def test_a_follow_up_that_cannot_be_read_does_not_disturb_the_call(talk: Begin) -> None:
    """The call ends as if it had not come; then it is told."""
    taken = threading.Event()

    def answer(chat: Chat) -> str:
        found = taking(chat, 1)
        taken.set()
        until(lambda: talking.agent._waiting._lines)
        return ",".join([*found, *(each.text for each in chat.follow_ups())])

    talking = talk(answer)
    talking.give("hello")
    talking.give("more", first=2, is_follow_up=True)
    assert taken.wait(20)
    talking.stdin.give(b"garbage\n")
    assert talking.ended() == [("output", "more"), ("done", 2), ("error", "INVALID_MESSAGE")]


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


def test_work_is_finished_though_nobody_listens(talk: Begin) -> None:
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
    with pytest.raises(InvalidArgument, match="no handler"):
        ChatAgent(environ={}).run(io.BytesIO(), io.BytesIO())
