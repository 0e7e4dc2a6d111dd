"""Kit handlers: `def` or `async def`, and which of their failures another attempt may mend."""

import asyncio
import errno
import os
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import Agent, Command, HandlerResult, completed
from onceward.agents.handlers import HandlerCalls, version_of
from onceward.errors import InvalidArgument
from tests.support.agent_messages import a_command
from tests.support.agent_restarts import AgentRestarts, error_of, lives, no_work, raising

__all__ = ["lives"]


class RateLimited(Exception):
    """A user's own exception."""


class Throttled(RateLimited):
    """A kind of it."""


@pytest.mark.parametrize(
    ("error", "is_retryable"),
    [
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), True),
        *(
            (OSError(getattr(errno, name), os.strerror(getattr(errno, name))), True)
            for name in ("ENETUNREACH", "EHOSTUNREACH", "ENETDOWN", "EHOSTDOWN", "ETIMEDOUT")
        ),
        (OSError(errno.ENOSPC, ""), False),
        (FileNotFoundError(errno.ENOENT, ""), False),
    ],
    ids=repr,
)
def test_a_network_that_is_away_may_come_back(error: Exception, is_retryable: bool) -> None:
    """Names that cannot be resolved and hosts that cannot be reached, but not a full disk."""
    assert HandlerCalls().is_retryable(error) is is_retryable


def free_port() -> int:
    """Return a port at which no process listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def test_a_handler_may_be_a_coroutine(lives: AgentRestarts, tmp_path: Path) -> None:
    """Its answer is kept and sent as any other; all calls share one event loop."""
    loops: set[int] = set()

    async def handler(command: Command) -> HandlerResult:
        await asyncio.sleep(0)
        loops.add(id(asyncio.get_running_loop()))
        (command.workspace / "out.txt").write_text("x")
        return completed(artifacts=["out.txt"])

    other = a_command(inputs={"goal": "other"})
    first, second = lives.ask(handler, a_command(), other)
    assert first["event"] == second["event"] == "builder.completed"
    assert [each["path"] for each in first["artifacts"]] == ["out.txt"]
    assert len(loops) == 1
    (again,) = lives.ask(no_work, a_command())
    assert again["payload"] == first["payload"]
    assert (tmp_path / "out.txt").exists()


def test_a_coroutine_fails_as_a_function_does(lives: AgentRestarts) -> None:
    """What it raises is reported, and what it returns must be a result."""

    async def broken(_: Command) -> HandlerResult:
        await asyncio.sleep(0)
        raise ValueError

    async def wrong(_: Command) -> Any:
        return "done"

    assert error_of(lives.ask(broken, a_command())) == ("HANDLER_FAILED", False)
    assert error_of(lives.ask(wrong, a_command())) == ("BAD_RESULT", False)


def test_the_event_loop_ends_with_the_agent(lives: AgentRestarts) -> None:
    """What a handler left running is cancelled, and nothing is left open."""
    left: list[asyncio.Task[None]] = []

    async def handler(_: Command) -> HandlerResult:
        left.append(asyncio.create_task(asyncio.sleep(3600)))
        return completed()

    lives.ask(handler, a_command())
    assert left[0].cancelled()


@pytest.mark.parametrize(
    "error",
    [ConnectionRefusedError(), ConnectionResetError("x"), BrokenPipeError(), TimeoutError()],
)
def test_connection_errors_are_worth_a_retry(lives: AgentRestarts, error: Exception) -> None:
    """The orchestrator tries again; the handler need not know."""
    assert error_of(lives.ask(raising(error), a_command())) == ("HANDLER_FAILED", True)


def test_connection_errors_are_found_inside_of_others(lives: AgentRestarts) -> None:
    """Clients wrap them; one that was dealt with and hidden does not count."""

    def real(_: Command) -> HandlerResult:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"http://127.0.0.1:{free_port()}/"):
            return completed()

    def hidden(_: Command) -> HandlerResult:
        try:
            return real(_)
        except urllib.error.URLError:
            raise ValueError from None

    assert error_of(lives.ask(real, a_command())) == ("HANDLER_FAILED", True)
    assert error_of(lives.ask(hidden, a_command())) == ("HANDLER_FAILED", False)


@pytest.mark.parametrize(
    ("error", "retryable"),
    [(RateLimited(), True), (Throttled(), True), (KeyError("x"), False), (OSError(28, "x"), False)],
)
def test_retryable_exceptions_can_be_declared(
    tmp_path: Path, error: Exception, retryable: bool
) -> None:
    """With the classes that follow from them; every other one is final as before."""
    declared = AgentRestarts(tmp_path)
    agent = declared.agent
    declared.agent = lambda *given: _declared(agent(*given))  # type: ignore[method-assign]
    assert error_of(declared.ask(raising(error), a_command())) == ("HANDLER_FAILED", retryable)


def _declared(agent: Agent) -> Agent:
    made = Agent("builder", retryable=(RateLimited,), environ={})
    agent._calls = made._calls
    return agent


@pytest.mark.parametrize("wrong", ["RateLimited", RateLimited(), int, None])
def test_only_classes_of_exceptions_are_declared(wrong: Any) -> None:
    """Anything else would never match, and is refused when the agent is made."""
    with pytest.raises(InvalidArgument, match="retryable: .* is not a subclass of Exception"):
        Agent("builder", retryable=(wrong,), environ={})


@pytest.mark.parametrize("wrong", [RateLimited, None])
def test_one_class_is_not_a_tuple_of_classes(wrong: Any) -> None:
    """The most frequent mistake gets an error with the fix, not a TypeError."""
    with pytest.raises(InvalidArgument, match="retryable: must be a tuple") as caught:
        Agent("builder", retryable=wrong, environ={})
    assert "retryable=(RateLimited,)" in caught.value.fix


def test_a_version_is_the_handlers_file() -> None:
    """It changes with the source; without one, results stay with their run."""
    assert version_of(raising) == version_of(no_work) != version_of(free_port)
    assert version_of(eval("lambda _: None", {"__name__": "nowhere"})) == ""
