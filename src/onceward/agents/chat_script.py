"""Chat script: a chat agent that runs a scenario, for demos and for tests of misbehaviour.

Defines what each chat step does. `scenarios.py` validates the scenario file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from onceward.agents import artifacts
from onceward.agents.answer_cache import cache_folder
from onceward.agents.chat import Chat, ChatAgent
from onceward.agents.chat_messages import AGENT_TYPE, ChatMessage
from onceward.agents.prompts import chat_placeholders, fill
from onceward.agents.scenarios import DELAY_SECONDS_MAX, Scenario, by_round
from onceward.agents.script_effects import ScriptEffects
from onceward.errors import AgentFailed
from onceward.journal import atomic_file
from onceward.keys import compact_json
from onceward.system import Clock


def chat_script_agent(
    scenario: Scenario,
    *,
    wire: BinaryIO,
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> ChatAgent:
    """Return a chat agent that runs the scenario and sends nothing else.

    `wire` writes raw bytes to the agent's stdout, for output that violates the protocol.
    """
    env = os.environ if environ is None else environ
    agent = ChatAgent(environ=env)
    cache_directory = cache_folder(AGENT_TYPE, agent.workspace, env)
    effects = ScriptEffects(wire=wire, once_file=cache_directory / "script-once.txt", clock=clock)

    @agent.on_message
    def play(chat: Chat) -> None:
        _ChatPlayer(chat, effects).play(scenario)

    return agent


class _ChatPlayer:
    """Runs the scenario for one delivery."""

    def __init__(self, chat: Chat, effects: ScriptEffects) -> None:
        self._chat = chat
        self._effects = effects
        self._placeholders = chat_placeholders(chat.group, chat.messages)
        #: The messages of the delivery and of the follow-ups taken so far.
        self._messages: list[ChatMessage] = list(chat.messages)
        self._counting: list[Path] = []
        self._acts: Mapping[str, Callable[[Any], None]] = {
            "reply": self._reply,
            "echo": self._echo,
            "follow_ups": self._take_follow_ups,
            "fail": self._fail,
            "ignore": lambda _: effects.clock.sleep(DELAY_SECONDS_MAX),
            "write": self._write,
            "delay": effects.clock.sleep,
            "log": lambda text: chat.log(self._filled(text)),
            "error": self._raise,
            "flood": self._flood,
            "crash": effects.crash,
            "garbage": effects.garbage,
            "silence": effects.freeze,
            "oversized": effects.oversized,
            "send": lambda given: effects.send(compact_json(given) + b"\n"),
            "count": self._count,
        }

    def play(self, scenario: Scenario) -> None:
        """Run the steps that are due. A redelivery after a failure has the same first message."""
        key = f"{self._chat.group} {self._messages[0].id}"
        if scenario.count is not None:
            self._count(scenario.count)
        for step in scenario.chat_steps(self._chat.text):
            if self._effects.is_due(step, key):
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

    def _fail(self, message: str) -> NoReturn:
        raise AgentFailed(self._filled(message), code="SCRIPTED_FAILURE", retryable=True)

    def _raise(self, value: Mapping[str, Any]) -> NoReturn:
        message, is_retryable = self._filled(value["message"]), value.get("retryable", False)
        raise AgentFailed(message, code=value["code"], retryable=is_retryable)

    def _write(self, value: Mapping[str, Any]) -> None:
        path, content = self._filled(value["path"]), self._filled(by_round(value["content"], 1))
        artifacts.check_path(path, self._chat.workspace)
        atomic_file.write(self._chat.workspace / path, content.encode(), files=self._effects.files)

    def _flood(self, value: Mapping[str, Any]) -> None:
        if value.get("to") not in ("log", "progress"):
            self._effects.flood(value)
            return
        for _ in range(value["lines"]):
            self._chat.log("x" * value["bytes"])

    def _count(self, place: str) -> None:
        """Record in a file which messages were started, and at the end which completed."""
        path = self._chat.workspace / self._filled(place)
        self._counting.append(path)
        self._note("started", self._messages, [path])

    def _note(
        self, word: str, messages: Sequence[ChatMessage], paths: Sequence[Path] | None = None
    ) -> None:
        for path in self._counting if paths is None else paths:
            for each in messages:
                self._effects.add_line(path, f"{word} {each.id}")

    def _filled(self, text: str) -> str:
        return fill(text, self._placeholders)
