"""Dispatcher: the one loop of a store that hands messages to agents.

It sees what arrives, lets groups take turns, starts agents and sends what they say. What it must
not forget is in the store: whoever takes its lease next goes on from there.
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

from onceward.agents.orphans import AgentRecord, end_orphans
from onceward.cursors.lease import Lease
from onceward.dispatch.arrivals import Arrivals
from onceward.dispatch.channels import CHAT, Channel, Sender, StoredChannel
from onceward.dispatch.deliveries import Deliveries
from onceward.dispatch.groups import Groups
from onceward.dispatch.models import AGENTS_MAX, DUAL, LEASE, Group
from onceward.dispatch.operators import Operators
from onceward.dispatch.outbox import Outbox
from onceward.dispatch.running import Run, Surroundings
from onceward.dispatch.slots import Slots
from onceward.errors import BatchInFlight, CursorMissing, GroupMissing, OncewardError
from onceward.handle import Onceward
from onceward.retries.schedule import DISPATCH, Schedule
from onceward.seams import (
    Clock,
    Files,
    ProcessIdentity,
    Randomness,
    SystemClock,
    SystemFiles,
    SystemRandomness,
)
from onceward.secrets import Redactor

log = logging.getLogger("onceward.dispatch")
LEASE_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.25
#: After the store failed, look again.
_TROUBLE_SECONDS: Final = 1.0


class Dispatcher:
    """Hands the messages of a store's groups to their agents, while it holds the store's lease."""

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
        """Use this store; agents' logs and directories lie below `home`."""
        self._ow = ow
        self._home = home
        self._clock = clock or SystemClock()
        chance = randomness or SystemRandomness()
        self._channels: Mapping[str, Channel] = {CHAT: StoredChannel(), **(channels or {})}
        self._poll_seconds = poll_seconds
        #: Told of a group whose conversation or state has changed, from any thread.
        self.on_change = on_change
        self.groups = Groups(ow.store)
        self.arrivals = Arrivals(ow.store)
        self.deliveries = Deliveries(ow.store, schedule=schedule, randomness=chance)
        self.outbox = Outbox(ow.store, schedule=schedule, randomness=chance)
        self.operators = Operators(ow.store)
        self._sender = Sender(self.outbox, self.groups, self._channels, self._changed)
        self._slots = Slots(agents_max)
        self._lock = threading.RLock()
        self._runs: dict[str, Run] = {}
        self._dirty: set[str] = set()
        #: Groups whose run ended, nobody knows how, and when to look that up.
        self._strays: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._woken = threading.Event()
        self._said = threading.Event()
        self._stopping = threading.Event()
        self._lost = threading.Event()
        #: Under which it holds the store's lease; no other dispatcher has the same.
        self._name = ""
        self._suffix = chance.hex(8)
        self._lease: Lease | None = None
        self._is_doubtful = False
        self._threads: list[threading.Thread] = []
        env = os.environ if environ is None else environ
        self._all = Surroundings(
            deliveries=self.deliveries,
            outbox=self.outbox,
            environ=env,
            home=home,
            redactor=Redactor.from_environment(env),
            clock=self._clock,
            files=files or SystemFiles(),
            on_change=self._changed,
            on_idle=self._idle,
            on_end=self._ended,
            is_crowded=self._is_crowded,
            group_now=self._group,
        )

    # --- from outside ---------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, in threads of its own; returns at once."""
        assert not self._threads, "a dispatcher is started once"
        # Not before: the process that made it may have forked.
        self._name = ProcessIdentity.own().holder(self._suffix)
        self._threads = [
            threading.Thread(target=self._live, name="onceward-dispatch", daemon=True),
            threading.Thread(target=self._keep_sending, name="onceward-outbox", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Say that something has arrived, so that it looks at once."""
        self._woken.set()

    def stop(self, *, seconds: float = 5.0) -> None:
        """End all agents and give the lease back; what was not finished is handed out again."""
        self._stopping.set()
        self._woken.set()
        self._said.set()
        for thread in self._threads:
            thread.join(seconds)

    @property
    def is_held(self) -> bool:
        """Say whether this one is the dispatcher of its store."""
        return self._lease is not None and not self._lost.is_set()

    @property
    def holder(self) -> str | None:
        """Return who is the dispatcher of the store, if anybody."""
        try:
            return self._ow.cursors.show(LEASE).lease_owner
        except CursorMissing:
            return None

    # --- its life -------------------------------------------------------------------------------

    def _live(self) -> None:
        while not self._stopping.is_set():
            try:
                lease = self._acquired()
                if lease is not None:
                    self._hold(lease)
                    continue
            except OncewardError as exc:
                log.warning("no dispatching: %s", exc.message, extra={"event": "dispatch.trouble"})
            except Exception:
                log.exception("no dispatching", extra={"event": "dispatch.trouble"})
            self._stopping.wait(_TROUBLE_SECONDS)

    def _acquired(self) -> Lease | None:
        """Take the lease of the store; at once, if who has it is dead."""
        acquire = partial(self._ow.cursors.acquire, LEASE, lease_seconds=LEASE_SECONDS)
        lease = acquire(self._name)
        if lease is None and (dead := self._dead_holder()) is not None:
            # In its name, to give it back; then in our own, so that nobody takes us for dead too.
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

    def _hold(self, lease: Lease) -> None:
        self._lost.clear()
        with lease.hold(), lease.when_lost(self._lose):
            try:
                self._recover()
                self._lease = lease
                while not self._stopping.is_set() and not self._lost.is_set():
                    self._woken.clear()
                    self._woken.wait(self._round())
            finally:
                self._end_runs()
                self._lease = None
        if not self._lost.is_set():
            with suppress(OncewardError):
                lease.release()

    def _lose(self) -> None:
        self._lost.set()
        self._woken.set()

    def _recover(self) -> None:
        """End what an earlier life left behind: its agents first, then what they worked on."""
        noted = self.deliveries.agents()
        known = [*noted.values(), *(each.agent for each in self.deliveries.running() if each.agent)]
        found = [json.loads(each) for each in dict.fromkeys(known)]
        records = [AgentRecord.from_fields(each, each.get("run_id")) for each in found]
        for ended in end_orphans(records, clock=self._clock):
            log.info("ended the agent %s of an earlier life", ended.pid)
        for name in noted:
            self.deliveries.ended(name)
        for record, ending in self.deliveries.recover():
            log.info("%s after a crash: %s", record.group, ending.state)
            self._changed(record.group)
        self._sender.recover()
        self.arrivals.see()
        with self._lock:
            self._strays.clear()
        self._look_at_all()

    def _look_at_all(self) -> None:
        """Let every group be looked at that has something to hand out."""
        pending = {each.group for each in self._ow.dual(DUAL).pending()}
        with self._lock:
            self._dirty |= pending
        self._is_doubtful = False

    def _round(self) -> float:
        """Do what there is to do, and return how long nothing else will be."""
        dirty: set[str] = set()
        try:
            if self._is_doubtful:
                self._look_at_all()
            arrived = [*self.arrivals.see(), *self.groups.nudged()]
            with self._lock:
                now = self._clock.monotonic()
                due = [group for group, at in self._due.items() if at <= now]
                for group in due:
                    del self._due[group]
                dirty = {*self._dirty, *arrived, *due}
                self._dirty = set()
                strays = [group for group, at in self._strays.items() if at <= now]
            for group in strays:
                with self._lock:
                    is_at_work = group in self._runs
                # Whoever works on it now began after that was over.
                if not is_at_work:
                    self.deliveries.recover(group)
                with self._lock:
                    del self._strays[group]
                dirty.add(group)
            for group in sorted(dirty):
                self._look(group)
            self._start_some()
        except OncewardError as exc:
            log.warning("cannot look: %s", exc.message, extra={"event": "dispatch.trouble"})
            with self._lock:
                self._dirty |= dirty
            # Something may have been seen and forgotten.
            self._is_doubtful = True
            return _TROUBLE_SECONDS
        with self._lock:
            moments = [*self._due.values(), *self._strays.values()]
            waits = [at - self._clock.monotonic() for at in moments]
        return max(0.0, min([self._poll_seconds, *waits]))

    # --- groups ---------------------------------------------------------------------------------

    def _look(self, name: str) -> None:
        """Let a group have what is its due: a hint to its agent, a turn, or a time to wait for."""
        group = self._group(name)
        with self._lock:
            run = self._runs.get(name)
        # A channel that we do not know is another dispatcher's.
        if group is None or group.is_paused or group.channel not in self._channels:
            with self._lock:
                self._slots.forget(name)
        elif run is not None:
            run.poke()
        elif self.deliveries.is_waiting(group):
            with self._lock:
                if group.wait_seconds > 0:
                    self._due[name] = self._clock.monotonic() + group.wait_seconds
                else:
                    self._slots.want(name)

    def _start_some(self) -> None:
        while (name := self._taken()) is not None:
            run: Run | None = None
            try:
                run = self._begun(name)
            except OncewardError as exc:
                # It may be in flight, of an earlier try of ours or of this one.
                self._stray(name)
                if not isinstance(exc, BatchInFlight):
                    raise
            finally:
                if run is None:
                    with self._lock:
                        self._slots.free(name)
                        self._dirty.add(name)
            if run is not None:
                run.start()
        with self._lock:
            leaving = [self._runs.get(name) for name in self._slots.giving_way()]
        for each in leaving:
            if each is not None:
                each.give_way()

    def _taken(self) -> str | None:
        with self._lock:
            return self._slots.take()

    def _begun(self, name: str) -> Run | None:
        group = self._group(name)
        if group is None or group.is_paused or group.wait_seconds > 0:
            return None
        if group.channel not in self._channels:
            return None
        delivery = self.deliveries.begin(group)
        if delivery is None:
            return None
        is_stored = self._channels[group.channel].is_stored
        run = Run(self._all, group, delivery, is_stored=is_stored)
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

    # --- told by runs ---------------------------------------------------------------------------

    def _changed(self, group: str) -> None:
        self._said.set()
        if self.on_change is not None:
            self.on_change(group)

    def _idle(self, group: str, since: float | None) -> None:
        with self._lock:
            if since is None:
                self._slots.busy(group)
            else:
                self._slots.idle(group, since)
        self._woken.set()

    def _ended(self, group: str, is_known: bool) -> None:  # noqa: FBT001 - a callback
        with self._lock:
            self._runs.pop(group, None)
            self._dirty.add(group)
            self._slots.free(group)
        if not is_known:
            self._stray(group)
        self._woken.set()
        self._changed(group)

    def _stray(self, group: str) -> None:
        # Not at once: what went wrong may go wrong again, and again.
        with self._lock:
            self._strays.setdefault(group, self._clock.monotonic() + _TROUBLE_SECONDS)

    def _end_runs(self) -> None:
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            run.stop()
        for run in runs:
            run.join()

    # --- the outbox -----------------------------------------------------------------------------

    def _keep_sending(self) -> None:
        while not self._stopping.is_set():
            self._said.clear()
            wait = _TROUBLE_SECONDS
            try:
                if self.is_held:
                    wait = self._sender.round()
            except OncewardError as exc:
                log.warning("cannot send: %s", exc.message, extra={"event": "dispatch.trouble"})
            except Exception:
                log.exception("cannot send", extra={"event": "dispatch.trouble"})
            self._said.wait(wait)
