"""Running: one agent of one group, from its start to its end; a thread that owns a process.

It hands messages over, keeps what the agent says, and ends deliveries as the agent ends them. When
it does not know what became of a transaction, it ends the agent and leaves the decision to whoever
looks at the store afterwards.
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
from onceward.agents.chat_messages import ChatMessage
from onceward.agents.limits import command_line
from onceward.agents.lines import Oversized
from onceward.agents.process import AgentLog, AgentProcess
from onceward.crash import crash_point
from onceward.dispatch.deliveries import Deliveries
from onceward.dispatch.models import Delivery, Group, Message
from onceward.dispatch.outbox import Outbox
from onceward.dispatch.triggers import calls
from onceward.errors import InvalidArgument, OncewardError, OutcomeUnknown, Superseded
from onceward.retries.client import retrying
from onceward.seams import Clock, Files
from onceward.secrets import Redactor

log = logging.getLogger("onceward.dispatch")
#: How soon a follow-up is handed over, and a limit is noticed.
_LOOK_SECONDS: Final = 0.05
#: An agent that was told to end may take so long.
CLOSE_SECONDS_MAX: Final = 10.0
_ERROR_CHARACTERS_MAX: Final = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What all agents of a dispatcher have in common."""

    deliveries: Deliveries
    outbox: Outbox
    environ: Mapping[str, str]
    home: Path
    redactor: Redactor
    clock: Clock
    files: Files
    #: Told of a group whose conversation or state has changed.
    on_change: Callable[[str], None]
    #: Told of a run that is idle since a moment, works (None), or has ended.
    on_idle: Callable[[str, float | None], None]
    #: Also told whether its end is known, or must be looked up in the store.
    on_end: Callable[[str, bool], None]
    #: Says whether groups wait for a slot that is not free.
    is_crowded: Callable[[], bool]
    #: Returns the group as it is set now; None when it is gone.
    group_now: Callable[[str], Group | None]


class Run:
    """An agent at work for one group."""

    def __init__(
        self, surroundings: Surroundings, group: Group, delivery: Delivery, *, is_stored: bool
    ) -> None:
        """Begin with this delivery; nothing happens before `start`."""
        self._thread = threading.Thread(
            target=self._live, name=f"onceward-dispatch-{group.name}", daemon=True
        )
        self._all = surroundings
        self._group = group
        self._delivery: Delivery | None = delivery
        #: The last one, also after it is done: what an agent says late belongs to it.
        self._last = delivery
        self._is_stored = is_stored
        self._run_id = f"{group.name}-{delivery.batch.number}"
        self._sayings = 0
        self._poked = threading.Event()
        self._asked_to_close = threading.Event()
        self._must_stop = threading.Event()
        self._since = 0.0
        self._idle_since = 0.0
        #: What went wrong, whether for good, and how far the agent had looked.
        self._error: tuple[str, bool, int | None] | None = None
        #: Whether it has finished something.
        self._is_of_use = False
        self._agent = ""
        deliveries, outbox, clock = surroundings.deliveries, surroundings.outbox, surroundings.clock
        #: A store that is away for a moment is waited for; a saying may even be said twice.
        patient = retrying(clock=clock)
        self._begin_next, self._extend = patient(deliveries.begin), patient(deliveries.extend)
        self._end_well, self._end_badly = patient(deliveries.done), patient(deliveries.failed)
        self._return, self._note = patient(deliveries.returned), patient(deliveries.started)
        self._keep = retrying(on=(OutcomeUnknown,), clock=clock)(outbox.say)

    # --- from other threads ---------------------------------------------------------------------

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def poke(self) -> None:
        """Say that there may be more messages."""
        self._poked.set()

    def give_way(self) -> None:
        """Ask it to end if it has nothing to do."""
        self._asked_to_close.set()

    def stop(self) -> None:
        """End it now; what it has not finished is handed out again, and no failure is counted."""
        self._must_stop.set()

    # --- the thread -----------------------------------------------------------------------------

    def _live(self) -> None:
        """Work until the agent ends, and tell of that whatever happens."""
        is_known = False
        try:
            self._work()
            is_known = True
        except Superseded:
            is_known = True
            log.warning("%s was taken over by another dispatcher", self._group.name)
        except Exception:
            # Perhaps a transaction happened, perhaps not: whoever looks at the store will know.
            log.exception("%s: the run was lost", self._group.name, extra={"event": "run.lost"})
        finally:
            self._all.on_end(self._group.name, is_known)

    def _work(self) -> None:
        name = self._group.name
        logs = AgentLog(self._all.home / "logs" / f"{name}.log", files=self._all.files)
        try:
            process = self._started(logs)
        except OncewardError as exc:
            self._fail((f"the agent could not be started: {exc.message}", False, None))
            return
        try:
            # Nothing it says may be thrown away; rather it waits until we have listened.
            process.expect('"kind"')
            self._note_process(process)
            assert self._delivery is not None
            self._hand_over(process, self._delivery, is_follow_up=False)
            self._converse(process)
        finally:
            process.kill()
            logs.close()
        self._settle(process)
        self._all.deliveries.ended(name)

    def _started(self, logs: AgentLog) -> AgentProcess:
        workdir = self._workdir()
        env = {
            **self._all.environ,
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
            redactor=self._all.redactor,
            line_bytes_max=chat_messages.LINE_BYTES_MAX,
            clock=self._all.clock,
        )

    def _workdir(self) -> Path:
        if self._group.workdir:
            return Path(self._group.workdir)
        own = self._all.home / "groups" / self._group.name
        self._all.files.make_directories(own)
        return own

    def _note_process(self, process: AgentProcess) -> None:
        crash_point("dispatch.agent.after_start")
        self._since = self._all.clock.monotonic()
        record = {**process.identity.to_fields(), "run_id": self._run_id}
        assert self._delivery is not None
        self._agent = json.dumps(record)
        self._note(self._delivery, self._agent)
        self._all.on_change(self._group.name)

    def _hand_over(self, process: AgentProcess, delivery: Delivery, *, is_follow_up: bool) -> None:
        told = [_told(self._group, each) for each in delivery.messages]
        for line in chat_messages.delivery_lines(
            self._run_id, self._group.name, delivery.batch.position, told, is_follow_up
        ):
            process.send(line)

    # --- one conversation -----------------------------------------------------------------------

    def _converse(self, process: AgentProcess) -> None:
        """Go on until the agent has failed, ended, or is to end."""
        while self._error is None:
            self._listen(process, _LOOK_SECONDS)
            if self._error is not None:
                return
            if process.has_exited:
                self._listen_to_the_last(process)
                return
            now = self._all.clock.monotonic()
            if self._must_stop.is_set():
                return
            if self._delivery is None:
                if self._should_close(now):
                    self._close(process)
                    return
            elif now - self._since > self._group.hard_seconds:
                limit = f"{self._group.hard_seconds:g}"
                self._error = (f"it had not finished after {limit} s", False, None)
                return
            # While others wait for a slot, this one finishes what it has, and then gives way.
            if self._poked.is_set() and not self._all.is_crowded():
                self._poked.clear()
                self._follow_up(process)

    def _should_close(self, now: float) -> bool:
        if self._asked_to_close.is_set():
            return True
        return now - self._idle_since > self._group.idle_seconds

    def _follow_up(self, process: AgentProcess) -> None:
        """Hand over what has come since, while the agent works or waits."""
        group = self._all.group_now(self._group.name)
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
            self._since = self._all.clock.monotonic()
            self._all.on_idle(self._group.name, None)
            self._note(begun, self._agent)
        self._hand_over(process, self._last, is_follow_up=True)
        self._all.on_change(self._group.name)

    def _close(self, process: AgentProcess) -> None:
        """Tell the agent to end, and hear what it says until it has."""
        process.close_stdin()
        until = self._all.clock.monotonic() + CLOSE_SECONDS_MAX
        while not process.has_exited and self._all.clock.monotonic() < until:
            if self._must_stop.is_set():
                break
            self._listen(process, _LOOK_SECONDS)
        self._listen_to_the_last(process)

    # --- what the agent says --------------------------------------------------------------------

    def _listen_to_the_last(self, process: AgentProcess) -> None:
        """Hear what a process had written before it ended."""
        code = process.kill()
        self._listen(process, 0.0)
        # One that answers once and ends well was handed more on its way out: that comes again.
        is_early = code == 0 and self._is_of_use
        if self._error is None and self._delivery is not None and not is_early:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            self._error = (f"it ended without being done ({how})", False, None)

    def _listen(self, process: AgentProcess, seconds: float) -> None:
        for line in process.messages(seconds):
            if self._error is not None:
                return  # What it says after it failed belongs to nothing.
            if isinstance(line, Oversized):
                self._noise(f"a line of {line.size} bytes")
                continue
            try:
                said = chat_messages.decode(line)
            except InvalidArgument as exc:
                self._noise(exc.message)
            else:
                self._take(said)

    def _take(self, said: Mapping[str, Any]) -> None:
        match said["kind"]:
            case "output":
                self._say(said["text"], said.get("key"), said.get("upto"))
            case "done":
                self._done(said["upto"])
            case "error":
                message = str(said["message"])[:_ERROR_CHARACTERS_MAX]
                self._error = (message, said.get("retryable") is False, said.get("upto"))
            case "log":
                level = logging.WARNING if said["level"] in ("warn", "error") else logging.DEBUG
                text = self._all.redactor.text(str(said["message"]))[:_ERROR_CHARACTERS_MAX]
                log.log(level, "%s says: %s", self._group.name, text)
            case _:
                pass  # A sign of life.

    def _say(self, text: str, key: str | None, upto: int | None) -> None:
        self._sayings += 1
        own = f"{self._last.batch.number}/{self._sayings}" if key is None else f"key/{key}"
        try:
            self._keep(
                self._last,
                text,
                key=f"{self._group.name}/{own}",
                is_stored=self._is_stored,
                is_over=self._delivery is None,
                upto=upto,
            )
        except InvalidArgument as exc:
            self._noise(exc.message)
            return
        self._all.on_change(self._group.name)

    def _done(self, upto: int) -> None:
        if self._delivery is None:
            return
        rest = self._end_well(self._delivery, upto)
        if rest is self._delivery:
            return  # It is done with nothing of what it has.
        self._is_of_use = True
        self._delivery = rest
        # More may wait than was handed over at once.
        self._poked.set()
        if rest is not None:
            self._last, self._since = rest, self._all.clock.monotonic()
            self._note(rest, self._agent)
        else:
            self._idle_since = self._all.clock.monotonic()
            self._all.on_idle(self._group.name, self._idle_since)
        self._all.on_change(self._group.name)

    def _noise(self, what: str) -> None:
        text = self._all.redactor.text(what)[:_ERROR_CHARACTERS_MAX]
        log.warning("%s sent something else: %s", self._group.name, text)

    # --- its end --------------------------------------------------------------------------------

    def _settle(self, process: AgentProcess) -> None:
        if self._error is not None:
            self._fail(self._error)
        elif self._delivery is not None:
            # It was stopped by us, perhaps in the middle of a word.
            self._listen(process, 0.0)
            if self._delivery is not None:
                self._return(self._delivery)
                self._delivery = None
        self._all.on_change(self._group.name)

    def _fail(self, error: tuple[str, bool, int | None]) -> None:
        if self._delivery is None:
            return
        message, is_final, upto = error
        said = self._all.redactor.text(message)
        ending = self._end_badly(self._delivery, said, is_final=is_final, upto=upto)
        self._delivery = None
        facts = {"state": str(ending.state), "retrySeconds": ending.retry_seconds}
        log.warning(
            "%s failed: %s", self._group.name, said, extra={"event": "run.failed", "facts": facts}
        )


def _told(group: Group, message: Message) -> ChatMessage:
    return ChatMessage(
        id=message.id,
        seq=message.seq,
        sender=message.sender,
        text=message.text,
        timestamp=message.timestamp,
        received_at=message.received_at,
        is_call=calls(group, message.text),
    )
