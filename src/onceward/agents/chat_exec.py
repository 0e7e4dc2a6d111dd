"""Chat exec: any program as a chat agent. What people said goes in; what it prints is the answer.

Owns what a program's end means for the messages it was run for. How prompts read and programs run
is each a module of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward.agents.cache import cache_folder
from onceward.agents.chat import Chat, ChatAgent
from onceward.agents.chat_messages import AGENT_TYPE, TEXT_BYTES_MAX
from onceward.agents.exec import failure
from onceward.agents.output import Output
from onceward.agents.programs import Program, run_program
from onceward.agents.prompts import as_argument, chat_prompt
from onceward.errors import AgentFailed, InvalidArgument
from onceward.seams import Clock, SystemClock
from onceward.secrets import Redactor

#: No program runs longer; the dispatcher ends the agent long before, with all that it started.
SECONDS_MAX: Final = 86_400.0
_CUT: Final = "…"


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatWrapping:
    """How a program is made a chat agent."""

    #: The program and its arguments.
    program: tuple[str, ...]
    #: A prompt with placeholders; without, one that lists who said what.
    template: str | None = None
    #: Whether the prompt is the program's last argument instead of its standard input.
    is_argument: bool = False
    #: How long the program may take.
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work before anybody says anything."""
        if not self.program or not self.program[0]:
            message = "program: is missing"
            fix = "say a program and its arguments after `--`"
            raise InvalidArgument(message, fix=fix, field="program")
        if self.seconds is not None and self.seconds <= 0:
            message = "--timeout: must be more than 0"
            raise InvalidArgument(message, fix="say seconds, such as 300", field="timeout")


def chat_exec_agent(
    wrapping: ChatWrapping,
    *,
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> ChatAgent:
    """Return a chat agent that runs the program for what people say."""
    env = dict(os.environ if environ is None else environ)
    agent = ChatAgent(environ=env)
    kept = cache_folder(AGENT_TYPE, agent.workspace, env)
    worker = _Worker(wrapping, env, kept, clock or SystemClock())
    agent.on_message(worker.answer)
    return agent


class _Worker:
    """Answers by running the program."""

    def __init__(
        self, wrapping: ChatWrapping, env: Mapping[str, str], kept: Path, clock: Clock
    ) -> None:
        self._wrapping = wrapping
        self._env = env
        self._kept = kept
        self._clock = clock
        self._redactor = Redactor.from_environment(env)

    def answer(self, chat: Chat) -> str:
        """Run the program with all that was said by now, and return what it prints."""
        wrapping = self._wrapping
        text = chat_prompt(chat.group, (*chat.messages, *chat.follow_ups()), wrapping.template)
        self._kept.mkdir(parents=True, exist_ok=True)
        program = Program(
            command=(*wrapping.program, as_argument(text, wrapping.template))
            if wrapping.is_argument
            else wrapping.program,
            directory=chat.workspace,
            environment={
                **self._env,
                "ONCEWARD_GROUP": chat.group,
                "ONCEWARD_RUN": chat.run_id,
            },
            seconds=wrapping.seconds or SECONDS_MAX,
            stdin=None if wrapping.is_argument else text,
            lock=self._kept / "program.lock",
        )
        output = Output(lambda _: None, self._redactor, self._clock)
        ended = run_program(program, on_line=output.line, clock=self._clock)
        if ended.exit_code != 0:
            problem = failure(wrapping.program, ended, program.seconds)
            # Nobody has seen anything of it, so that it can be tried again whatever it was.
            raise AgentFailed(problem.message, code=problem.code, retryable=True)
        return _said(ended.stdout)


def _said(stdout: str) -> str:
    """Return an answer without the empty lines around it; of too long a one, the end."""
    text = stdout.strip("\n").rstrip()
    body = text.encode()
    if len(body) <= TEXT_BYTES_MAX:
        return text
    room = TEXT_BYTES_MAX - len(_CUT.encode())
    return _CUT + body[-room:].decode(errors="ignore")
