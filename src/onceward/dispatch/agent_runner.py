"""Agent runner: run a group's agent, pass on messages that arrive meanwhile, store its replies.

Messages that arrive while the agent runs are delivered to it as follow-ups. Deliveries end as the
agent reports. After a transaction with an unknown outcome it ends the agent; the dispatcher then
recovers from the store.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from onceward.agents import chat_messages
from onceward.agents.agent_process import AgentLog, AgentProcess
from onceward.agents.chat_messages import ChatMessage
from onceward.agents.line_reader import OversizedLine
from onceward.agents.supervisor_limits import command_line
from onceward.dispatch.deliveries import Deliveries
from onceward.dispatch.models import Delivery, Group, GroupMessage
from onceward.dispatch.outbox import Outbox
from onceward.dispatch.triggers import calls
from onceward.errors import InvalidArgument, OncewardError, OutcomeUnknown, Superseded
from onceward.retries.call_retry import retrying
from onceward.system import Clock, Files
from onceward.system.crash_points import crash_point
from onceward.system.redaction import Redactor

log = logging.getLogger("onceward.dispatch")
#: Interval at which follow-ups and limits are checked.
_POLL_SECONDS: Final = 0.05
#: How long an agent may take to exit after its stdin was closed.
CLOSE_SECONDS_MAX: Final = 10.0
_ERROR_CHARACTERS_MAX: Final = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionContext:
    """The dependencies and callbacks that all agent runs of a dispatcher share."""

    deliveries: Deliveries
    outbox: Outbox
    environ: Mapping[str, str]
    home: Path
    redactor: Redactor
    clock: Clock
    files: Files
    #: Called with a group whose conversation or state has changed.
    on_change: Callable[[str], None]
    #: Called with a group and the time since which its agent is idle; None while it works.
    on_idle: Callable[[str, float | None], None]
    #: Called at the end of a run, with whether the outcome of its last transaction is known.
    on_end: Callable[[str, bool], None]
    #: Returns whether groups wait for a slot that is not free.
    is_crowded: Callable[[], bool]
    #: Returns the group with its current settings; None when it was removed.
    group_now: Callable[[str], Group | None]


class AgentRun:
    """One agent process that works for one group."""

    def __init__(
        self, context: SessionContext, group: Group, delivery: Delivery, *, is_stored: bool
    ) -> None:
        """Prepare a run that begins with this delivery. Call `start`."""
        self._thread = threading.Thread(
            target=self._run_loop, name=f"onceward-dispatch-{group.name}", daemon=True
        )
        self._context = context
        self._group = group
        self._delivery: Delivery | None = delivery
        #: The last delivery, also after it is done: late replies belong to it.
        self._last = delivery
        self._is_stored = is_stored
        self._run_id = f"{group.name}-{delivery.batch.number}"
        self._reply_count = 0
        self._notified = threading.Event()
        self._asked_to_close = threading.Event()
        self._must_stop = threading.Event()
        self._since = 0.0
        self._idle_since = 0.0
        #: The error, whether it is final, and the position that the agent had processed.
        self._error: tuple[str, bool, int | None] | None = None
        #: Whether the agent has finished a message.
        self._has_finished_some = False
        self._agent = ""
        deliveries, outbox, clock = context.deliveries, context.outbox, context.clock
        #: Retry while the store is unavailable. Adding a reply is idempotent by its key.
        patient = retrying(clock=clock)
        self._begin_next, self._extend = patient(deliveries.begin), patient(deliveries.extend)
        self._deliveries_done, self._deliveries_failed = (
            patient(deliveries.done),
            patient(deliveries.failed),
        )
        self._return, self._record_agent = patient(deliveries.returned), patient(deliveries.started)
        self._store_reply = retrying(on=(OutcomeUnknown,), clock=clock)(outbox.add)

    # --- from other threads ---------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self) -> None:
        """Wait until the agent and the thread have ended."""
        self._thread.join()

    def notify(self) -> None:
        """Check for more messages soon. Safe to call from any thread."""
        self._notified.set()

    def close_when_idle(self) -> None:
        """Close the agent as soon as it has no delivery."""
        self._asked_to_close.set()

    def stop(self) -> None:
        """End the agent now. Unfinished messages are delivered again; no failure is counted."""
        self._must_stop.set()

    # --- the thread -----------------------------------------------------------------------------

    def _run_loop(self) -> None:
        """Run until the agent ends, then call `on_end` in every case."""
        is_known = False
        try:
            self._work()
            is_known = True
        except Superseded:
            is_known = True
            log.warning("%s was taken over by another dispatcher", self._group.name)
        except Exception:
            # A transaction may have committed; the dispatcher looks it up in the store.
            log.exception(
                "%s: the outcome of the run is unknown",
                self._group.name,
                extra={"event": "run.lost"},
            )
        finally:
            self._context.on_end(self._group.name, is_known)

    def _work(self) -> None:
        name = self._group.name
        logs = AgentLog(self._context.home / "logs" / f"{name}.log", files=self._context.files)
        try:
            process = self._started(logs)
        except OncewardError as exc:
            self._fail((f"the agent could not be started: {exc.message}", False, None))
            return
        try:
            # No line may be dropped: a full pipe blocks the agent until its output is read.
            process.protect('"kind"')
            self._record_process(process)
            assert self._delivery is not None
            self._hand_over(process, self._delivery, is_follow_up=False)
            self._serve(process)
        finally:
            process.kill()
            logs.close()
        self._settle(process)
        self._context.deliveries.ended(name)

    def _started(self, logs: AgentLog) -> AgentProcess:
        workdir = self._workdir()
        env = {
            **self._context.environ,
            "ONCEWARD_AGENT": chat_messages.AGENT_TYPE,
            "ONCEWARD_GROUP": self._group.name,
            "ONCEWARD_WORKSPACE": str(workdir),
            "ONCEWARD_RUN": self._run_id,
            "ONCEWARD_HEARTBEAT_SECONDS": "10",
        }
        return AgentProcess(
            command_line(self._group.command),
            env=env,
            cwd=workdir,
            log=logs,
            redactor=self._context.redactor,
            line_bytes_max=chat_messages.LINE_BYTES_MAX,
            clock=self._context.clock,
        )

    def _workdir(self) -> Path:
        if self._group.workdir:
            return Path(self._group.workdir)
        own = self._context.home / "groups" / self._group.name
        self._context.files.make_directories(own)
        return own

    def _record_process(self, process: AgentProcess) -> None:
        crash_point("dispatch.agent.after_start")
        self._since = self._context.clock.monotonic()
        record = {**process.identity.to_fields(), "run_id": self._run_id}
        assert self._delivery is not None
        self._agent = json.dumps(record)
        self._record_agent(self._delivery, self._agent)
        self._context.on_change(self._group.name)

    def _hand_over(self, process: AgentProcess, delivery: Delivery, *, is_follow_up: bool) -> None:
        messages = [_chat_message(self._group, each) for each in delivery.messages]
        for line in chat_messages.delivery_lines(
            self._run_id, self._group.name, delivery.batch.position, messages, is_follow_up
        ):
            process.send(line)

    # --- one conversation -----------------------------------------------------------------------

    def _serve(self, process: AgentProcess) -> None:
        """Serve the agent until it fails, exits or is stopped."""
        while self._error is None:
            self._read_output(process, _POLL_SECONDS)
            if self._error is not None:
                return
            if process.has_exited:
                self._read_remaining_output(process)
                return
            now = self._context.clock.monotonic()
            if self._must_stop.is_set():
                return
            if self._delivery is None:
                if self._should_close(now):
                    self._close(process)
                    return
            elif now - self._since > self._group.hard_seconds:
                limit = f"{self._group.hard_seconds:g}"
                self._error = (f"the agent had not finished after {limit} s", False, None)
                return
            # While groups wait for a slot, this agent gets no follow-ups, so that its slot frees.
            if self._notified.is_set() and not self._context.is_crowded():
                self._notified.clear()
                self._follow_up(process)

    def _should_close(self, now: float) -> bool:
        if self._asked_to_close.is_set():
            return True
        return now - self._idle_since > self._group.idle_seconds

    def _follow_up(self, process: AgentProcess) -> None:
        """Deliver messages that arrived since, whether the agent works or is idle."""
        group = self._context.group_now(self._group.name)
        if group is None or group.is_paused:
            return
        if self._delivery is not None:
            extended = self._extend(self._delivery, group)
            if extended is None:
                return
            self._delivery = self._last = extended
        else:
            begun = self._begin_next(group)
            if begun is None:
                return
            self._delivery = self._last = begun
            self._since = self._context.clock.monotonic()
            self._context.on_idle(self._group.name, None)
            self._record_agent(begun, self._agent)
        self._hand_over(process, self._last, is_follow_up=True)
        self._context.on_change(self._group.name)

    def _close(self, process: AgentProcess) -> None:
        """Close the agent's stdin, and read its output until it exits."""
        process.close_stdin()
        until = self._context.clock.monotonic() + CLOSE_SECONDS_MAX
        while not process.has_exited and self._context.clock.monotonic() < until:
            if self._must_stop.is_set():
                break
            self._read_output(process, _POLL_SECONDS)
        self._read_remaining_output(process)

    # --- output of the agent --------------------------------------------------------------------

    def _read_remaining_output(self, process: AgentProcess) -> None:
        """Read what the process had written before it exited."""
        code = process.kill()
        self._read_output(process, 0.0)
        # An agent that exits with 0 after some work may have unread follow-ups: delivered again.
        is_early = code == 0 and self._has_finished_some
        if self._error is None and self._delivery is not None and not is_early:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            self._error = (f"the agent exited before it was done ({how})", False, None)

    def _read_output(self, process: AgentProcess, seconds: float) -> None:
        for line in process.messages(seconds):
            if self._error is not None:
                return  # Output after a failure belongs to no delivery.
            if isinstance(line, OversizedLine):
                self._log_invalid(f"a line of {line.size} bytes")
                continue
            try:
                output = chat_messages.decode(line)
            except InvalidArgument as exc:
                self._log_invalid(exc.message)
            else:
                self._handle(output)

    def _handle(self, output: Mapping[str, Any]) -> None:
        match output["kind"]:
            case "output":
                self._reply(output["text"], output.get("key"), output.get("upto"))
            case "done":
                self._done(output["upto"])
            case "error":
                message = str(output["message"])[:_ERROR_CHARACTERS_MAX]
                self._error = (message, output.get("retryable") is False, output.get("upto"))
            case "log":
                level = logging.WARNING if output["level"] in ("warn", "error") else logging.DEBUG
                text = self._context.redactor.text(str(output["message"]))[:_ERROR_CHARACTERS_MAX]
                log.log(level, "%s says: %s", self._group.name, text)
            case _:
                pass  # A heartbeat.

    def _reply(self, text: str, key: str | None, upto: int | None) -> None:
        self._reply_count += 1
        own = f"{self._last.batch.number}/{self._reply_count}" if key is None else f"key/{key}"
        try:
            self._store_reply(
                self._last,
                text,
                key=f"{self._group.name}/{own}",
                is_stored=self._is_stored,
                is_over=self._delivery is None,
                upto=upto,
            )
        except InvalidArgument as exc:
            self._log_invalid(exc.message)
            return
        self._context.on_change(self._group.name)

    def _done(self, upto: int) -> None:
        if self._delivery is None:
            return
        rest = self._deliveries_done(self._delivery, upto)
        if rest is self._delivery:
            return  # None of its messages are done.
        self._has_finished_some = True
        self._delivery = rest
        # One delivery is limited in size, so more may be pending.
        self._notified.set()
        if rest is not None:
            self._last, self._since = rest, self._context.clock.monotonic()
            self._record_agent(rest, self._agent)
        else:
            self._idle_since = self._context.clock.monotonic()
            self._context.on_idle(self._group.name, self._idle_since)
        self._context.on_change(self._group.name)

    def _log_invalid(self, what: str) -> None:
        text = self._context.redactor.text(what)[:_ERROR_CHARACTERS_MAX]
        log.warning("%s sent an invalid line: %s", self._group.name, text)

    # --- its end --------------------------------------------------------------------------------

    def _settle(self, process: AgentProcess) -> None:
        if self._error is not None:
            self._fail(self._error)
        elif self._delivery is not None:
            # The dispatcher stopped it, perhaps in the middle of a line.
            self._read_output(process, 0.0)
            if self._delivery is not None:
                self._return(self._delivery)
                self._delivery = None
        self._context.on_change(self._group.name)

    def _fail(self, error: tuple[str, bool, int | None]) -> None:
        if self._delivery is None:
            return
        message, is_final, upto = error
        output = self._context.redactor.text(message)
        ending = self._deliveries_failed(self._delivery, output, is_final=is_final, upto=upto)
        self._delivery = None
        facts = {"state": str(ending.state), "retrySeconds": ending.retry_seconds}
        log.warning(
            "%s failed: %s", self._group.name, output, extra={"event": "run.failed", "facts": facts}
        )


def _chat_message(group: Group, message: GroupMessage) -> ChatMessage:
    return ChatMessage(
        id=message.id,
        seq=message.seq,
        sender=message.sender,
        text=message.text,
        timestamp=message.timestamp,
        received_at=message.received_at,
        is_call=calls(group, message.text),
    )
