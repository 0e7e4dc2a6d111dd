"""Leases: workers who take one cursor from each other, and an operator who moves it under them.

Each number has an effect of its own table, in the transaction that moves the cursor. An effect
notes the last recorded move of the cursor that it knows of; so the order of effects and moves can
be checked afterwards, and each effect must be the next after the one before it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar

from onceward.client import Onceward
from onceward.cursors import Lease
from onceward.errors import CursorMissing, LeaseLost, NothingToUndo, OutcomeUnknown, StoreBusy
from tests.proof.simulation.campaign import World
from tests.proof.simulation.scheduler import Process, Simulation
from tests.proof.simulation.simulated_stores import SimulatedStores

LEASE_SECONDS = 60.0


class Leases(World):
    """One cursor over the numbers 1 to n."""

    name = "leases"
    #: Five leases: one to expire, the rest for what is left and for workers in between.
    settle_seconds_max = 5 * LEASE_SECONDS
    claims = ("D1", "D2", "F1", "F2", "F4", "W1")
    sometimes: ClassVar[tuple[str, ...]] = (
        "a lease was taken over",
        "a late holder was refused inside its transaction",
        "a late holder was refused when it renewed",
        "a checkpoint of unknown outcome had happened",
        "a checkpoint of unknown outcome had not happened",
        "a worker that went on while ambiguous was refused",
        "an old handle of the same worker was refused",
        "killed between effect and checkpoint",
        "killed between commit and acknowledgement",
        "killed right after a lease was granted",
        "busy inside a write past its lease, and no worker took over",
        "the worker taking over gave way to a writer",
        "a live worker's cursor was moved",
        "a move was undone",
        "a pause found a worker at work",
    )
    tables = ("create table effects (id integer primary key, number, epoch, move)",)

    def __init__(self, simulation: Simulation, stores: SimulatedStores) -> None:
        super().__init__(simulation, stores)
        self.random = chance = simulation.random
        self.last = chance.randint(3, 12)
        self.lease_seconds = chance.choice((5.0, LEASE_SECONDS, LEASE_SECONDS))
        self.moves_left = chance.choice((0, 0, 1, 3))
        self.knobs = {"last": self.last, "lease": self.lease_seconds, "moves": self.moves_left}
        #: The cursor as the last commit left it.
        self.row: tuple[Any, ...] = (None, 0, 0)
        for number in range(chance.randint(2, 4)):
            simulation.add(f"w{number}", self.work_on)
        self.operator = simulation.add("operator", self.operate)

    # --- what the processes do ----------------------------------------------------------------

    def work_on(self, process: Process) -> None:
        ow, old = self.stores.handle(process), None
        while True:
            try:
                lease = ow.cursors.acquire("c", process.id, self.lease_seconds)
                if ow.cursors._takeover_delay._postponed:
                    self.simulation.sometimes("the worker taking over gave way to a writer")
                if lease is not None:
                    if old is not None and self.random.random() < 0.2:
                        self.use_old(ow, old)
                    old = lease
                    self.use(ow, lease)
            except (LeaseLost, StoreBusy, OutcomeUnknown):
                pass  # As a worker does: come back later, and ask again.
            self.simulation.sleep(self.random.uniform(1, 20))

    def use_old(self, ow: Onceward, old: Lease) -> None:
        """Go on with an earlier handle, as a forgotten thread of this worker would."""
        with suppress(LeaseLost):
            self.move_on(ow, old)
            message = "an old handle of the same worker was taken"
            raise AssertionError(message)
        self.simulation.sometimes("an old handle of the same worker was refused")

    def use(self, ow: Onceward, lease: Lease) -> None:
        while int(lease.position or 0) < self.last:
            self.dawdle(0.2)
            if self.random.random() < 0.3:
                self.renew(lease)
            try:
                self.move_on(ow, lease)
            except OutcomeUnknown:
                if self.random.random() < 0.5:
                    raise
                self.go_on_while_ambiguous(ow, lease)
            if lease.is_paused or self.random.random() < 0.1:
                break
        lease.release()

    def go_on_while_ambiguous(self, ow: Onceward, lease: Lease) -> None:
        """Go on although the position of the cursor is unknown."""
        try:
            self.move_on(ow, lease)
        except LeaseLost:
            self.simulation.sometimes("a worker that went on while ambiguous was refused")
            raise

    def dawdle(self, chance: float) -> None:
        """Be as slow as real work, while there are faults."""
        if not self.simulation.is_healed and self.random.random() < chance:
            self.simulation.sleep(self.lease_seconds * self.random.choice((0.02, 1.0, 2.0)))

    def renew(self, lease: Lease) -> None:
        try:
            lease.renew()
        except LeaseLost:
            self.simulation.sometimes("a late holder was refused when it renewed")
            raise
        if lease.is_paused:
            self.simulation.sometimes("a pause found a worker at work")

    def move_on(self, ow: Onceward, lease: Lease) -> None:
        number = int(lease.position or 0) + 1
        try:
            with ow.transaction() as tx:
                if self.random.random() < 0.3:
                    lease.guard(tx)
                tx.execute(
                    "insert into effects (number, epoch, move) select ?, ?,"
                    " coalesce(max(id), 0) from cursor_history where kind in ('seek', 'undo')",
                    [number, lease.epoch],
                )
                began = self.simulation.now
                self.dawdle(0.05)
                is_late = self.simulation.now > began + self.lease_seconds
                lease.checkpoint(str(number), tx=tx)
            if is_late:
                self.simulation.sometimes(
                    "busy inside a write past its lease, and no worker took over"
                )
        except LeaseLost:
            self.simulation.sometimes("a late holder was refused inside its transaction")
            raise
        except OutcomeUnknown:
            has_moved = self.stores.rows("select 1 from effects where number = ?", number)
            what = "had happened" if has_moved else "had not happened"
            self.simulation.sometimes(f"a checkpoint of unknown outcome {what}")
            raise

    def operate(self, process: Process) -> None:
        ow = self.stores.handle(process)
        while self.moves_left and not self.simulation.is_healed:
            self.simulation.sleep(self.random.uniform(1, 60))
            self.moves_left -= 1
            with suppress(StoreBusy, OutcomeUnknown, CursorMissing, NothingToUndo):
                self.move_once(ow)
        while True:
            try:
                ow.cursors.resume("c", "done", "operator")
            except (StoreBusy, OutcomeUnknown):
                continue
            except CursorMissing:
                self.simulation.sleep(5.0)
                continue
            return

    def move_once(self, ow: Onceward) -> None:
        what = self.random.choice(("seek", "seek", "undo", "pause", "resume"))
        if what == "seek":
            if ow.cursors.show("c").lease_owner is not None:
                self.simulation.sometimes("a live worker's cursor was moved")
            ow.cursors.seek("c", str(self.random.randint(0, 2)), "again", "operator")
        elif what == "undo":
            ow.cursors.undo("c", "operator")
            self.simulation.sometimes("a move was undone")
        elif what == "pause":
            ow.cursors.pause("c", "a while", "operator")
        else:
            ow.cursors.resume("c", "go on", "operator")

    # --- what must hold -----------------------------------------------------------------------

    def after_commit(self) -> None:
        """See the epoch never fall."""
        rows = self.stores.rows("select last_position, paused, lease_epoch from cursor_positions")
        if rows:
            before, self.row = self.row[2], rows[0]
            assert rows[0][2] >= before, f"the epoch fell from {before} to {rows[0][2]}"

    def is_settled(self) -> bool:
        return self.operator.is_done and self.row[:2] == (str(self.last), 0)

    def check(self) -> None:
        self.check_effects()
        see, killed = self.simulation.sometimes, self.simulation.killed_at
        takeovers = "select coalesce(sum(steal_count), 0) from cursor_positions"
        ((steals,),) = self.stores.rows(takeovers)
        if steals:
            see("a lease was taken over")
        for where, what in (
            ("transaction.before_commit", "killed between effect and checkpoint"),
            ("transaction.after_commit", "killed between commit and acknowledgement"),
            ("cursor.acquire.after_commit", "killed right after a lease was granted"),
        ):
            if killed[where]:
                see(what)

    def check_effects(self) -> None:
        """Replay effects and recorded moves: each effect is the next one from where it stood."""
        effects = self.stores.rows("select number, epoch, move from effects order by id")
        moves = self.stores.rows(
            "select id, to_position from cursor_history where kind in ('seek', 'undo') order by id"
        )
        position, epoch, done = 0, 0, 0
        for number, by, move in effects:
            while done < len(moves) and moves[done][0] <= move:
                position = int(moves[done][1] or 0)
                done += 1
            self.work += 1
            self.doubled += number <= position
            self.lost += number > position + 1
            assert number == position + 1, f"{number} after {position}"
            assert by >= epoch, f"epoch {by} wrote after {epoch}"
            position, epoch = number, by
        for _, to in moves[done:]:
            position = int(to or 0)
        self.lost += position != self.last
        assert position == self.last, f"ends at {position} instead of {self.last}"
