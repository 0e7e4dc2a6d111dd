"""Supervisor: agents that are started when needed, watched while they work, and ended in time.

Owns one process per type of agent, its restarts, its heartbeats and its deadlines. A command goes
in, its answer or the reason why there is none comes out. Knows neither the flow of a run nor where
anything is recorded: everything worth recording is told to a callback before it takes effect.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from onceward.agents import messages
from onceward.agents.limits import AgentSpec, Limits
from onceward.agents.lines import Arrival
from onceward.agents.messages import Message
from onceward.agents.process import AgentLog, AgentProcess
from onceward.agents.receiving import Receiver, Work
from onceward.crash import crash_point
from onceward.errors import AgentFailed
from onceward.keys.canonical import compact_json
from onceward.retries.schedule import AGENTS
from onceward.seams import (
    Clock,
    Files,
    Ids,
    Randomness,
    SystemClock,
    SystemFiles,
    SystemRandomness,
)
from onceward.secrets import Redactor

__all__ = ["AgentSpec", "Limits", "Supervisor"]

#: How long an agent may take to end by itself when the run does.
STOP_SECONDS: Final = 2.0
#: For an action without a limit of its own.
TIMEOUT_SECONDS: Final = 600.0

#: Nothing is waited for longer without looking at the rest.
_LOOK_SECONDS: Final = 0.1
#: Who was away for longer than this cannot blame others for their silence.
_AWAY_SECONDS: Final = 1.0

On = Callable[[str, dict[str, object]], None]


class _Post:
    """The place of one agent: who stands there now, and how often it was filled."""

    def __init__(self, spec: AgentSpec, log: AgentLog) -> None:
        self.spec = spec
        self.log = log
        self.process: AgentProcess | None = None
        self.restarts = 0
        #: Why the last one is gone; empty if nothing was wrong with that.
        self.lost = ""
        #: When it last gave a sign of life, and whether it ever did.
        self.alive_at = 0.0
        self.has_beaten = False
        self.noise: Counter[str] = Counter()
        self.examples: dict[str, str] = {}


class _Lost(Exception):
    """The agent is gone, and its command is unanswered."""


class Supervisor:
    """The agents of one run."""

    def __init__(  # noqa: PLR0913 - what differs between runs comes by name
        self,
        specs: Mapping[str, AgentSpec],
        *,
        workspace: Path,
        run_id: str,
        limits: Limits,
        redactor: Redactor,
        on: On,
        environ: Mapping[str, str] | None = None,
        files: Files | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """Start nobody yet."""
        self._workspace = workspace.resolve()
        self._run_id = run_id
        self._limits = limits
        self._redactor = redactor
        self._on = on
        self._environ = dict(os.environ if environ is None else environ)
        self._clock = clock or SystemClock()
        self._ids = ids or Ids()
        self._randomness = randomness or SystemRandomness()
        self._receiver = Receiver(self._workspace, redactor, limits.line_bytes_max)
        self._is_stopping = False
        disk = files or SystemFiles()
        self._posts = {
            name: _Post(spec, AgentLog(self._log_path(name), files=disk))
            for name, spec in specs.items()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def call(self, command: Message, *, on_event: Callable[[Message], None]) -> Message:
        """Have a command done, and return the event that ends it.

        `on_event` gets what happens on the way. An agent that dies is started again and gets the
        same command under a new message id. Raises AgentFailed when there is no answer, or when
        the answer is an error, which it then carries as `context["event"]`.
        """
        line = self._line(command)
        post = self._post_of(command)
        self._check_stopping()
        seconds = self._limits.timeout_seconds.get(command["action"], TIMEOUT_SECONDS)
        work = Work(
            command=command,
            agent=post.spec.type,
            deadline=self._clock.monotonic() + seconds,
            on_event=on_event,
            on_log=lambda message: self._log(post, message),
            on_beat=lambda: self._beaten(post),
            on_noise=lambda problem, example: _note(post, problem, example),
        )
        try:
            while True:
                process = self._filled(post, work)
                try:
                    self._send(process, line)
                    return self._awaited(post, process, work)
                except _Lost:
                    line = self._line({**command, "message_id": self._ids.new("msg")})
        finally:
            self._rest(post)

    def interrupt(self) -> None:
        """Let the current call end soon with AgentFailed STOPPED; safe in a signal handler."""
        self._is_stopping = True

    def stop(self) -> None:
        """End all agents: let them see the end of stdin, wait a little, then end the groups."""
        self._is_stopping = True
        standing = [(post, post.process) for post in self._posts.values() if post.process]
        for _, process in standing:
            process.close_stdin()
        until = self._clock.monotonic() + STOP_SECONDS
        for _, process in standing:
            process.wait(until - self._clock.monotonic())
        with ExitStack() as rest:  # Whatever one of these raises, the others are done.
            for post in self._posts.values():
                rest.callback(post.log.close)
            for post, process in standing:
                rest.callback(self._give_up, post, process, "stopped")

    # --- who stands where ------------------------------------------------------------------------

    def _post_of(self, command: Message) -> _Post:
        wanted = command["to"]["agent_type"]
        post = self._posts.get(wanted)
        if post is None:
            message = f"no {wanted} is configured"
            fix = f"add agents.{wanted} to onceward.json"
            raise AgentFailed(message, code="NO_AGENT", retryable=False, fix=fix)
        return post

    def _filled(self, post: _Post, work: Work) -> AgentProcess:
        """Return the agent that stands there, started if need be."""
        if post.process is not None and post.process.has_exited:
            # Whoever ends well between two commands is not held to have failed.
            self._ended(post, post.process, work, "it ended between two commands", is_fine=True)
        if post.process is None:
            if post.lost:
                self._back_off(post, work)
            self._start(post)
        assert post.process is not None
        post.process.expect(work.command["correlation_id"])
        # Nobody listened to its heartbeats between two commands.
        post.alive_at = work.looked_at = self._clock.monotonic()
        return post.process

    def _start(self, post: _Post) -> None:
        env = {
            **self._environ,
            **post.spec.env,
            "ONCEWARD_WORKSPACE": str(self._workspace),
            "ONCEWARD_AGENT": post.spec.type,
            "ONCEWARD_AGENT_CACHE": str(self._workspace / "state" / "cache" / post.spec.type),
            "ONCEWARD_HEARTBEAT_SECONDS": f"{self._limits.heartbeat_seconds:g}",
            "ONCEWARD_RUN": self._run_id,
        }
        post.process = process = AgentProcess(
            post.spec.command,
            env=env,
            cwd=self._workspace,
            log=post.log,
            redactor=self._redactor,
            line_bytes_max=self._limits.line_bytes_max,
            clock=self._clock,
        )
        post.has_beaten, post.lost = False, ""
        self._tell("agent.started", post, **process.identity.to_fields())

    def _back_off(self, post: _Post, work: Work) -> None:
        if post.restarts >= self._limits.restarts_max:
            message = (
                f"the {post.spec.type} was started again {post.restarts} times, "
                f"and is gone once more: {post.lost}"
            )
            fix = f"read its log {self._log_path(post.spec.type)}"
            raise AgentFailed(message, code="AGENT_DIED", retryable=False, fix=fix)
        post.restarts += 1
        delay = AGENTS.delay(post.restarts, self._randomness) or 0.0
        shown = round(delay, 3)
        self._tell("agent.restarting", post, restart=post.restarts, delay_s=shown, reason=post.lost)
        until = self._clock.monotonic() + delay
        while (left := until - self._clock.monotonic()) > 0:
            self._check_stopping()
            if self._clock.monotonic() >= work.deadline:
                self._time_out(post, work)
            self._clock.sleep(min(left, _LOOK_SECONDS))

    def _ended(
        self, post: _Post, process: AgentProcess, work: Work, reason: str, *, is_fine: bool = False
    ) -> None:
        """End what is left of an agent, and hear its last words; the answer may be among them."""
        code = self._give_up(post, process, reason)
        post.lost = "" if is_fine and code == 0 else f"{reason} ({_shown(code)})"
        self._take(post, work, process.messages(0))
        _count_dropped(post, process)

    def _give_up(self, post: _Post, process: AgentProcess, reason: str) -> int:
        post.process = None
        code = process.kill()
        end = {"code": code} if code >= 0 else {"signal": -code}
        self._tell("agent.exited", post, pid=process.pid, **end, reason=reason)
        return code

    # --- one command -----------------------------------------------------------------------------

    def _line(self, command: Message) -> bytes:
        """Return a command as it is sent; raise AgentFailed when it fits into no line."""
        line, limit = messages.encode(command, line_bytes_max=sys.maxsize), self._limits
        if len(line) <= limit.line_bytes_max:
            return line
        message = (
            f"the command {command['action']} takes {len(line)} bytes, "
            f"and a line has at most {limit.line_bytes_max}"
        )
        fix = "put big inputs, and what agents answer at length, into files, and name the files"
        raise AgentFailed(message, code="COMMAND_TOO_BIG", retryable=False, fix=fix)

    def _send(self, process: AgentProcess, line: bytes) -> None:
        crash_point("agents.send.before_write")
        process.send(line, timeout=_LOOK_SECONDS)
        crash_point("agents.send.after_write")

    def _awaited(self, post: _Post, process: AgentProcess, work: Work) -> Message:
        while True:
            now = self._clock.monotonic()
            self._take(post, work, process.messages(min(_LOOK_SECONDS, work.deadline - now)))
            if work.answer is not None:
                return work.result()
            self._check_stopping()
            trouble = self._trouble(post, process, work)
            if trouble:
                self._ended(post, process, work, trouble)
                if work.answer is not None:
                    return work.result()
                if self._clock.monotonic() >= work.deadline:
                    self._time_out(post, work)
                raise _Lost

    def _take(self, post: _Post, work: Work, arrivals: list[Arrival]) -> None:
        try:
            for each in arrivals:
                self._receiver.take(each, work)
        except AgentFailed as exc:
            # It breaks the rules and may still be at work; nobody would hear of its answer.
            if work.answer is None and post.process is not None:
                post.lost = exc.message
                self._give_up(post, post.process, exc.message)
            raise

    def _trouble(self, post: _Post, process: AgentProcess, work: Work) -> str:
        """Return why this agent must be given up, or nothing."""
        now = self._clock.monotonic()
        away, work.looked_at = now - work.looked_at, now
        if away > _AWAY_SECONDS:
            post.alive_at += away
        if now >= work.deadline:
            return "deadline"
        # Who has closed stdin is most often about to end.
        if process.has_exited or (process.is_deaf and process.wait(_LOOK_SECONDS)):
            return "it ended without an answer"
        if process.is_deaf:
            return "it closed its stdin"
        allowed = self._limits.silence_seconds_max
        if not post.has_beaten:
            allowed = max(allowed, self._limits.start_seconds)
        silent = now - post.alive_at
        return f"no heartbeat for {silent:.1f} s" if silent > allowed else ""

    def _check_stopping(self) -> None:
        if self._is_stopping:
            message = "the run was stopped"
            raise AgentFailed(message, code="STOPPED", retryable=True)

    def _time_out(self, post: _Post, work: Work) -> NoReturn:
        action = work.command["action"]
        seconds = self._limits.timeout_seconds.get(action, TIMEOUT_SECONDS)
        seen = ", ".join(f"{problem} ({count})" for problem, count in sorted(post.noise.items()))
        message = f"the {post.spec.type} has not answered {action} in {seconds:g} s"
        message += f"; what it sent instead: {seen}" if seen else ""
        fix = f"read its log {self._log_path(post.spec.type)}, or raise the limit of {action}"
        raise AgentFailed(message, code="TIMEOUT", retryable=True, fix=fix)

    # --- what is told ----------------------------------------------------------------------------

    def _tell(self, kind: str, post: _Post, **fields: object) -> None:
        self._on(kind, {"agent": post.spec.type, **fields})

    def _beaten(self, post: _Post) -> None:
        post.alive_at, post.has_beaten = self._clock.monotonic(), True

    def _log(self, post: _Post, message: Mapping[str, Any]) -> None:
        fields = " " + compact_json(message["fields"]).decode() if message.get("fields") else ""
        text = f"{message['timestamp']} {message['level']} {message['message']}{fields}"
        post.log.write(text)
        self._tell("agent.log", post, level=message["level"], message=message["message"])

    def _rest(self, post: _Post) -> None:
        """Report what was out of order during a call, each problem once."""
        if post.process is not None:
            post.process.expect(None)
            _count_dropped(post, post.process)
        noise, post.noise = post.noise, Counter()
        examples, post.examples = post.examples, {}
        for problem, count in sorted(noise.items()):
            detail = {"detail": examples[problem]} if examples.get(problem) else {}
            self._tell("agent.noise", post, problem=problem, count=count, **detail)

    def _log_path(self, name: str) -> Path:
        return self._workspace / "logs" / name / f"{self._run_id}.log"


def _note(post: _Post, problem: str, example: str) -> None:
    post.noise[problem] += 1
    post.examples.setdefault(problem, example)


def _count_dropped(post: _Post, process: AgentProcess) -> None:
    if dropped := process.take_dropped():
        post.noise["too many lines"] += dropped


def _shown(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
