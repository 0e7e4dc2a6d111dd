"""Parked: real readers that share a cursor, with messages that fail in every way there is.

Each process runs the production reader of a worker, a turn at a time: leases, pages, handlers,
failed attempts, parked keys, dead letters. An operator moves the cursor, redrives and drops.
What must hold is checked from commit to commit by `parked_lines`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from onceward.client import Onceward
from onceward.errors import (
    CursorMissing,
    NothingToUndo,
    OutcomeUnknown,
    StoreBusy,
    Superseded,
)
from onceward.retries import DeadFilter, FixedDelays
from onceward.stores import Transaction
from onceward.workers.cursor_reader import CursorReader
from onceward.workers.handler_calls import Reject
from onceward.workers.models import POISON_DEATHS, ConcurrencyLimits, Consumer, Message
from onceward.workers.source_protocol import Item
from onceward.workers.telemetry import Telemetry
from tests.proof.simulation.campaign import World
from tests.proof.simulation.parked_lines import CURSOR, Lines
from tests.proof.simulation.scheduler import Process, Simulation
from tests.proof.simulation.simulated_stores import SimulatedStores

LEASE_SECONDS = 30.0
POLL_SECONDS = 20.0
WAITS = (8.0, 25.0)
#: What becomes of a message that is handled: nothing bad; an error the first times; always one;
#: given up by its handler; bytes that cannot be read; the end of its process.
NATURES = ("good", "moody", "moody", "poison", "reject", "garbled")


class Garbled(Exception):
    """These bytes say nothing."""


class Parked(World):
    """One cursor over the numbers 1 to n, each with a key and a nature of its own."""

    name = "parked"
    claims = ("D1", "D2", "F1", "F4", "R1", "W1", "W2")
    sometimes: ClassVar[tuple[str, ...]] = (
        "a message was parked",
        "a message was queued after its key",
        "a parked message was done at last",
        "a message held its cursor, and was done at last",
        "a message died after all its attempts",
        "a message that cannot be read was buried",
        "a message that killed its workers was poison",
        "a batch failed, and was taken singly",
        "killed between effect and checkpoint",
        "killed inside a handler",
        "a commit was ambiguous",
        "a retry was due while its lease was lost",
        "a heartbeat found the lease lost under a handler",
        "a dead letter was redriven under a live worker",
        "a redriven message was done",
        "a dead letter was dropped",
        "a move forgot what was parked",
        "an undo brought back what a seek had forgotten",
        "an operator moved on what was being tried",
        "a lease was taken over",
    )
    tables = ("create table effects (id integer primary key, number integer, attempt integer)",)

    def __init__(self, simulation: Simulation, stores: SimulatedStores) -> None:
        super().__init__(simulation, stores)
        self.random = chance = simulation.random
        count = chance.randint(2, 8)
        kept = ("good", "good", *chance.sample(NATURES, chance.randint(1, 3)))
        keys = chance.choice((("a",), ("a", "b"), ("a", "b", None)))
        self.natures = [chance.choice(kept) for _ in range(count)]
        if chance.random() < 0.08:
            self.natures[chance.randrange(count)] = "deadly"
        #: How often a moody one will fail yet: now and then more often than it is tried.
        self.tempers = [chance.choice((1, 1, 2, 3, 3)) for _ in range(count)]
        # What cannot be read has no known key.
        drawn = [(nature, chance.choice(keys)) for nature in self.natures]
        self.keys = [None if nature == "garbled" else key for nature, key in drawn]
        #: How likely a handler is slow, and a heartbeat comes in time.
        self.slow = chance.choice((0.0, 0.2, 0.5))
        self.beats = chance.choice((0.0, 0.5, 1.0))
        #: Whether an operator looks at the letters in the end, and redrives them all.
        self.is_looked_after = chance.random() < 0.2
        self.moves_left = chance.choice((0, 0, 3, 6))
        self.consumer = self.declared(chance.choice((None, None, 2, 3)))
        self.knobs = {
            "natures": self.natures,
            "keys": self.keys,
            "order": self.consumer.order,
            "batch": self.consumer.batch,
            "moves": self.moves_left,
        }
        self.settle_seconds_max = LEASE_SECONDS * self.leases_max()
        self.lines = Lines(
            simulation,
            stores,
            keys=self.keys,
            order=self.consumer.order,
            retries=len(WAITS),
        )
        #: How many are slow at something that failed before.
        self.retrying = 0
        self.handles: dict[Process, Onceward] = {}
        #: At which attempt of which message each process was last.
        self.trying: dict[Process, Message] = {}
        for number in range(chance.choice((2, 2, 3))):
            simulation.add(f"w{number}", self.work_on)
        self.operator = simulation.add("operator", self.operate)

    def declared(self, batch: int | None) -> Consumer:
        return Consumer(
            name=CURSOR,
            handler=self.handle,
            takes_tx=True,
            source=self,
            is_partitioned=False,
            batch=batch,
            order=self.random.choice(("key", "key", "none", "cursor")),
            key=lambda data: data[1],
            decode=self.decode,
            retry=FixedDelays(seconds=WAITS),
            poison_deaths=POISON_DEATHS,
            lease_seconds=LEASE_SECONDS,
            heartbeat_seconds=LEASE_SECONDS / 3,
            version=1,
            migrations={},
            poll_seconds=POLL_SECONDS,
            limits=ConcurrencyLimits(),
        )

    def leases_max(self) -> float:
        """Return after how many lease periods all must be at its end, once the faults have stopped.

        One lease has to expire, and each message that fails may have its waits one by one.
        One that kills its workers costs a lease and a look for each death: it takes three before
        each message is watched, and then all its attempts.
        """
        failing = sum(each != "good" for each in self.natures)
        deaths = 18 if "deadly" in self.natures else 0
        return 8 + (failing * 2 + deaths) * (2 if self.is_looked_after else 1)

    # --- the source ---------------------------------------------------------------------------

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        first = int(after or 0) + 1
        last = min(len(self.keys), first + limit - 1)
        return [Item(position=str(n), raw=str(n).encode()) for n in range(first, last + 1)]

    def count(self, after: str | None, up_to: str | None) -> int:
        return max(0, int(up_to or 0) - int(after or 0))

    def decode(self, raw: bytes) -> tuple[int, str | None]:
        number = int(raw)
        if self.nature(number) == "garbled":
            raise Garbled
        if self.nature(number) == "deadly" and number % 2 == 0:
            # The others kill in their handler.
            self.die_of(number)
        return number, self.keys[number - 1]

    def die_of(self, number: int) -> None:
        process = self.simulation.current
        assert process is not None
        self.simulation.note(f"dies of {number}")
        process.die("handler")

    def nature(self, number: int) -> str:
        return self.natures[number - 1]

    # --- what the processes do ----------------------------------------------------------------

    def work_on(self, process: Process) -> None:
        self.handles[process] = ow = self.watched(self.stores.handle(process))
        reports = _TracedTelemetry(self, process)
        while True:
            reader = CursorReader(
                ow,
                self.consumer,
                None,
                self,
                worker=process.id,
                clock=self.stores.clock,
                telemetry=reports,
                is_stopping=lambda: False,
            )
            while self.random.random() > 0.05:
                turned = reader.poll()
                self.simulation.sleep(max(turned.seconds, 0.001))
                self.beat(process)
            reader.release()

    def watched(self, ow: Onceward) -> Onceward:
        """See when what was tried is not what it was."""
        parked = ow.retries.parked

        def watch(call: Callable[..., Any]) -> Callable[..., Any]:
            def seen(*args: object, **kwargs: object) -> object:
                try:
                    return call(*args, **kwargs)
                except Superseded:
                    self.simulation.sometimes("an operator moved on what was being tried")
                    raise

            return seen

        parked.succeed = watch(parked.succeed)  # type: ignore[method-assign]
        parked.fail = watch(parked.fail)  # type: ignore[method-assign]
        return ow

    def beat(self, process: Process) -> None:
        """Renew, unless this process is too busy for that."""
        if self.random.random() < self.beats or self.simulation.is_healed:
            self.stores.beat(self.handles[process])

    def handle(self, what: Message | list[Message], tx: Transaction) -> None:
        process = self.simulation.current
        assert process is not None
        process.gave_way("handler")
        for message in [what] if isinstance(what, Message) else what:
            self.handle_one(process, message, tx)

    def handle_one(self, process: Process, message: Message, tx: Transaction) -> None:
        nature = self.nature(number := int(message.position))
        self.trying[process] = message
        if not self.simulation.is_healed and self.random.random() < self.slow:
            self.retrying += message.attempt > 1
            try:
                self.work_slowly(process)
            finally:
                self.retrying -= message.attempt > 1
        fails = nature == "poison" or (nature == "moody" and self.tempers[number - 1] > 0)
        self.tempers[number - 1] -= 1
        if not fails or self.random.random() < 0.5:
            tx.execute(
                "insert into effects (number, attempt) values (?, ?)", [number, message.attempt]
            )
            self.simulation.give_way("handler")
        if nature == "deadly":
            self.die_of(number)
        if nature == "reject":
            raise Reject
        if fails:
            raise ValueError(number)

    def work_slowly(self, process: Process) -> None:
        self.simulation.sleep(LEASE_SECONDS * self.random.choice((0.4, 0.9, 2.0)))
        beats = self.handles[process].cursors.heartbeat._renewed
        held = list(beats)
        self.beat(process)
        if any(lease.lost.is_set() for lease in held):
            self.simulation.sometimes("a heartbeat found the lease lost under a handler")

    def operate(self, process: Process) -> None:
        ow = self.stores.handle(process)
        while self.moves_left and not self.simulation.is_healed:
            self.wait_for_a_moment()
            self.moves_left -= 1
            with suppress(StoreBusy, OutcomeUnknown, CursorMissing, NothingToUndo):
                self.operate_once(ow)
        if self.is_looked_after:
            while not self.lines.is_drained:
                self.simulation.sleep(POLL_SECONDS)
            with suppress(StoreBusy, OutcomeUnknown):
                ow.dead.redrive(DeadFilter(cursor=CURSOR), actor="op")

    def wait_for_a_moment(self) -> None:
        """Come when it hurts: while something is tried again, if that is soon."""
        for _ in range(self.random.choice((1, 4, 8))):
            self.simulation.sleep(self.random.uniform(1, 12))
            if self.retrying:
                return

    def operate_once(self, ow: Onceward) -> None:
        what = self.random.choice(("seek", "redrive", "redrive", "drop"))
        what = "seek" if self.retrying else what
        if what == "seek":
            target = self.random.choice((0, 1, self.random.randint(0, len(self.keys))))
            ow.cursors.seek(CURSOR, str(target) if target else None, "", "op", count=self.count)
            if self.random.random() < 0.6:
                self.simulation.sleep(self.random.choice((0.1, 2.0, 20.0)))
                ow.cursors.undo(CURSOR, "op", count=self.count)
            return
        letters = self.stores.rows("select id from onceward_dead where state = 'dead'")
        if not letters:
            return
        (which,) = self.random.choice(letters)
        if what == "drop":
            ow.dead.drop(which, reason="enough", actor="op")
        else:
            ow.dead.redrive(which, actor="op")

    # --- what must hold -----------------------------------------------------------------------

    def after_commit(self) -> None:
        self.lines.look()

    def is_settled(self) -> bool:
        return self.operator.is_done and self.lines.is_drained

    def check(self) -> None:
        self.work = self.lines.check_end(self.natures)
        self.lost, self.doubled = self.lines.lost, self.lines.doubled
        killed = self.simulation.killed_at
        for where, what in (
            ("transaction.before_commit", "killed between effect and checkpoint"),
            ("handler", "killed inside a handler"),
        ):
            if killed[where]:
                self.simulation.sometimes(what)


class _TracedTelemetry(Telemetry):
    """Reports into the trace of the simulation."""

    def __init__(self, world: Parked, process: Process) -> None:
        super().__init__(world.stores.clock)
        self._world, self._process = world, process

    def batch_failed(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        self._world.simulation.sometimes("a batch failed, and was taken singly")

    def warn_and_retry(
        self, action: str, cursor: str, error: BaseException, seconds: float
    ) -> None:
        del cursor, seconds
        simulation, tried = self._world.simulation, self._world.trying.get(self._process)
        simulation.note(f"{action}: {error!r}")
        if action == "commit_outcome_unknown":
            simulation.sometimes("a commit was ambiguous")
        if action == "lease_lost" and tried is not None and tried.attempt > 1:
            simulation.sometimes("a retry was due while its lease was lost")
        is_ours = action in ("lease_lost", "commit_outcome_unknown", "store_unavailable")
        assert is_ours or not isinstance(error, Exception), f"{action}: {error!r}"

    @staticmethod
    def _log_event(level: int, text: str, **facts: object) -> None:
        """Keep the logs of so many schedules to ourselves."""
