"""Script: an agent that plays a scenario, well behaved or not, for demonstrations and tests.

Owns what each step does to the world. What a scenario may say is `scenarios.py`'s business.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

from onceward.agents import artifacts, messages
from onceward.agents.cache import cache_folder
from onceward.agents.kit import Agent, Command
from onceward.agents.prompts import fill
from onceward.agents.results import Result
from onceward.agents.scenarios import ACTIONS, Scenario, Step, by_round
from onceward.agents.stage import Stage
from onceward.errors import OncewardError
from onceward.journal import atomic
from onceward.keys import compact_json
from onceward.seams import Clock, Ids, timestamp

#: What an agent says when its scenario gives no answer.
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
    """Return an agent that does what the scenario says, and nothing that it does not say.

    `wire` is another door to the agent's stdout, for what no well-behaved agent would send.
    """
    env = os.environ if environ is None else environ
    # What it does beside its answer, such as to count, it does in each run.
    agent = Agent(type, version="", environ=env)
    kept = cache_folder(type, agent.workspace, env)
    stage = Stage(wire=wire, notes=kept / "script-once.txt", clock=clock)
    player = _Player(scenario, agent, stage)
    agent.on(*ACTIONS)(player.play)
    return agent


class _Player:
    """Plays the scenario, command by command."""

    def __init__(self, scenario: Scenario, agent: Agent, stage: Stage) -> None:
        self._scenario = scenario
        self._agent = agent
        self._stage = stage

    def play(self, command: Command) -> Result:
        """Do the steps for this command, and answer."""
        play = _Play(command, self._agent.type, self._stage)
        if self._scenario.count is not None:
            play.count(self._scenario.count)
        steps = self._scenario.steps(
            task_id=command.task_id, action=command.action, round=play.round
        )
        for step in steps:
            if self._stage.is_due(step, command.key):
                play.do(step)
        return play.end()


class _Play:
    """One command being played."""

    def __init__(self, command: Command, agent_type: str, stage: Stage) -> None:
        self._command = command
        self._stage = stage
        self._type = agent_type
        given = command.inputs.get("round", 1)
        self.round: int = given if isinstance(given, int) and given > 0 else 1
        self._parts = {
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
            "delay": stage.clock.sleep,
            "progress": lambda text: command.progress(self._filled(text)),
            "log": lambda text: command.log(self._filled(text)),
            "error": self._fail,
            "flood": self._flood,
            "crash": stage.crash,
            "garbage": stage.garbage,
            "silence": stage.fall_silent,
            "oversized": stage.oversized,
            "send": self._send,
            "count": self.count,
        }

    def do(self, step: Step) -> None:
        """Do one step."""
        self._acts[step.kind](step.value)

    def count(self, place: str) -> None:
        """Note that this was started, and at its end that it was completed."""
        path = self._command.workspace / self._filled(place)
        self._stage.add_line(path, f"started {self._command.key}")
        self._counting.append(path)

    def end(self) -> Result:
        """Return the answer, counted."""
        result = self._result()
        for path in self._counting:
            self._stage.add_line(path, f"completed {self._command.key}")
        return result

    def _result(self) -> Result:
        said = self._answer
        payload = dict(said.get("payload", {}))
        if "comments" in said:
            payload["comments"] = [
                self._filled(each) if isinstance(each, str) else each for each in said["comments"]
            ]
        default = _DEFAULTS[self._type]
        if self._type == "builder":
            tests = said.get("tests", "unchecked")
            tests = dict(tests) if isinstance(tests, Mapping) else {"status": tests}
            if "allowed_failures" in said:
                tests["allowed_failures"] = said["allowed_failures"]
            payload.setdefault("tests", tests)
        elif self._type == "spec_maintainer" and self._written:
            default = "updated"
        paths = said.get("artifacts", self._written)
        filled = tuple(dict.fromkeys(self._filled(path) for path in paths))
        return Result(status=said.get("status", default), payload=payload, artifacts=filled)

    # --- the steps -------------------------------------------------------------------------------

    def _keep_answer(self, value: Any) -> None:  # noqa: ANN401 - an object, or a list by round
        self._answer = by_round(value, self.round)

    def _write(self, value: Mapping[str, Any]) -> None:
        path = self._filled(value["path"])
        content = self._filled(by_round(value["content"], self.round))
        artifacts.check_path(path, self._command.workspace)
        atomic.write(self._command.workspace / path, content.encode(), files=self._stage.files)
        self._written.append(path)

    def _fail(self, value: Mapping[str, Any]) -> NoReturn:
        fields = {"code": value["code"], "retryable": value.get("retryable", False)}
        raise type("ScriptedFailure", (OncewardError,), fields)(self._filled(value["message"]))

    def _flood(self, value: Mapping[str, Any]) -> None:
        to = value.get("to", "stdout")
        if to not in ("log", "progress"):
            self._stage.flood(value)
            return
        say = self._command.log if to == "log" else self._command.progress
        for _ in range(value["lines"]):
            say("x" * value["bytes"])

    def _send(self, given: Mapping[str, Any]) -> None:
        """Send an event of any shape; what is not given is right, what is null is left out."""
        event = messages.event(
            message_id=Ids().new("msg"),
            correlation_id=self._command.message["correlation_id"],
            task_id=self._command.task_id,
            agent_type=self._type,
            event="builder.progress",
            payload={},
            snapshot_id=self._command.snapshot_id,
            occurred_at=timestamp(self._stage.clock.now()),
        )
        sent = {name: value for name, value in {**event, **given}.items() if value is not None}
        self._stage.send(compact_json(sent) + b"\n")

    def _filled(self, text: str) -> str:
        return fill(text, self._parts)
