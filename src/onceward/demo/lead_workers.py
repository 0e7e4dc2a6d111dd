"""Lead workers: run the workers that sell leads, kill or freeze one, and observe the takeover."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from typing import Final

from onceward.client import Onceward
from onceward.cursors.lease_history import rejected_writes_of
from onceward.cursors.models import CursorState
from onceward.demo import leads
from onceward.demo.demo_processes import DemoProcess, DemoProcesses
from onceward.demo.interleaving import Act, Stage
from onceward.workers.sources.table import TableSource

PART: Final = "leads"
CURSORS: Final = "demo_*"
WORKERS: Final = 3
#: Threads per worker: enough for one worker to do the work of all.
THREADS: Final = 5
#: Every how many leads one has no contact and becomes a dead letter at once.
WITHOUT_CONTACT_EVERY: Final = 97
#: How long to wait for a worker that holds a lease.
FIND_SECONDS: Final = 5.0
#: Time for a lease to expire and another worker to poll, on a busy machine.
TAKEOVER_SECONDS: Final = 10 * leads.LEASE_SECONDS
#: A commit takes milliseconds; a frozen worker that blocks others for longer is inside one.
PROBE_SECONDS: Final = 0.5
#: How often to try to freeze a worker outside a commit.
FREEZES_MAX: Final = 10
#: How long a resumed worker may take until its stale write is rejected.
REJECTION_SECONDS: Final = 5.0
#: How many of a cursor's latest rejected writes are read.
REJECTED_READ_MAX: Final = 50


class LeadWorkers:
    """The workers of the demo."""

    def __init__(self, stage: Stage, processes: DemoProcesses, ow: Onceward) -> None:
        """Start no worker yet."""
        self._stage, self._processes, self._ow = stage, processes, ow
        self._app = leads.lead_app(ow)
        self._workers: list[DemoProcess] = []
        self._numbers = 0
        self._leads = 0
        #: Whether a resumed worker's stale write was rejected.
        self.has_refused = False

    def start(self) -> None:
        """Start workers until their number is complete."""
        self._workers = [each for each in self._workers if not each.has_ended]
        while len(self._workers) < WORKERS:
            self._numbers += 1
            words = (
                "worker",
                "onceward.demo.leads:app",
                "--log",
                "json",
                "--threads",
                str(THREADS),
            )
            self._workers.append(self._processes.start(PART, f"worker {self._numbers}", *words))

    def stop(self) -> None:
        """Stop all workers gracefully, which releases their leases."""
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            self._processes.stop(worker)

    def submit(self, count: int) -> None:
        """Add leads; some have no contact."""
        for _ in range(count):
            self._leads += 1
            contact = "" if self._leads % WITHOUT_CONTACT_EVERY == 0 else f"caller {self._leads}"
            niche = leads.NICHES[self._leads % len(leads.NICHES)]
            leads.submit(self._ow, niche, contact, clock=self._stage.clock)

    # --- kills and freezes --------------------------------------------------------------------

    def kill_one(self) -> Act:
        """Kill a worker that holds leases, start another, and wait for the takeover."""
        found = yield from self._choose_worker()
        if found is None:
            return
        self._processes.kill(found)
        held = self._held_by(found)  # The dead worker's leases, as the store has them now.
        names = ", ".join(map(_short, held)) or "no lease any more"
        text = f"{found.name} (process {found.pid}) is killed while it holds {names}"
        self._stage.tell(PART, text, is_blow=True)
        self.start()
        yield from self._taken_over(held)

    def freeze_one(self) -> Act:
        """Freeze a worker, wait for the takeover, resume it, and see its stale write rejected."""
        found = yield from self._frozen()
        if found is None:
            return
        held = self._held_by(found)
        names = ", ".join(map(_short, held)) or "no lease any more"
        text = f"{found.name} is frozen while it holds {names}, so it cannot renew its leases"
        self._stage.tell(PART, text, is_blow=True)
        try:
            yield from self._taken_over(held)
        finally:
            before = self._rejected_writes(found)
            self._processes.wake(found)
        if not held:
            return
        if (
            yield from self._stage.until(
                lambda: self._rejected_writes(found) > before, REJECTION_SECONDS
            )
        ):
            self.has_refused = True
            text = f"{found.name} resumes and writes under its old epoch; the write is rejected"
        else:
            text = f"{found.name} resumes; no rejected write was seen"
        self._stage.tell(PART, text)

    def _frozen(self) -> Generator[None, None, DemoProcess | None]:
        """Freeze a worker in the middle of a sale; retry if it was inside a commit."""
        for _ in range(FREEZES_MAX):
            found = yield from self._choose_worker(self._is_busy)
            if found is None or self._is_frozen_outside(found):
                return found
        return None

    def _choose_worker(
        self, is_suitable: Callable[[Iterable[CursorState]], bool] = any
    ) -> Generator[None, None, DemoProcess | None]:
        """Choose a worker by the cursors that it holds; by default any that holds one."""
        chosen: list[DemoProcess] = []

        def look() -> bool:
            found = [each for each in self._workers if is_suitable(self._held_by(each).values())]
            chosen[:] = [self._stage.one_of(found)] if found else []
            return bool(found)

        found = yield from self._stage.until(look, FIND_SECONDS)
        return chosen[0] if found else None

    def _is_busy(self, held: Iterable[CursorState]) -> bool:
        """Return whether a cursor has more than one waiting message, so that its owner is busy."""
        for each in held:
            source = self._app.source_of(each.name)
            if isinstance(source, TableSource) and (source.lag(each.position).messages or 0) > 1:
                return True
        return False

    def _held_by(self, worker: DemoProcess) -> dict[str, CursorState]:
        """Return the cursors that a process holds, by name."""
        return {
            each.name: each
            for each in self._ow.cursors.list(CURSORS)
            if each.is_held and _is_of(each, worker)
        }

    def _taken_over(self, held: dict[str, CursorState]) -> Act:
        """Wait until other workers hold these cursors, and print it."""
        left = dict(held)

        def look() -> bool:
            for name in list(left):
                now = self._ow.cursors.show(name)
                if now.epoch > left[name].epoch:
                    self._print_takeover(left.pop(name), now)
            return not left

        yield from self._stage.until(look, TAKEOVER_SECONDS)

    def _print_takeover(self, before: CursorState, now: CursorState) -> None:
        epochs = f"epoch {before.epoch} becomes {now.epoch}"
        who = next((each for each in self._workers if _is_of(now, each)), None)
        by = f" by {who.name}" if who else ""
        self._stage.tell(PART, f"{_short(before.name)} is taken over{by}: {epochs}")

    def _is_frozen_outside(self, worker: DemoProcess) -> bool:
        """Freeze a worker outside of a commit; inside one it would block all SQLite writers."""
        self._processes.freeze(worker)
        probe = threading.Thread(target=self._write, daemon=True)
        probe.start()
        probe.join(PROBE_SECONDS)
        if not probe.is_alive():
            return True
        self._processes.wake(worker)
        probe.join()
        return False

    def _write(self) -> None:
        with self._ow.transaction() as tx:
            tx.execute("update demo_buyers set cents = cents where niche = ?", ["roofing"])

    def _rejected_writes(self, worker: DemoProcess) -> int:
        cursors = self._ow.cursors.list(CURSORS)
        found = [
            rejected_writes_of(self._ow.store, each.name, REJECTED_READ_MAX) for each in cursors
        ]
        return sum(f"/{worker.pid}/" in each.worker for some in found for each in some)


def _short(cursor: str) -> str:
    return cursor.removeprefix("demo_")


def _is_of(state: CursorState, worker: DemoProcess) -> bool:
    return bool(state.lease_owner) and f"/{worker.pid}/" in str(state.lease_owner)
