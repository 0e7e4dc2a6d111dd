"""Chat exec: wrap any program as a chat agent. Messages go in, its output is the reply.

Decides what a program's exit means for the messages that it was run for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward.agents import program_lock
from onceward.agents.answer_cache import cache_folder
from onceward.agents.chat import Chat, ChatAgent
from onceward.agents.chat_messages import AGENT_TYPE, TEXT_BYTES_MAX
from onceward.agents.exec import program_error
from onceward.agents.program_output import ProgramOutput
from onceward.agents.program_run import Program, run_program
from onceward.agents.prompts import as_argument, chat_prompt
from onceward.errors import AgentFailed, InvalidArgument
from onceward.system import Clock, SystemClock
from onceward.system.redaction import Redactor

#: Longest run of a program. The dispatcher kills the agent's process group long before.
SECONDS_MAX: Final = 86_400.0
_CUT: Final = "…"


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatExecOptions:
    """How to run a program as a chat agent."""

    #: The program and its arguments.
    program: tuple[str, ...]
    #: A prompt with placeholders. Default: a prompt that lists senders and messages.
    template: str | None = None
    #: Whether the prompt is the program's last argument instead of its standard input.
    is_argument: bool = False
    #: Timeout of the program.
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Reject invalid options at start, before any message arrives."""
        if not self.program or not self.program[0]:
            message = "program: is missing or empty; the agent was not started"
            fix = "pass a program and its arguments after `--`"
            raise InvalidArgument(message, fix=fix, field="program")
        if self.seconds is not None and not self.seconds > 0:
            seconds = f"{self.seconds:g}"
            message = f"--timeout: must be more than 0, not {seconds}; the agent was not started"
            raise InvalidArgument(
                message, fix="pass a number of seconds, such as 300", field="timeout"
            )


def chat_exec_agent(
    options: ChatExecOptions,
    *,
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> ChatAgent:
    """Return a chat agent that runs the program for each delivery."""
    env = dict(os.environ if environ is None else environ)
    agent = ChatAgent(environ=env)
    cache_directory = cache_folder(AGENT_TYPE, agent.workspace, env)
    runner = _ChatProgramRunner(options, env, cache_directory, clock or SystemClock())
    agent.on_message(runner.answer)
    return agent


class _ChatProgramRunner:
    """Answers deliveries by running the program."""

    def __init__(
        self, options: ChatExecOptions, env: Mapping[str, str], cache_directory: Path, clock: Clock
    ) -> None:
        self._options = options
        self._env = env
        self._cache_directory = cache_directory
        self._clock = clock
        self._redactor = Redactor.from_environment(env)

    def answer(self, chat: Chat) -> str:
        """Run the program with all messages so far, and return its output."""
        options = self._options
        text = chat_prompt(chat.group, (*chat.messages, *chat.follow_ups()), options.template)
        self._cache_directory.mkdir(parents=True, exist_ok=True)
        program = Program(
            command=(*options.program, as_argument(text, options.template))
            if options.is_argument
            else options.program,
            directory=chat.workspace,
            environment={
                **self._env,
                "ONCEWARD_GROUP": chat.group,
                "ONCEWARD_RUN": chat.run_id,
            },
            seconds=options.seconds or SECONDS_MAX,
            stdin=None if options.is_argument else text,
            lock=self._cache_directory / program_lock.FILE_NAME,
        )
        output = ProgramOutput(lambda _: None, self._redactor, self._clock)
        result = run_program(program, on_line=output.line, clock=self._clock)
        if result.exit_code != 0:
            error = program_error(options.program, result, program.seconds)
            # No part of the output was sent, so any failure can be retried.
            raise AgentFailed(error.message, code=error.code, retryable=True)
        return _reply_text(result.stdout)


def _reply_text(stdout: str) -> str:
    """Return the output without surrounding empty lines; if too long, only its end."""
    text = stdout.strip("\n").rstrip()
    body = text.encode()
    if len(body) <= TEXT_BYTES_MAX:
        return text
    bytes_left = TEXT_BYTES_MAX - len(_CUT.encode())
    return _CUT + body[-bytes_left:].decode(errors="ignore")
