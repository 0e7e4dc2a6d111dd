"""What an agent made with the kit does not take, and how it tells what failed."""

import json
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import Command, HandlerResult, approved, completed, protocol
from onceward.agents.protocol import Message
from onceward.errors import InvalidArgument, Retryable
from tests.support.agent_messages import a_command, a_log
from tests.support.agent_restarts import (
    AgentRestarts,
    Handler,
    error_of,
    lives,
    no_work,
    raising,
    write_out,
)

__all__ = ["lives"]


def test_a_wrong_key_is_refused(lives: AgentRestarts) -> None:
    """The agent computes the key itself, and does nothing under another one."""
    forged = a_command() | {"idempotency_key": "ik:" + "0" * 64}
    assert error_of(lives.ask(no_work, forged)) == ("KEY_MISMATCH", False)
    assert lives.begun == []


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (a_command(agent_type="reviewer"), "WRONG_AGENT"),
        (a_command(action="paint"), "UNKNOWN_ACTION"),
        (a_command() | {"priority": "high"}, "INVALID_COMMAND"),
    ],
)
def test_commands_that_are_not_for_it_are_refused(
    command: Message, code: str, lives: AgentRestarts
) -> None:
    """The caller gets the reason, and nothing is done."""
    assert error_of(lives.ask(no_work, json.dumps(command).encode() + b"\n")) == (code, False)


@pytest.mark.parametrize(
    "line", [b"garbage\n", b"\xff\n", b"{}\n", b"x" * 300_000 + b"\n", protocol.encode(a_log())]
)
def test_garbage_is_logged_and_the_next_command_is_done(line: bytes, lives: AgentRestarts) -> None:
    """A line without a command to answer is reported as a log, and the agent goes on."""
    log, event = lives.ask(write_out, line, a_command())
    assert (log["kind"], log["level"]) == ("log", "error")
    assert event["event"] == "builder.completed"


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "change",
    [
        {"correlation_id": "\ud800"},
        {"task_id": "x" * 201},
        {"correlation_id": "a\nb"},
        {"inputs": {"goal": "\ud800"}},
        {"inputs": {"goal": "x", "deep": nested(600)}},
    ],
)
def test_h27_odd_commands_do_not_end_an_agent(change: dict[str, Any], lives: AgentRestarts) -> None:
    """One that cannot be answered, or has no key, is refused, and the next one is done."""
    odd = json.dumps(a_command() | change).encode() + b"\n"
    refused, event = lives.ask(write_out, odd, a_command())
    assert refused.get("level") == "error" or error_of([refused]) == ("INVALID_COMMAND", False)
    assert event["event"] == "builder.completed"
    assert len(lives.begun) == 1


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (raising(ValueError("no")), ("HANDLER_FAILED", False)),
        (raising(ValueError("\ud800" * 100_000)), ("HANDLER_FAILED", False)),
        (raising(SystemExit(3)), ("HANDLER_FAILED", False)),
        (raising(Retryable("later")), ("RETRYABLE", True)),
        (raising(InvalidArgument("no goal")), ("INVALID_ARGUMENT", False)),
        (lambda _: None, ("BAD_RESULT", False)),
        (lambda _: approved(), ("BAD_RESULT", False)),
        (lambda _: completed(payload={"x": {1}}), ("BAD_RESULT", False)),
        (lambda _: completed(payload={"x": "x" * 300_000}), ("BAD_RESULT", False)),
        (lambda _: completed(payload={"x": "\ud800"}), ("BAD_RESULT", False)),
        (lambda _: completed(payload={"\ud800": 1}), ("BAD_RESULT", False)),
        (lambda _: completed(payload={"x": nested(200)}), ("BAD_RESULT", False)),
        (lambda _: completed(payload={"x": nested(5000)}), ("BAD_RESULT", False)),
        (lambda _: completed(artifacts=["../out"]), ("BAD_RESULT", False)),
        (lambda _: completed(artifacts=["state/x"]), ("BAD_RESULT", False)),
        (lambda _: completed(artifacts=["gone.txt"]), ("MISSING_OUTPUT", True)),
    ],
)
def test_failures_are_reported_and_not_kept(
    handler: Handler, expected: tuple[str, bool], lives: AgentRestarts
) -> None:
    """An error event says what happened, and the same key may be tried again."""
    assert error_of(lives.ask(handler, a_command())) == expected
    (event,) = lives.ask(write_out, a_command())
    assert event["event"] == "builder.completed"


@pytest.mark.parametrize("odd", ["\ud800", nested(200), nested(5000)])
def test_h27_nothing_odd_is_sent_on_the_way(odd: Any, lives: AgentRestarts) -> None:
    """A handler whose progress cannot be encoded fails, with the reason."""

    def telling(command: Command) -> HandlerResult:
        command.progress("half", odd=odd)
        return completed()

    (event,) = lives.ask(telling, a_command())
    assert event["payload"]["code"] == ("NOT_CANONICAL" if odd == "\ud800" else "INVALID_MESSAGE")
    said = event["payload"]["message"]
    assert "surrogate" in said or "nested" in said


def test_the_fix_of_an_error_is_sent_with_its_message(lives: AgentRestarts) -> None:
    """The protocol has no field for it, and the operator sees only the message."""

    def refusing(_: Command) -> HandlerResult:
        message = "no goal"
        raise InvalidArgument(message, fix="write one")

    (event,) = lives.ask(refusing, a_command())
    assert event["payload"]["message"] == "no goal (fix: write one)"
    (event,) = lives.ask(lambda _: completed(artifacts=[".git/x"]), a_command())
    assert "(fix: name a regular file of yours" in event["payload"]["message"]


def test_required_outputs_must_be_there(lives: AgentRestarts, tmp_path: Path) -> None:
    """A required file that is missing fails the command; one that is there is an artifact."""
    wanted = [{"path": "want.txt", "required": True}, {"path": "may.txt", "required": False}]
    command = a_command(expected_outputs=wanted)
    assert error_of(lives.ask(lambda _: completed(), command)) == ("MISSING_OUTPUT", True)
    (tmp_path / "want.txt").write_text("here")
    (event,) = lives.ask(lambda _: completed(), command)
    assert [each["path"] for each in event["artifacts"]] == ["want.txt"]
