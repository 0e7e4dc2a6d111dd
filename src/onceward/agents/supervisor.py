"""Supervisor: start agents on demand, send them commands, and enforce heartbeats and deadlines.

Manages one process per type of agent. A call takes a command and returns its answer, or raises the
reason why there is none. Events worth recording go to a callback before they take effect. Knows
neither the flow of a run nor its ledger.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from onceward.agents import protocol
from onceward.agents.agent_process import AgentLog, AgentProcess
from onceward.agents.line_reader import ReceivedLine
from onceward.agents.orphan_processes import agent_lock
from onceward.agents.protocol import Message
from onceward.agents.reply_handling import PendingCommand, ReplyReceiver
from onceward.agents.supervisor_limits import AgentSpec, SupervisorLimits
from onceward.errors import AgentFailed
from onceward.keys.canonical import compact_json
from onceward.retries.retry_schedule import AGENTS
from onceward.system import (
    Clock,
    Files,
    Ids,
    Randomness,
    SystemClock,
    SystemFiles,
    SystemRandomness,
)
from onceward.system.crash_points import crash_point
from onceward.system.redaction import Redactor

__all__ = ["AgentSpec", "Supervisor", "SupervisorLimits"]

#: How long agents may take to exit by themselves at the end of a run.
STOP_SECONDS: Final = 2.0
#: Timeout of actions without their own.
TIMEOUT_SECONDS: Final = 600.0

#: Longest wait before all conditions are checked again.
_POLL_SECONDS: Final = 0.1
#: After a longer stall of this process missing heartbeats are not held against the agent.
_STALL_SECONDS: Final = 1.0

OnAgentEvent = Callable[[str, dict[str, object]], None]


class _AgentSlot:
    """The current process of one type of agent, and its restarts."""

    def __init__(self, spec: AgentSpec, log: AgentLog) -> None:
        self.spec = spec
        self.log = log
        self.process: AgentProcess | None = None
        self.restarts = 0
        #: Why the last process ended; empty after a normal exit.
        self.exit_reason = ""
        #: Time of the last heartbeat, and whether there was any.
        self.heartbeat_at = 0.0
        self.has_sent_heartbeat = False
        self.noise: Counter[str] = Counter()
        self.examples: dict[str, str] = {}


class _AgentLost(Exception):
    """The agent has ended without answering its command."""


class Supervisor:
    """The agents of one run."""

    def __init__(  # noqa: PLR0913 - what differs between runs comes by name
        self,
        specs: Mapping[str, AgentSpec],
        *,
        workspace: Path,
        run_id: str,
        limits: SupervisorLimits,
        redactor: Redactor,
        on: OnAgentEvent,
        lock: Path | None = None,
        environ: Mapping[str, str] | None = None,
        files: Files | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """Start no agent yet. Each agent holds `lock`, if there is one, as long as it runs."""
        self._lock = lock
        self._workspace = workspace.resolve()
        self._run_id = run_id
        self._limits = limits
        self._redactor = redactor
        self._on = on
        self._environ = dict(os.environ if environ is None else environ)
        self._clock = clock or SystemClock()
        self._ids = ids or Ids()
        self._randomness = randomness or SystemRandomness()
        self._receiver = ReplyReceiver(self._workspace, redactor, limits.line_bytes_max)
        self._is_stopping = False
        disk = files or SystemFiles()
        self._slots = {
            name: _AgentSlot(spec, AgentLog(self._log_path(name), files=disk))
            for name, spec in specs.items()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def call(self, command: Message, *, on_event: Callable[[Message], None]) -> Message:
        """Send a command to its agent and return the event that ends it.

        `on_event` gets progress events. An agent that dies is restarted and gets the same command
        with a new message id. Raises AgentFailed if there is no answer, or if the answer is an
        error event, which is then in `context["event"]`.
        """
        line = self._line(command)
        slot = self._slot_for(command)
        self._check_stopping()
        seconds = self._limits.timeout_seconds.get(command["action"], TIMEOUT_SECONDS)
        pending = PendingCommand(
            command=command,
            agent=slot.spec.type,
            deadline=self._clock.monotonic() + seconds,
            on_event=on_event,
            on_log=lambda message: self._log(slot, message),
            on_heartbeat=lambda: self._on_heartbeat(slot),
            on_noise=lambda problem, example: _count_noise(slot, problem, example),
        )
        try:
            while True:
                process = self._ensure_running(slot, pending)
                try:
                    self._send(process, line)
                    return self._await_answer(slot, process, pending)
                except _AgentLost:
                    line = self._line({**command, "message_id": self._ids.new("msg")})
        finally:
            self._report_noise(slot)

    def interrupt(self) -> None:
        """Make the current call fail soon with STOPPED. Safe in a signal handler."""
        self._is_stopping = True

    def stop(self) -> None:
        """Stop all agents: close their stdin, wait briefly, then kill their process groups."""
        self._is_stopping = True
        running = [(slot, slot.process) for slot in self._slots.values() if slot.process]
        for _, process in running:
            process.close_stdin()
        until = self._clock.monotonic() + STOP_SECONDS
        for _, process in running:
            process.wait(until - self._clock.monotonic())
        with ExitStack() as rest:  # If one callback raises, the others still run.
            for slot in self._slots.values():
                rest.callback(slot.log.close)
            for slot, process in running:
                rest.callback(self._kill, slot, process, "stopped")

    # --- processes -------------------------------------------------------------------------------

    def _slot_for(self, command: Message) -> _AgentSlot:
        wanted = command["to"]["agent_type"]
        slot = self._slots.get(wanted)
        if slot is None:
            message = f"no {wanted} is configured; the command was not sent"
            fix = f"add agents.{wanted} to onceward.json"
            raise AgentFailed(message, code="NO_AGENT", retryable=False, fix=fix)
        return slot

    def _ensure_running(self, slot: _AgentSlot, pending: PendingCommand) -> AgentProcess:
        """Return the running process of a slot; start one if necessary."""
        if slot.process is not None and slot.process.has_exited:
            # A normal exit between two commands is not a failure.
            self._collect_exit(
                slot, slot.process, pending, "it ended between two commands", is_expected=True
            )
        if slot.process is None:
            if slot.exit_reason:
                self._back_off(slot, pending)
            self._start(slot)
        assert slot.process is not None
        slot.process.protect(pending.command["correlation_id"])
        # Heartbeats were not read between two commands.
        slot.heartbeat_at = pending.checked_at = self._clock.monotonic()
        return slot.process

    def _start(self, slot: _AgentSlot) -> None:
        env = {
            **self._environ,
            **slot.spec.env,
            "ONCEWARD_WORKSPACE": str(self._workspace),
            "ONCEWARD_AGENT": slot.spec.type,
            "ONCEWARD_AGENT_CACHE": str(self._workspace / "state" / "cache" / slot.spec.type),
            "ONCEWARD_HEARTBEAT_SECONDS": f"{self._limits.heartbeat_seconds:g}",
            "ONCEWARD_RUN": self._run_id,
        }
        with ExitStack() as locks:
            held = [locks.enter_context(agent_lock(self._lock))] if self._lock is not None else []
            slot.process = process = AgentProcess(
                slot.spec.command,
                env=env,
                cwd=self._workspace,
                log=slot.log,
                redactor=self._redactor,
                line_bytes_max=self._limits.line_bytes_max,
                clock=self._clock,
                descriptors=held,
            )
        slot.has_sent_heartbeat, slot.exit_reason = False, ""
        self._report("agent.started", slot, **process.identity.to_fields())

    def _back_off(self, slot: _AgentSlot, pending: PendingCommand) -> None:
        if slot.restarts >= self._limits.restarts_max:
            message = (
                f"the agent {slot.spec.type} was restarted {slot.restarts} times and ended again: "
                f"{slot.exit_reason}; its log is {self._log_path(slot.spec.type)}"
            )
            resume = f"onceward resume --run {self._run_id} --retry"
            fix = f"correct the cause that its log shows, then run `{resume}`"
            raise AgentFailed(message, code="AGENT_DIED", retryable=False, fix=fix)
        slot.restarts += 1
        delay = AGENTS.delay(slot.restarts, self._randomness) or 0.0
        shown = round(delay, 3)
        self._report(
            "agent.restarting", slot, restart=slot.restarts, delay_s=shown, reason=slot.exit_reason
        )
        until = self._clock.monotonic() + delay
        while (left := until - self._clock.monotonic()) > 0:
            self._check_stopping()
            if self._clock.monotonic() >= pending.deadline:
                self._time_out(slot, pending)
            self._clock.sleep(min(left, _POLL_SECONDS))

    def _collect_exit(
        self,
        slot: _AgentSlot,
        process: AgentProcess,
        pending: PendingCommand,
        reason: str,
        *,
        is_expected: bool = False,
    ) -> None:
        """Kill what is left of an agent and read its last lines, which may include the answer."""
        code = self._kill(slot, process, reason)
        slot.exit_reason = "" if is_expected and code == 0 else f"{reason} ({_exit_text(code)})"
        self._take(slot, pending, process.messages(0))
        _count_dropped(slot, process)

    def _kill(self, slot: _AgentSlot, process: AgentProcess, reason: str) -> int:
        slot.process = None
        code = process.kill()
        end = {"code": code} if code >= 0 else {"signal": -code}
        self._report("agent.exited", slot, pid=process.pid, **end, reason=reason)
        return code

    # --- one command -----------------------------------------------------------------------------

    def _line(self, command: Message) -> bytes:
        """Return a command as a line; raise AgentFailed if it is too long."""
        line, limit = protocol.encode(command, line_bytes_max=sys.maxsize), self._limits
        if len(line) <= limit.line_bytes_max:
            return line
        message = (
            f"the command {command['action']} takes {len(line)} bytes, "
            f"and a line has at most {limit.line_bytes_max}; it was not sent"
        )
        fix = "put large inputs and long answers of agents into files, and pass the paths"
        raise AgentFailed(message, code="COMMAND_TOO_BIG", retryable=False, fix=fix)

    def _send(self, process: AgentProcess, line: bytes) -> None:
        crash_point("agents.send.before_write")
        process.send(line, timeout=_POLL_SECONDS)
        crash_point("agents.send.after_write")

    def _await_answer(
        self, slot: _AgentSlot, process: AgentProcess, pending: PendingCommand
    ) -> Message:
        while True:
            now = self._clock.monotonic()
            self._take(slot, pending, process.messages(min(_POLL_SECONDS, pending.deadline - now)))
            if pending.answer is not None:
                return pending.result()
            self._check_stopping()
            reason = self._failure_reason(slot, process, pending)
            if reason:
                self._collect_exit(slot, process, pending, reason)
                if pending.answer is not None:
                    return pending.result()
                if self._clock.monotonic() >= pending.deadline:
                    self._time_out(slot, pending)
                raise _AgentLost

    def _take(
        self, slot: _AgentSlot, pending: PendingCommand, arrivals: list[ReceivedLine]
    ) -> None:
        try:
            for each in arrivals:
                self._receiver.take(each, pending)
        except AgentFailed as exc:
            # The agent violated the protocol and may still be working; its answer would be lost.
            if pending.answer is None and slot.process is not None:
                slot.exit_reason = exc.message
                self._kill(slot, slot.process, exc.message)
            raise

    def _failure_reason(
        self, slot: _AgentSlot, process: AgentProcess, pending: PendingCommand
    ) -> str:
        """Return why this agent must be killed; empty if it is healthy."""
        now = self._clock.monotonic()
        stalled, pending.checked_at = now - pending.checked_at, now
        if stalled > _STALL_SECONDS:
            slot.heartbeat_at += stalled
        if now >= pending.deadline:
            return "deadline"
        # A process that has closed stdin is usually about to exit.
        if process.has_exited or (process.has_closed_stdin and process.wait(_POLL_SECONDS)):
            return "it ended without an answer"
        if process.has_closed_stdin:
            return "it closed its stdin"
        allowed = self._limits.silence_seconds_max
        if not slot.has_sent_heartbeat:
            allowed = max(allowed, self._limits.start_seconds)
        silence = now - slot.heartbeat_at
        return f"no heartbeat for {silence:.1f} s" if silence > allowed else ""

    def _check_stopping(self) -> None:
        if self._is_stopping:
            message = (
                "the run was stopped before the agent answered; the ledger has all completed steps"
            )
            fix = f"continue it with `onceward resume --run {self._run_id}`"
            raise AgentFailed(message, code="STOPPED", retryable=True, fix=fix)

    def _time_out(self, slot: _AgentSlot, pending: PendingCommand) -> NoReturn:
        action = pending.command["action"]
        seconds = self._limits.timeout_seconds.get(action, TIMEOUT_SECONDS)
        seen = ", ".join(f"{problem} ({count})" for problem, count in sorted(slot.noise.items()))
        message = f"the agent {slot.spec.type} did not answer {action} within {seconds:g} s"
        message += "; it no longer runs"
        message += f"; it sent instead: {seen}" if seen else ""
        log = self._log_path(slot.spec.type)
        fix = f"read its log {log}, or raise limits.timeout_seconds.{action} in onceward.json"
        raise AgentFailed(message, code="TIMEOUT", retryable=True, fix=fix)

    # --- reporting -------------------------------------------------------------------------------

    def _report(self, kind: str, slot: _AgentSlot, **fields: object) -> None:
        self._on(kind, {"agent": slot.spec.type, **fields})

    def _on_heartbeat(self, slot: _AgentSlot) -> None:
        slot.heartbeat_at, slot.has_sent_heartbeat = self._clock.monotonic(), True

    def _log(self, slot: _AgentSlot, message: Mapping[str, Any]) -> None:
        fields = " " + compact_json(message["fields"]).decode() if message.get("fields") else ""
        text = f"{message['timestamp']} {message['level']} {message['message']}{fields}"
        slot.log.write(text)
        self._report("agent.log", slot, level=message["level"], message=message["message"])

    def _report_noise(self, slot: _AgentSlot) -> None:
        """Report the noise of a call, each problem once with its count."""
        if slot.process is not None:
            slot.process.protect(None)
            _count_dropped(slot, slot.process)
        noise, slot.noise = slot.noise, Counter()
        examples, slot.examples = slot.examples, {}
        for problem, count in sorted(noise.items()):
            detail = {"detail": examples[problem]} if examples.get(problem) else {}
            self._report("agent.noise", slot, problem=problem, count=count, **detail)

    def _log_path(self, name: str) -> Path:
        return self._workspace / "logs" / name / f"{self._run_id}.log"


def _count_noise(slot: _AgentSlot, problem: str, example: str) -> None:
    slot.noise[problem] += 1
    slot.examples.setdefault(problem, example)


def _count_dropped(slot: _AgentSlot, process: AgentProcess) -> None:
    if dropped := process.take_dropped():
        slot.noise["too many lines"] += dropped


def _exit_text(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
