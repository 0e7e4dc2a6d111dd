"""Agent restarts: an agent made with the kit, called in one process after another."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import Agent, Command, HandlerResult, completed, protocol
from onceward.agents.protocol import Message

Handler = Callable[[Command], Any]


class AgentRestarts:
    """Agents that follow one another in one workspace, and how often they began to work."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.begun: list[str] = []
        #: Added to the environment of the next agent.
        self.env: dict[str, str] = {}

    def agent(self, handler: Handler, agent_type: str = "builder") -> Agent:
        agent = Agent(agent_type, environ={"ONCEWARD_WORKSPACE": str(self.workspace), **self.env})

        @agent.on("implement", "review")
        def work(command: Command) -> HandlerResult:
            self.begun.append(command.key)
            result: HandlerResult = handler(command)
            return result

        return agent

    def ask(
        self, handler: Handler, *sent: Message | bytes, agent_type: str = "builder"
    ) -> list[Message]:
        lines = [each if isinstance(each, bytes) else protocol.encode(each) for each in sent]
        out = io.BytesIO()
        self.agent(handler, agent_type).run(io.BytesIO(b"".join(lines)), out)
        said = [protocol.decode(line) for line in out.getvalue().splitlines()]
        return [each for each in said if each["kind"] != "heartbeat"]


@pytest.fixture
def lives(tmp_path: Path) -> AgentRestarts:
    return AgentRestarts(tmp_path)


def write_out(command: Command) -> HandlerResult:
    (command.workspace / "out.txt").write_text(command.inputs["goal"])
    return completed(artifacts=["out.txt"])


def no_work(_: Command) -> HandlerResult:
    raise AssertionError


def without_ids(event: Message) -> Message:
    changing = ("message_id", "correlation_id", "occurred_at")
    return {name: value for name, value in event.items() if name not in changing}


def error_of(said: list[Message]) -> tuple[str, bool]:
    (event,) = said
    assert event["event"] == "error"
    return event["payload"]["code"], event["payload"]["retryable"]


def raising(error: BaseException) -> Handler:
    def handler(_: Command) -> HandlerResult:
        raise error

    return handler
