"""Script: an agent that plays a scenario, well behaved or not, for demonstrations and tests.

Owns what each step does to the world. What a scenario may say is `scenarios.py`'s business.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

from onceward.agents import artifacts, messages
from onceward.agents.kit import Agent, Command
from onceward.agents.prompts import fill
from onceward.agents.results import Result
from onceward.agents.scenarios import ACTIONS, Scenario, Step, by_round
from onceward.errors import OncewardError
from onceward.journal import atomic
from onceward.journal.locked import give_back, open_locked
from onceward.keys import compact_json
from onceward.seams import Clock, Files, Ids, SystemClock, SystemFiles, timestamp

#: What an agent says when its scenario gives no answer.
_DEFAULTS: Final = {
    "builder": "completed",
    "reviewer": "approved",
    "spec_maintainer": "no_changes_needed",
}
_FLOOD_BATCH: Final = 256


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
    agent = Agent(type, environ=env)
    cache = env.get("ONCEWARD_AGENT_CACHE")
    kept = Path(cache) if cache else agent.workspace / "state" / "cache" / type
    world = _World(agent=agent, wire=wire, clock=clock or SystemClock(), files=SystemFiles())
    player = _Player(scenario, world, kept / "script-once.txt")
    agent.on(*ACTIONS)(player.play)
    return agent


@dataclass(frozen=True, kw_only=True, slots=True)
class _World:
    """All that steps touch."""

    agent: Agent
    wire: BinaryIO
    clock: Clock
    files: Files

    def add_line(self, path: Path, line: str) -> None:
        """Add a line to a file, on disk when this returns."""
        file, _ = open_locked(path, self.files)
        try:
            file.write(line.encode() + b"\n")
            file.sync()
        finally:
            give_back(file)

    def send(self, data: bytes) -> None:
        """Send bytes that need not be a message."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.wire.write(rest) :]


class _Player:
    """Plays the scenario, command by command."""

    def __init__(self, scenario: Scenario, world: _World, notes: Path) -> None:
        self._scenario = scenario
        self._world = world
        #: Which steps have had their one time.
        self._notes = notes

    def play(self, command: Command) -> Result:
        """Do the steps for this command, and answer."""
        play = _Play(command, self._world)
        if self._scenario.count is not None:
            play.count(self._scenario.count)
        steps = self._scenario.steps(
            task_id=command.task_id, action=command.action, round=play.round
        )
        for step in steps:
            if self._is_due(step, command.key):
                play.do(step)
        return play.end()

    def _is_due(self, step: Step, key: str) -> bool:
        """Say whether to do a step; what happens once is noted first, as it may be the end."""
        if not step.is_once:
            return True
        note = f"{key} {step.place}"
        if self._notes.is_file() and note in self._notes.read_text(encoding="utf-8").splitlines():
            return False
        self._world.add_line(self._notes, note)
        return True


class _Play:
    """One command being played."""

    def __init__(self, command: Command, world: _World) -> None:
        self._command = command
        self._world = world
        self._type = world.agent.type
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
            "delay": world.clock.sleep,
            "progress": lambda text: command.progress(self._filled(text)),
            "log": lambda text: command.log(self._filled(text)),
            "error": self._fail,
            "flood": self._flood,
            "crash": self._crash,
            "garbage": lambda text: world.send(text.encode() + b"\n"),
            "silence": self._fall_silent,
            "oversized": lambda size: world.send(b"x" * (size - 1) + b"\n"),
            "send": self._send,
            "count": self.count,
        }

    def do(self, step: Step) -> None:
        """Do one step."""
        self._acts[step.kind](step.value)

    def count(self, place: str) -> None:
        """Note that this was started, and at its end that it was completed."""
        path = self._command.workspace / self._filled(place)
        self._world.add_line(path, f"started {self._command.key}")
        self._counting.append(path)

    def end(self) -> Result:
        """Return the answer, counted."""
        result = self._result()
        for path in self._counting:
            self._world.add_line(path, f"completed {self._command.key}")
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
            tests = said.get("tests", "pass")
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
        atomic.write(self._command.workspace / path, content.encode(), files=self._world.files)
        self._written.append(path)

    def _fail(self, value: Mapping[str, Any]) -> NoReturn:
        fields = {"code": value["code"], "retryable": value.get("retryable", False)}
        raise type("ScriptedFailure", (OncewardError,), fields)(self._filled(value["message"]))

    def _flood(self, value: Mapping[str, Any]) -> None:
        count, size, to = value["lines"], value["bytes"], value.get("to", "stdout")
        if to in ("log", "progress"):
            say = self._command.log if to == "log" else self._command.progress
            for _ in range(count):
                say("x" * size)
            return
        line = b"x" * (size - 1) + b"\n"
        for start in range(0, count, _FLOOD_BATCH):
            batch = line * min(_FLOOD_BATCH, count - start)
            if to == "stdout":
                self._world.send(batch)
            else:
                sys.stderr.buffer.write(batch)
        sys.stderr.buffer.flush()

    def _crash(self, how: str) -> None:
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(int(how.removeprefix("exit:")))

    def _fall_silent(self, _: object) -> None:
        """Stop the whole process, heartbeat and all; only a signal from outside helps."""
        os.kill(os.getpid(), signal.SIGSTOP)

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
            occurred_at=timestamp(self._world.clock.now()),
        )
        sent = {name: value for name, value in {**event, **given}.items() if value is not None}
        self._world.send(compact_json(sent) + b"\n")

    def _filled(self, text: str) -> str:
        return fill(text, self._parts)
