"""A chat agent that fails, or gets unreadable input, reports that and leaks no secrets."""

import asyncio
import threading

import pytest

from onceward.agents import Chat
from onceward.errors import InvalidArgument, OncewardError, Retryable
from tests.support.chat_dialog import Begin, Handler, taking, talk
from tests.support.waiting import until

__all__ = ["talk"]


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
def test_a_failure_is_reported_and_no_later_message_is_answered(
    talk: Begin, problem: BaseException, code: str | None, is_retryable: bool
) -> None:
    """The agent ends: what it still holds goes to its next life, and must not be answered twice."""
    gate = threading.Event()
    fails = raising(problem)
    talking = talk(lambda chat: gate.wait(60) and fails(chat))
    talking.give("hello")
    talking.give("more", first=2, is_follow_up=True)
    gate.set()
    assert talking.ended() == [("output", "wait"), ("error", code)]
    error = next(each for each in talking.all() if each["kind"] == "error")
    assert (error["retryable"], error["upto"]) == (is_retryable, 1)


def test_a_coroutine_may_fail_too(talk: Begin) -> None:
    """It is reported like any other failure."""

    async def answer(_: Chat) -> str:
        await asyncio.sleep(0)
        raise KeyError

    talking = talk(answer)
    talking.give("hello")
    assert talking.ended() == [("error", "HANDLER_FAILED")]


def test_errors_and_logs_hold_no_secrets(talk: Begin) -> None:
    """Neither known secrets nor what looks like one, and texts have a maximum length."""

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
        ("\ud800", "NOT_CANONICAL"),
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
    assert seen == ["pass a text, or send no reply"]


@pytest.mark.parametrize(
    "line",
    [b"garbage\n", b'{"kind":"done","upto":3}\n', b'{"kind":"message"}\n', b"x" * 1_100_000],
    ids=["no JSON", "other kind", "wrong shape", "too long"],
)
def test_a_line_that_cannot_be_read_fails(talk: Begin, line: bytes) -> None:
    """The line held a message, which must not be lost; what came before it is done."""
    talking = talk(lambda chat: chat.text)
    talking.give("hello")
    talking.stdin.give(line)
    talking.give("never", first=2)
    said = talking.end()
    assert said == [("output", "hello"), ("done", 1), ("error", "INVALID_MESSAGE")]


def test_a_follow_up_that_cannot_be_read_does_not_disturb_the_call(talk: Begin) -> None:
    """The call ends as if the line had not come; then the line is reported."""
    taken = threading.Event()

    def answer(chat: Chat) -> str:
        found = taking(chat, 1)
        taken.set()
        until(lambda: talking.agent._stdin_lines._lines)
        return ",".join([*found, *(each.text for each in chat.follow_ups())])

    talking = talk(answer)
    talking.give("hello")
    talking.give("more", first=2, is_follow_up=True)
    assert taken.wait(60)
    talking.stdin.give(b"garbage\n")
    assert talking.ended() == [("output", "more"), ("done", 2), ("error", "INVALID_MESSAGE")]
