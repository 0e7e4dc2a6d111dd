"""Chat script: a chat agent that plays a scenario, well behaved or not.

Owns what each step of a chat does. What a scenario may say is `scenarios.py`'s business.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from onceward.agents import artifacts
from onceward.agents.cache import cache_folder
from onceward.agents.chat import Chat, ChatAgent
from onceward.agents.chat_messages import AGENT_TYPE, ChatMessage
from onceward.agents.prompts import chat_parts, fill
from onceward.agents.scenarios import DELAY_SECONDS_MAX, Scenario, by_round
from onceward.agents.stage import Stage
from onceward.errors import AgentFailed
from onceward.journal import atomic
from onceward.keys import compact_json
from onceward.seams import Clock


def chat_script_agent(
    scenario: Scenario,
    *,
    wire: BinaryIO,
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> ChatAgent:
    """Return a chat agent that does what the scenario says; it says nothing of its own.

    `wire` is another door to the agent's stdout, for what no well-behaved agent would send.
    """
    env = os.environ if environ is None else environ
    agent = ChatAgent(environ=env)
    kept = cache_folder(AGENT_TYPE, agent.workspace, env)
    stage = Stage(wire=wire, notes=kept / "script-once.txt", clock=clock)

    @agent.on_message
    def play(chat: Chat) -> None:
        _Play(chat, stage).play(scenario)

    return agent


class _Play:
    """One delivery being played."""

    def __init__(self, chat: Chat, stage: Stage) -> None:
        self._chat = chat
        self._stage = stage
        self._parts = chat_parts(chat.group, chat.messages)
        #: What is at hand; follow-ups join it when they are taken.
        self._messages: list[ChatMessage] = list(chat.messages)
        self._counting: list[Path] = []
        self._acts: Mapping[str, Callable[[Any], None]] = {
            "reply": self._reply,
            "echo": self._echo,
            "follow_ups": self._take_follow_ups,
            "fail": self._fail,
            "ignore": lambda _: stage.clock.sleep(DELAY_SECONDS_MAX),
            "write": self._write,
            "delay": stage.clock.sleep,
            "log": lambda text: chat.log(self._filled(text)),
            "error": self._raise,
            "flood": self._flood,
            "crash": stage.crash,
            "garbage": stage.garbage,
            "silence": stage.fall_silent,
            "oversized": stage.oversized,
            "send": lambda given: stage.send(compact_json(given) + b"\n"),
            "count": self._count,
        }

    def play(self, scenario: Scenario) -> None:
        """Do all that is due; what comes again after a failure begins with the same message."""
        key = f"{self._chat.group} {self._messages[0].id}"
        if scenario.count is not None:
            self._count(scenario.count)
        for step in scenario.chat_steps(self._chat.text):
            if self._stage.is_due(step, key):
                self._acts[step.kind](step.value)
        self._note("completed", self._messages)

    # --- the steps -------------------------------------------------------------------------------

    def _reply(self, value: str | Mapping[str, str]) -> None:
        given = value if isinstance(value, Mapping) else {"text": value}
        key = given.get("key")
        self._chat.reply(
            self._filled(given["text"]), key=None if key is None else self._filled(key)
        )

    def _echo(self, _: object) -> None:
        for each in self._messages:
            self._chat.reply(each.text)

    def _take_follow_ups(self, _: object) -> None:
        taken = self._chat.follow_ups()
        self._messages += taken
        self._note("started", taken)

    def _fail(self, said: str) -> NoReturn:
        raise AgentFailed(self._filled(said), code="SCRIPTED_FAILURE", retryable=True)

    def _raise(self, value: Mapping[str, Any]) -> NoReturn:
        said, is_retryable = self._filled(value["message"]), value.get("retryable", False)
        raise AgentFailed(said, code=value["code"], retryable=is_retryable)

    def _write(self, value: Mapping[str, Any]) -> None:
        path, content = self._filled(value["path"]), self._filled(by_round(value["content"], 1))
        artifacts.check_path(path, self._chat.workspace)
        atomic.write(self._chat.workspace / path, content.encode(), files=self._stage.files)

    def _flood(self, value: Mapping[str, Any]) -> None:
        if value.get("to") not in ("log", "progress"):
            self._stage.flood(value)
            return
        for _ in range(value["lines"]):
            self._chat.log("x" * value["bytes"])

    def _count(self, place: str) -> None:
        """Note which messages were begun, and at the end which were completed."""
        path = self._chat.workspace / self._filled(place)
        self._counting.append(path)
        self._note("started", self._messages, [path])

    def _note(
        self, word: str, messages: Sequence[ChatMessage], paths: Sequence[Path] | None = None
    ) -> None:
        for path in self._counting if paths is None else paths:
            for each in messages:
                self._stage.add_line(path, f"{word} {each.id}")

    def _filled(self, text: str) -> str:
        return fill(text, self._parts)
