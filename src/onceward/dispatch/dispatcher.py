"""Dispatcher: read messages, start agents and send replies, in one process per store.

A lease elects that process; the lease of a dead process is taken over at once. All durable state
is in the store: the process that takes over continues from there.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from onceward.agents.orphan_processes import AgentRecord, end_orphans
from onceward.client import Onceward
from onceward.cursors.lease import Lease
from onceward.dispatch.agent_runner import AgentRun, SessionContext
from onceward.dispatch.agent_slots import AgentSlots
from onceward.dispatch.channels import CHAT, Channel, OutboxSender, StoredChannel
from onceward.dispatch.deliveries import Deliveries
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import AGENTS_MAX, DUAL, LEASE, Group
from onceward.dispatch.operator_actions import Operators
from onceward.dispatch.outbox import Outbox
from onceward.errors import BatchInFlight, CursorMissing, GroupMissing, OncewardError
from onceward.retries.retry_schedule import DISPATCH, Schedule
from onceward.system import (
    Clock,
    Files,
    ProcessIdentity,
    Randomness,
    SystemClock,
    SystemFiles,
    SystemRandomness,
)
from onceward.system.redaction import Redactor

log = logging.getLogger("onceward.dispatch")
LEASE_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.25
#: Backoff after an error of the store.
_TROUBLE_SECONDS: Final = 1.0


class Dispatcher:
    """Delivers messages of a store's groups to their agents while it holds the store's lease."""

    def __init__(  # noqa: PLR0913 - all but the store by name
        self,
        ow: Onceward,
        *,
        home: Path,
        channels: Mapping[str, Channel] | None = None,
        agents_max: int = AGENTS_MAX,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        files: Files | None = None,
        randomness: Randomness | None = None,
        schedule: Schedule = DISPATCH,
        poll_seconds: float = POLL_SECONDS,
        on_change: Callable[[str], None] | None = None,
    ) -> None:
        """Use this store; agents' logs and directories are below `home`."""
        self._ow = ow
        self._home = home
        self._clock = clock or SystemClock()
        chance = randomness or SystemRandomness()
        self._channels: Mapping[str, Channel] = {CHAT: StoredChannel(), **(channels or {})}
        self._poll_seconds = poll_seconds
        #: Called with a group whose conversation or state has changed, from any thread.
        self.on_change = on_change
        self.groups = Groups(ow.store)
        self.arrivals = Inbox(ow.store)
        self.deliveries = Deliveries(ow.store, schedule=schedule, randomness=chance)
        self.outbox = Outbox(ow.store, schedule=schedule, randomness=chance)
        self.operators = Operators(ow.store)
        self._sender = OutboxSender(self.outbox, self.groups, self._channels, self._changed)
        self._slots = AgentSlots(agents_max)
        self._lock = threading.RLock()
        self._runs: dict[str, AgentRun] = {}
        self._dirty: set[str] = set()
        #: Groups whose run ended with an unknown outcome, and when to recover them.
        self._unknown_ends: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._wake = threading.Event()
        self._outbox_changed = threading.Event()
        self._stopping = threading.Event()
        self._lost = threading.Event()
        #: The holder name of its lease, unique for each dispatcher.
        self._name = ""
        self._suffix = chance.hex(8)
        self._lease: Lease | None = None
        self._must_rescan = False
        self._threads: list[threading.Thread] = []
        env = os.environ if environ is None else environ
        self._context = SessionContext(
            deliveries=self.deliveries,
            outbox=self.outbox,
            environ=env,
            home=home,
            redactor=Redactor.from_environment(env),
            clock=self._clock,
            files=files or SystemFiles(),
            on_change=self._changed,
            on_idle=self._on_run_idle,
            on_end=self._on_run_end,
            is_crowded=self._is_crowded,
            group_now=self._group,
        )

    # --- from outside ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start the dispatcher's threads, and return at once."""
        assert not self._threads, "a dispatcher is started once"
        # Read at start: the process that created the dispatcher may have forked.
        self._name = ProcessIdentity.own().holder(self._suffix)
        self._threads = [
            threading.Thread(target=self._run_loop, name="onceward-dispatch", daemon=True),
            threading.Thread(target=self._send_loop, name="onceward-outbox", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Poll the store now: a message may have arrived."""
        self._wake.set()

    def stop(self, *, seconds: float = 5.0) -> None:
        """End all agents and release the lease. Unfinished messages are delivered again."""
        self._stopping.set()
        self._wake.set()
        self._outbox_changed.set()
        for thread in self._threads:
            thread.join(seconds)

    @property
    def is_held(self) -> bool:
        """Return whether this dispatcher holds the lease of its store."""
        return self._lease is not None and not self._lost.is_set()

    @property
    def holder(self) -> str | None:
        """Return the holder of the dispatcher lease; None if no process has it."""
        try:
            return self._ow.cursors.show(LEASE).lease_owner
        except CursorMissing:
            return None

    # --- run loop -------------------------------------------------------------------------------

    def _run_loop(self) -> None:
        while not self._stopping.is_set():
            try:
                lease = self._acquired()
                if lease is not None:
                    self._dispatch_with(lease)
                    continue
            except OncewardError as exc:
                log.warning(
                    "dispatching failed: %s", exc.message, extra={"event": "dispatch.trouble"}
                )
            except Exception:
                log.exception("dispatching failed", extra={"event": "dispatch.trouble"})
            self._stopping.wait(_TROUBLE_SECONDS)

    def _acquired(self) -> Lease | None:
        """Acquire the dispatcher lease; take over at once if its holder is dead."""
        acquire = partial(self._ow.cursors.acquire, LEASE, lease_seconds=LEASE_SECONDS)
        lease = acquire(self._name)
        if lease is None and (dead := self._dead_holder()) is not None:
            # Renew it in the dead holder's name and release it, then acquire it under our name.
            theirs = acquire(dead)
            if theirs is not None:
                theirs.release()
                lease = acquire(self._name)
        return lease

    def _dead_holder(self) -> str | None:
        """Return the holder, if its process is certainly dead; else its lease runs to its end."""
        holder = self.holder
        process = ProcessIdentity.from_holder(holder or "")
        return holder if process is not None and process.is_dead() else None

    def _dispatch_with(self, lease: Lease) -> None:
        self._lost.clear()
        with lease.hold(), lease.when_lost(self._on_lease_lost):
            try:
                self._recover()
                self._lease = lease
                while not self._stopping.is_set() and not self._lost.is_set():
                    self._wake.clear()
                    self._wake.wait(self._poll_once())
            finally:
                self._end_runs()
                self._lease = None
        if not self._lost.is_set():
            with suppress(OncewardError):
                lease.release()

    def _on_lease_lost(self) -> None:
        self._lost.set()
        self._wake.set()

    def _recover(self) -> None:
        """Recover from an earlier process: end its agents, then roll their deliveries back."""
        noted = self.deliveries.agents()
        known = [*noted.values(), *(each.agent for each in self.deliveries.running() if each.agent)]
        found = [json.loads(each) for each in dict.fromkeys(known)]
        records = [AgentRecord.from_fields(each, each.get("run_id")) for each in found]
        for ended in end_orphans(records, clock=self._clock, on_stuck=log.error):
            log.info("ended the agent %s of an earlier process", ended.pid)
        for name in noted:
            self.deliveries.ended(name)
        for delivery, ending in self.deliveries.recover():
            log.info("%s after a crash: %s", delivery.group, ending.state)
            self._changed(delivery.group)
        self._sender.recover()
        self.arrivals.see()
        with self._lock:
            self._unknown_ends.clear()
        self._rescan()

    def _rescan(self) -> None:
        """Queue every group with pending messages."""
        pending = {each.group for each in self._ow.dual(DUAL).pending()}
        with self._lock:
            self._dirty |= pending
        self._must_rescan = False

    def _poll_once(self) -> float:
        """Run one poll cycle; return the seconds until the next one."""
        dirty: set[str] = set()
        try:
            if self._must_rescan:
                self._rescan()
            arrived = [*self.arrivals.see(), *self.groups.nudged()]
            with self._lock:
                now = self._clock.monotonic()
                due = [group for group, at in self._due.items() if at <= now]
                for group in due:
                    del self._due[group]
                dirty = {*self._dirty, *arrived, *due}
                self._dirty = set()
                unknown_ends = [group for group, at in self._unknown_ends.items() if at <= now]
            for group in unknown_ends:
                with self._lock:
                    is_at_work = group in self._runs
                # A run that exists now began after the unknown one had ended.
                if not is_at_work:
                    self.deliveries.recover(group)
                with self._lock:
                    del self._unknown_ends[group]
                dirty.add(group)
            for group in sorted(dirty):
                self._examine(group)
            self._start_agents()
        except OncewardError as exc:
            log.warning("polling failed: %s", exc.message, extra={"event": "dispatch.trouble"})
            with self._lock:
                self._dirty |= dirty
            # Groups may have been read and not queued.
            self._must_rescan = True
            return _TROUBLE_SECONDS
        with self._lock:
            moments = [*self._due.values(), *self._unknown_ends.values()]
            waits = [at - self._clock.monotonic() for at in moments]
        return max(0.0, min([self._poll_seconds, *waits]))

    # --- groups ---------------------------------------------------------------------------------

    def _examine(self, name: str) -> None:
        """Notify the agent of a group, queue the group, or schedule its next attempt."""
        group = self._group(name)
        with self._lock:
            run = self._runs.get(name)
        # An unknown channel belongs to another dispatcher.
        if group is None or group.is_paused or group.channel not in self._channels:
            with self._lock:
                self._slots.dequeue(name)
        elif run is not None:
            run.notify()
        elif self.deliveries.is_waiting(group):
            with self._lock:
                if group.wait_seconds > 0:
                    self._due[name] = self._clock.monotonic() + group.wait_seconds
                else:
                    self._slots.enqueue(name)

    def _start_agents(self) -> None:
        while (name := self._next_group()) is not None:
            run: AgentRun | None = None
            try:
                run = self._begin_run(name)
            except OncewardError as exc:
                # The delivery may be in flight, from this attempt or an earlier one.
                self._note_unknown_end(name)
                if not isinstance(exc, BatchInFlight):
                    raise
            finally:
                if run is None:
                    with self._lock:
                        self._slots.release(name)
                        self._dirty.add(name)
            if run is not None:
                run.start()
        with self._lock:
            leaving = [self._runs.get(name) for name in self._slots.take_agents_to_close()]
        for each in leaving:
            if each is not None:
                each.close_when_idle()

    def _next_group(self) -> str | None:
        with self._lock:
            return self._slots.start_next()

    def _begin_run(self, name: str) -> AgentRun | None:
        group = self._group(name)
        if group is None or group.is_paused or group.wait_seconds > 0:
            return None
        if group.channel not in self._channels:
            return None
        delivery = self.deliveries.begin(group)
        if delivery is None:
            return None
        is_stored = self._channels[group.channel].is_stored
        run = AgentRun(self._context, group, delivery, is_stored=is_stored)
        with self._lock:
            self._runs[name] = run
        self._changed(name)
        return run

    def _group(self, name: str) -> Group | None:
        try:
            return self.groups.show(name)
        except GroupMissing:
            return None

    def _is_crowded(self) -> bool:
        with self._lock:
            return self._slots.is_crowded

    # --- callbacks of runs ----------------------------------------------------------------------

    def _changed(self, group: str) -> None:
        self._outbox_changed.set()
        if self.on_change is not None:
            self.on_change(group)

    def _on_run_idle(self, group: str, since: float | None) -> None:
        with self._lock:
            if since is None:
                self._slots.mark_busy(group)
            else:
                self._slots.mark_idle(group, since)
        self._wake.set()

    def _on_run_end(self, group: str, is_known: bool) -> None:  # noqa: FBT001 - a callback
        with self._lock:
            self._runs.pop(group, None)
            self._dirty.add(group)
            self._slots.release(group)
        if not is_known:
            self._note_unknown_end(group)
        self._wake.set()
        self._changed(group)

    def _note_unknown_end(self, group: str) -> None:
        # Delayed, since the error may repeat.
        with self._lock:
            self._unknown_ends.setdefault(group, self._clock.monotonic() + _TROUBLE_SECONDS)

    def _end_runs(self) -> None:
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            run.stop()
        for run in runs:
            run.join()

    # --- the outbox -----------------------------------------------------------------------------

    def _send_loop(self) -> None:
        while not self._stopping.is_set():
            self._outbox_changed.clear()
            wait = _TROUBLE_SECONDS
            try:
                if self.is_held:
                    wait = self._sender.send_due()
            except OncewardError as exc:
                log.warning("sending failed: %s", exc.message, extra={"event": "dispatch.trouble"})
            except Exception:
                log.exception("sending failed", extra={"event": "dispatch.trouble"})
            self._outbox_changed.wait(wait)
