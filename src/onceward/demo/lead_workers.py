"""Lead workers: workers that sell leads; one is killed or frozen, and others take over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from typing import Final

from onceward.client import Onceward
from onceward.cursors.lease_history import rejected_writes_of
from onceward.cursors.models import CursorState
from onceward.demo import leads
from onceward.demo.demo_processes import Cast, Player
from onceward.demo.interleaving import Act, Stage
from onceward.workers.sources.table import TableSource

PART: Final = "leads"
CURSORS: Final = "demo_*"
WORKERS: Final = 3
#: Enough for one worker to do the work of all.
THREADS: Final = 5
#: Every so many-th lead has no contact, and is given up at once.
NAMELESS_EVERY: Final = 97
#: Who holds nothing by then will not be killed.
FIND_SECONDS: Final = 5.0
#: A lease expires, and another worker polls; busy machines take longer.
TAKEOVER_SECONDS: Final = 10 * leads.LEASE_SECONDS
#: A commit takes milliseconds; a worker that blocks others for longer was frozen inside one.
PROBE_SECONDS: Final = 0.5
#: So many bad moments do not come one after the other.
FREEZES_MAX: Final = 10
#: How long a woken worker may take to find out.
REFUSAL_SECONDS: Final = 5.0
#: How many refusals of a cursor are looked at, the latest ones.
LATELY_MAX: Final = 50


class Crew:
    """The workers of a story."""

    def __init__(self, stage: Stage, cast: Cast, ow: Onceward) -> None:
        """Start without workers."""
        self._stage, self._cast, self._ow = stage, cast, ow
        self._app = leads.lead_app(ow)
        self._workers: list[Player] = []
        self._numbers = 0
        self._leads = 0
        #: Whether a stale write was rejected after a freeze.
        self.has_refused = False

    def start(self) -> None:
        """Start as many workers as are missing."""
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
            self._workers.append(self._cast.start(PART, f"worker {self._numbers}", *words))

    def stop(self) -> None:
        """Ask all to end, which gives their leases back."""
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            self._cast.stop(worker)

    def submit(self, count: int) -> None:
        """Let leads come in; every now and then one without a contact."""
        for _ in range(count):
            self._leads += 1
            contact = "" if self._leads % NAMELESS_EVERY == 0 else f"caller {self._leads}"
            niche = leads.NICHES[self._leads % len(leads.NICHES)]
            leads.submit(self._ow, niche, contact, clock=self._stage.clock)

    # --- what is done to them --------------------------------------------------------------------

    def kill_one(self) -> Act:
        """Kill a worker that holds something, start another, and see it taken over."""
        found = yield from self._somebody()
        if found is None:
            return
        self._cast.kill(found)
        held = self._held_by(found)  # By the dead, as the store has it now.
        names = ", ".join(map(_short, held)) or "nothing any more"
        text = f"{found.name} (process {found.pid}) is killed while it holds {names}"
        self._stage.tell(PART, text, is_blow=True)
        self.start()
        yield from self._taken_over(held)

    def freeze_one(self) -> Act:
        """Freeze a worker, see it taken over, wake it, and see it refused."""
        found = yield from self._frozen()
        if found is None:
            return
        held = self._held_by(found)
        names = ", ".join(map(_short, held)) or "nothing any more"
        text = f"{found.name} is frozen while it holds {names}: it does not know that time passes"
        self._stage.tell(PART, text, is_blow=True)
        try:
            yield from self._taken_over(held)
        finally:
            before = self._refusals(found)
            self._cast.wake(found)
        if not held:
            return
        if (yield from self._stage.until(lambda: self._refusals(found) > before, REFUSAL_SECONDS)):
            self.has_refused = True
            text = f"{found.name} wakes, wants to go on under its old epoch, and is refused"
        else:
            text = f"{found.name} wakes; no refusal was seen"
        self._stage.tell(PART, text)

    def _frozen(self) -> Generator[None, None, Player | None]:
        """Freeze a worker in the middle of a sale; try again when it was a bad moment."""
        for _ in range(FREEZES_MAX):
            found = yield from self._somebody(self._is_busy)
            if found is None or self._is_frozen_outside(found):
                return found
        return None

    def _somebody(
        self, is_meant: Callable[[Iterable[CursorState]], bool] = any
    ) -> Generator[None, None, Player | None]:
        """Choose a worker by the cursors that it holds now; by default any."""
        chosen: list[Player] = []

        def look() -> bool:
            found = [each for each in self._workers if is_meant(self._held_by(each).values())]
            chosen[:] = [self._stage.one_of(found)] if found else []
            return bool(found)

        found = yield from self._stage.until(look, FIND_SECONDS)
        return chosen[0] if found else None

    def _is_busy(self, held: Iterable[CursorState]) -> bool:
        """Return whether more than one message waits at one of these: its holder is busy."""
        for each in held:
            source = self._app.source_of(each.name)
            if isinstance(source, TableSource) and (source.lag(each.position).messages or 0) > 1:
                return True
        return False

    def _held_by(self, worker: Player) -> dict[str, CursorState]:
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
                    self._tell_takeover(left.pop(name), now)
            return not left

        yield from self._stage.until(look, TAKEOVER_SECONDS)

    def _tell_takeover(self, before: CursorState, now: CursorState) -> None:
        epochs = f"epoch {before.epoch} becomes {now.epoch}"
        who = next((each for each in self._workers if _is_of(now, each)), None)
        by = f" by {who.name}" if who else ""
        self._stage.tell(PART, f"{_short(before.name)} is taken over{by}: {epochs}")

    def _is_frozen_outside(self, worker: Player) -> bool:
        """Freeze a worker, but not inside a commit: on SQLite everybody would wait for it."""
        self._cast.freeze(worker)
        probe = threading.Thread(target=self._write, daemon=True)
        probe.start()
        probe.join(PROBE_SECONDS)
        if not probe.is_alive():
            return True
        self._cast.wake(worker)
        probe.join()
        return False

    def _write(self) -> None:
        with self._ow.transaction() as tx:
            tx.execute("update demo_buyers set cents = cents where niche = ?", ["roofing"])

    def _refusals(self, worker: Player) -> int:
        cursors = self._ow.cursors.list(CURSORS)
        found = [rejected_writes_of(self._ow.store, each.name, LATELY_MAX) for each in cursors]
        return sum(f"/{worker.pid}/" in each.worker for some in found for each in some)


def _short(cursor: str) -> str:
    return cursor.removeprefix("demo_")


def _is_of(state: CursorState, worker: Player) -> bool:
    return bool(state.lease_owner) and f"/{worker.pid}/" in str(state.lease_owner)
