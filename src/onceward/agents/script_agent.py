"""Script agent: an agent that runs a scenario, for demos and for tests of misbehaviour.

Defines what each step does. `scenarios.py` validates the scenario file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

from onceward.agents import artifacts, protocol
from onceward.agents.answer_cache import cache_folder
from onceward.agents.handler_results import HandlerResult
from onceward.agents.kit import Agent, Command
from onceward.agents.prompts import fill
from onceward.agents.scenarios import ACTIONS, Scenario, ScenarioStep, by_round
from onceward.agents.script_effects import ScriptEffects
from onceward.errors import OncewardError
from onceward.journal import atomic_file
from onceward.keys import compact_json
from onceward.system import Clock, Ids, timestamp

#: The status that an agent answers if its scenario defines no answer.
_DEFAULTS: Final = {
    "builder": "completed",
    "reviewer": "approved",
    "spec_maintainer": "no_changes_needed",
}


def script_agent(
    scenario: Scenario,
    type: str,  # noqa: A002 - what the protocol calls it
    *,
    wire: BinaryIO,
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> Agent:
    """Return an agent that runs the scenario and does nothing else.

    `wire` writes raw bytes to the agent's stdout, for output that violates the protocol.
    """
    env = os.environ if environ is None else environ
    # No version: side effects such as counting must happen in each run, so answers are not reused.
    agent = Agent(type, version="", environ=env)
    cache_directory = cache_folder(type, agent.workspace, env)
    effects = ScriptEffects(wire=wire, once_file=cache_directory / "script-once.txt", clock=clock)
    player = _ScenarioPlayer(scenario, agent, effects)
    agent.on(*ACTIONS)(player.play)
    return agent


class _ScenarioPlayer:
    """Runs the scenario for each command."""

    def __init__(self, scenario: Scenario, agent: Agent, effects: ScriptEffects) -> None:
        self._scenario = scenario
        self._agent = agent
        self._effects = effects

    def play(self, command: Command) -> HandlerResult:
        """Run the steps for this command and return the answer."""
        play = _CommandPlayer(command, self._agent.type, self._effects)
        if self._scenario.count is not None:
            play.count(self._scenario.count)
        steps = self._scenario.steps(
            task_id=command.task_id, action=command.action, round=play.round
        )
        for step in steps:
            if self._effects.is_due(step, command.key):
                play.do(step)
        return play.end()


class _CommandPlayer:
    """Runs the steps for one command."""

    def __init__(self, command: Command, agent_type: str, effects: ScriptEffects) -> None:
        self._command = command
        self._effects = effects
        self._type = agent_type
        given = command.inputs.get("round", 1)
        self.round: int = given if isinstance(given, int) and given > 0 else 1
        self._placeholders = {
            "task_id": command.task_id,
            "action": command.action,
            "round": str(self.round),
            "key": command.key,
            "goal": str(command.inputs.get("goal", "")),
        }
        self._written: list[str] = []
        self._counting: list[Path] = []
        self._answer: Mapping[str, Any] = {}
        self._acts: Mapping[str, Callable[[Any], None]] = {
            "answer": self._keep_answer,
            "write": self._write,
            "delay": effects.clock.sleep,
            "progress": lambda text: command.progress(self._filled(text)),
            "log": lambda text: command.log(self._filled(text)),
            "error": self._fail,
            "flood": self._flood,
            "crash": effects.crash,
            "garbage": effects.garbage,
            "silence": effects.freeze,
            "oversized": effects.oversized,
            "send": self._send,
            "count": self.count,
        }

    def do(self, step: ScenarioStep) -> None:
        """Run one step."""
        self._acts[step.kind](step.value)

    def count(self, place: str) -> None:
        """Record in a file that this command started, and at its end that it completed."""
        path = self._command.workspace / self._filled(place)
        self._effects.add_line(path, f"started {self._command.key}")
        self._counting.append(path)

    def end(self) -> HandlerResult:
        """Record the completion and return the answer."""
        result = self._result()
        for path in self._counting:
            self._effects.add_line(path, f"completed {self._command.key}")
        return result

    def _result(self) -> HandlerResult:
        answer = self._answer
        payload = dict(answer.get("payload", {}))
        if "comments" in answer:
            payload["comments"] = [
                self._filled(each) if isinstance(each, str) else each for each in answer["comments"]
            ]
        default = _DEFAULTS[self._type]
        if self._type == "builder":
            tests = answer.get("tests", "unchecked")
            tests = dict(tests) if isinstance(tests, Mapping) else {"status": tests}
            if "allowed_failures" in answer:
                tests["allowed_failures"] = answer["allowed_failures"]
            payload.setdefault("tests", tests)
        elif self._type == "spec_maintainer" and self._written:
            default = "updated"
        paths = answer.get("artifacts", self._written)
        filled = tuple(dict.fromkeys(self._filled(path) for path in paths))
        return HandlerResult(
            status=answer.get("status", default), payload=payload, artifacts=filled
        )

    # --- the steps -------------------------------------------------------------------------------

    def _keep_answer(self, value: Any) -> None:  # noqa: ANN401 - an object, or a list by round
        self._answer = by_round(value, self.round)

    def _write(self, value: Mapping[str, Any]) -> None:
        path = self._filled(value["path"])
        content = self._filled(by_round(value["content"], self.round))
        artifacts.check_path(path, self._command.workspace)
        atomic_file.write(
            self._command.workspace / path, content.encode(), files=self._effects.files
        )
        self._written.append(path)

    def _fail(self, value: Mapping[str, Any]) -> NoReturn:
        fields = {"code": value["code"], "retryable": value.get("retryable", False)}
        raise type("ScriptedFailure", (OncewardError,), fields)(self._filled(value["message"]))

    def _flood(self, value: Mapping[str, Any]) -> None:
        to = value.get("to", "stdout")
        if to not in ("log", "progress"):
            self._effects.flood(value)
            return
        say = self._command.log if to == "log" else self._command.progress
        for _ in range(value["lines"]):
            say("x" * value["bytes"])

    def _send(self, given: Mapping[str, Any]) -> None:
        """Send an event with overridden fields; null removes a field."""
        event = protocol.event(
            message_id=Ids().new("msg"),
            correlation_id=self._command.message["correlation_id"],
            task_id=self._command.task_id,
            agent_type=self._type,
            event="builder.progress",
            payload={},
            snapshot_id=self._command.snapshot_id,
            occurred_at=timestamp(self._effects.clock.now()),
        )
        sent = {name: value for name, value in {**event, **given}.items() if value is not None}
        self._effects.send(compact_json(sent) + b"\n")

    def _filled(self, text: str) -> str:
        return fill(text, self._placeholders)
