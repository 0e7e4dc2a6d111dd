"""Retries, dead letters and dual cursors under kill -9: where every message is afterwards."""

import random
from collections.abc import Sequence

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.cursors import Lease
from onceward.errors import Superseded
from onceward.retries import Dead, RetryMessage
from onceward.stores import Transaction
from tests.support.killed_processes import Ack, Life, Place, Scenario
from tests.support.parked_attempts import BROKEN, SCHEDULE, attempt

ROUNDS_MAX = 600


def between(start: str | None, end: str | None) -> int:
    """Messages are numbered from 1."""
    return max(0, int(end or 0) - int(start or 0))


class Retrying(Scenario):
    """Every message up to the checkpoint is done once, waits, or is a dead letter."""

    passes_max = 12

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        with open_handle(self.url) as ow, ow.transaction() as tx:
            tx.execute("create table if not exists effects (place bigint primary key)")

    def work(self, life: int, ack: Ack) -> None:
        source = random.Random(life)
        with open_handle(self.url) as ow:
            for number in range(ROUNDS_MAX):
                # The same worker may always have it, after a kill or a seek too.
                lease = ow.cursors.acquire("c", "w")
                assert lease is not None
                self.drain(ow, lease, ack)
                # Now and then so many that some have to wait after others of their key.
                for _ in range(source.choice((1, 2, 7))):
                    self.read(ow, lease, ack)
                if number % 3 == 0:
                    self.decide(ow, int(lease.position or 0))
                if source.random() < 1 / 7:
                    self.seek_back(ow, int(lease.position or 0))
                if source.random() < 1 / 3:
                    self.undo(ow)

    def drain(self, ow: Onceward, lease: Lease, ack: Ack) -> None:
        """Try the messages that are due; those that 7 divides never succeed."""
        while heads := ow.retries.parked.due_heads("c", 3):
            for head in heads:
                if attempt(ow, lease, head, broken=7):
                    ack(head.message.position)

    def read(self, ow: Onceward, lease: Lease, ack: Ack) -> None:
        """Read the next message, and acknowledge it when it had its effect."""
        place = int(lease.position or 0) + 1
        with ow.transaction() as tx:
            is_done = self.take(ow, tx, lease, place)
        if is_done:
            ack(str(place))

    def take(self, ow: Onceward, tx: Transaction, lease: Lease, place: int) -> bool:
        """Do a message, park it, or hold the cursor until it is a letter."""
        key = f"k{place % 3}"
        message = RetryMessage(cursor="c", position=str(place), raw=b"%d" % place, key=key)
        is_done = bool(tx.execute("select 1 from effects where place = ?", [place]))
        is_blocked = bool(ow.retries.parked.blocked_keys("c", [key]))
        if place % 5 == 0 and not is_done and not is_blocked:
            held = ow.retries.attempts.fail(tx, message, BROKEN, schedule=SCHEDULE)
            if isinstance(held, Dead):
                lease.checkpoint(str(place), tx=tx)
            return False
        lease.checkpoint(str(place), tx=tx)
        if is_done:
            return True  # Read again after a seek.
        if is_blocked:
            ow.retries.parked.park(tx, message)
            return False
        if place % 2 == 0 or place % 7 == 0:
            ow.retries.parked.park(tx, message, failure=BROKEN, schedule=SCHEDULE)
            return False
        tx.execute("insert into effects values (?)", [place])
        return True

    def decide(self, ow: Onceward, reached: int) -> None:
        """Redrive a letter once; drop it the second time, or when it was read again since."""
        with ow.transaction() as tx:
            handled_again = {row[0] for row in tx.execute("select place from effects")}
            handled_again |= {int(row[0]) for row in tx.query("parked_list", cursor="c")}
        for letter in ow.dead.list(limit=2):
            place = int(letter.position)
            if letter.redrive_count or place in handled_again:
                ow.dead.drop(letter.id, reason="again", actor="matrix")
            elif place <= reached:  # What lies ahead is read again.
                ow.dead.redrive(letter.id, actor="matrix")

    def seek_back(self, ow: Onceward, place: int) -> None:
        ow.cursors.seek("c", str(max(0, place - 3)), "matrix", "matrix", count=between)

    def undo(self, ow: Onceward) -> None:
        """Undo the last move if it was a seek: two in a row would repeat what came between."""
        if [entry.kind for entry in ow.cursors.history("c", 1)] == ["seek"]:
            ow.cursors.undo("c", "matrix", count=between)

    def check(self, lives: Sequence[Life]) -> None:
        with open_handle(self.url) as ow, ow.transaction() as tx:
            progress = int(ow.cursors.show("c").position or 0)
            effects = {row[0] for row in tx.execute("select place from effects")}
            parked = {int(row[0]) for row in tx.query("parked_list", cursor="c")}
            rows = tx.execute(
                "select position from onceward_dead where state in ('dead', 'dropped')"
            )
            letters = {int(row[0]) for row in rows}
            lost = set(range(1, progress + 1)) - effects - parked - letters
            assert not lost, lost
            assert not effects & parked, effects & parked
            assert {int(ack) for life in lives for ack in life.acks} <= effects
            self.check_heads(tx)

    def check_heads(self, tx: Transaction) -> None:
        first = tx.execute(
            "select key, min(sequence) from onceward_parked where not alone group by key order by 1"
        )
        heads = tx.execute(
            "select key, sequence from onceward_parked where is_head and not alone order by 1"
        )
        assert heads == first, (heads, first)


class Processing(Scenario):
    """Each message that arrived is done once, waits, or is in flight with a way back."""

    passes_max = 12

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        with open_handle(self.url) as ow, ow.transaction() as tx:
            tx.execute("create table if not exists messages (place bigint primary key, team text)")
            tx.execute("create table if not exists done (place bigint primary key)")

    def work(self, life: int, ack: Ack) -> None:
        with open_handle(self.url) as ow:
            ow.dual("d").recover()
            for number in range(ROUNDS_MAX):
                self.arrive(ow, f"g{number % 3}", ack)
                if number % 2:
                    self.read(ow)
                for pending in ow.dual("d").pending():
                    self.process(ow, pending.group, number + life)

    def arrive(self, ow: Onceward, group: str, ack: Ack) -> None:
        with ow.transaction() as tx:
            place = ow.dual("d").next_sequence(tx, group)
            tx.execute("insert into messages values (?, ?)", [place, group])
        ack(str(place))

    def read(self, ow: Onceward) -> None:
        dual = ow.dual("d")
        with ow.transaction() as tx:
            rows = tx.execute("select max(place) from messages where place > ?", [dual.read])
            if rows[0][0] is not None:
                dual.advance_global(rows[0][0])

    def process(self, ow: Onceward, group: str, number: int) -> None:
        dual = ow.dual("d")
        places = self.waiting(ow, group)
        if not places:
            return
        batch = dual.advance_group(group, places[-1], batch=places)
        if number % 3 == 0:
            dual.rollback_group(batch)
            return
        with ow.transaction() as tx:
            for place in places:
                tx.execute("insert into done values (?)", [place])
            if number % 3 == 1:
                dual.commit_group(batch)
            else:
                dual.output_sent(batch)
        if number % 3 == 2:
            assert dual.rollback_group(batch).ending == "kept"
            try:
                dual.commit_group(batch)
            except Superseded:
                return
            raise AssertionError(batch)

    def waiting(self, ow: Onceward, group: str) -> list[int]:
        (pending,) = ow.dual("d").pending(group)
        with ow.transaction() as tx:
            rows = tx.execute(
                "select place from messages where team = ? and place > ? and place <= ? order by 1",
                [group, pending.after, pending.upto],
            )
        return [row[0] for row in rows]

    def check(self, lives: Sequence[Life]) -> None:
        with open_handle(self.url) as ow:
            with ow.transaction() as tx:
                arrived = {row[0]: row[1] for row in tx.execute("select * from messages")}
                done = {row[0] for row in tx.execute("select place from done")}
            assert sorted(arrived) == list(range(1, len(arrived) + 1))
            assert {int(ack) for life in lives for ack in life.acks} <= set(arrived)
            self.check_groups(ow, arrived, done)

    def settle(self, lives: Sequence[Life]) -> None:
        with open_handle(self.url) as ow:
            ow.dual("d").recover()
        self.check(lives)

    def check_groups(self, ow: Onceward, arrived: dict[int, str], done: set[int]) -> None:
        dual = ow.dual("d")
        flights = {batch.group: batch for batch in dual.in_flight()}
        for group in sorted(set(arrived.values())):
            batch = flights.get(group)
            done_up_to = batch.rollback_position if batch else dual.processed(group)
            own = {place for place, name in arrived.items() if name == group}
            assert {place for place in own if place <= done_up_to} == own & done, (group, batch)


SCENARIOS: dict[str, type[Scenario]] = {
    "retries.": Retrying,
    "dead.": Retrying,
    "dual.": Processing,
}
