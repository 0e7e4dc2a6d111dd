"""Scenarios: work on a SQLite store, step by step, which can be finished from wherever it stopped.

A step is one call of the product. `finish` does what is left, in whichever process, and then
nothing may be lost, done twice or unfinished. Knows no faults.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from onceward.client import Onceward
from onceward.cursors import Lease
from onceward.dispatch.models import Delivery
from onceward.errors import RecordedFailure
from onceward.memory.graph import Graph
from onceward.memory.models import Link, NewEntity, NewObservations, Removal, WriteBatch
from onceward.retries import Dead, Failure, FixedDelays, RetryMessage
from onceward.stores import Transaction
from onceward.stores.sqlite.store import SqliteStore
from onceward.system import ManualClock
from tests.support.dispatch_oracle import fates
from tests.support.dispatcher_parts import Talk

Step = Callable[[Onceward], None]
BROKEN: Final = Failure(type="ValueError", message="broken")
#: Due again at once, once.
SCHEDULE: Final = FixedDelays(seconds=(0.0,))


def tick(ow: Onceward) -> None:
    """Let a second pass, so that what was put off is due."""
    store = ow.store
    assert isinstance(store, SqliteStore)
    assert isinstance(store.clock, ManualClock)
    store.clock.advance(seconds=1)


class Scenario:
    """Work of one kind."""

    #: Whether the first life finds a database at all.
    is_prepared = True
    #: The promises that it is about.
    claims: tuple[str, ...] = ("D1", "D2")

    def __init__(self, path: Path) -> None:
        """Work on this file."""
        self.url = f"sqlite:///{path}"

    def prepare(self, ow: Onceward) -> None:
        """Make what the first life finds."""

    def steps(self) -> list[Step]:
        """Return the work, in order; each step is acknowledged when it returns."""
        raise NotImplementedError

    def finish(self, ow: Onceward) -> int:
        """Do what is left and check all of it; return how many pieces of work there are."""
        raise NotImplementedError


class Cursor(Scenario):
    """Every number is an effect once, in order, with its checkpoint."""

    claims = ("D1", "D2", "F2")
    last = 3

    def prepare(self, ow: Onceward) -> None:
        """Make a table for effects."""
        with ow.transaction() as tx:
            tx.execute("create table effects (number bigint)")

    def steps(self) -> list[Step]:
        """Take the cursor, do the work, give it back."""
        return [self.take, self.work, self.work, self.renew, self.work, self.release]

    def take(self, ow: Onceward) -> None:
        """Acquire as the one worker there is: the same one may always have it."""
        lease = ow.cursors.acquire("c", "w")
        assert lease is not None
        self.lease: Lease = lease

    def work(self, ow: Onceward) -> None:
        """Do the next number."""
        number = int(self.lease.position or 0) + 1
        with ow.transaction() as tx:
            tx.execute("insert into effects values (?)", [number])
            self.lease.checkpoint(str(number), tx=tx)

    def renew(self, _: Onceward) -> None:
        """Keep the cursor."""
        self.lease.renew()

    def release(self, _: Onceward) -> None:
        """Give the cursor back."""
        self.lease.release()

    def finish(self, ow: Onceward) -> int:
        """Go on to the last number."""
        self.take(ow)
        while int(self.lease.position or 0) < self.last:
            self.work(ow)
        found = [row[0] for row in ow.store.select("select number from effects order by 1")]
        assert found == list(range(1, self.last + 1)), found
        assert ow.cursors.show("c").processed_count == self.last
        return self.last


class Once(Scenario):
    """An effect and its outcome are there together, and a repeated call gets the same result."""

    claims = ("D1", "D2", "I1", "I3")

    def prepare(self, ow: Onceward) -> None:
        """Make a table for charges."""
        with ow.transaction() as tx:
            tx.execute("create table charges (name text)")

    def charge(self, ow: Onceward, order: str) -> str:
        """Charge once; one order fails for good."""

        @ow.once(scope="charge", key=lambda order: order)
        def charge(order: str, tx: Transaction) -> str:
            tx.execute("insert into charges values (?)", [order])
            if order == "bad":
                raise ValueError(order)
            return f"charged {order}"

        try:
            return charge(order)  # type: ignore[call-arg]  # the decorator gives it tx
        except (ValueError, RecordedFailure):
            return "failed"

    def steps(self) -> list[Step]:
        """Charge, fail, charge, and ask again."""
        return [partial(_called, self.expect, order) for order in ("one", "bad", "two", "one")]

    def expect(self, ow: Onceward, order: str) -> None:
        """Charge, and get the answer that never changes."""
        answer = self.charge(ow, order)
        assert answer == ("failed" if order == "bad" else f"charged {order}"), answer

    def finish(self, ow: Onceward) -> int:
        """Ask for all of them."""
        for order in ("one", "bad", "two"):
            self.expect(ow, order)
        found = [row[0] for row in ow.store.select("select name from charges order by 1")]
        assert found == ["one", "two"], found
        return 3


class Parking(Scenario):
    """Every message up to the checkpoint is done once, waits, or is a dead letter."""

    claims = ("D1", "D2", "R1")
    last = 5

    def prepare(self, ow: Onceward) -> None:
        """Make a table for effects."""
        with ow.transaction() as tx:
            tx.execute("create table effects (place bigint)")

    def steps(self) -> list[Step]:
        """Do, park, hold, bury, try again, redrive and drop."""
        again = [self.drain, self.decide, self.drain, self.decide]
        return [self.take, *[self.read] * 6, *again]

    def take(self, ow: Onceward) -> None:
        """Acquire as the one worker there is."""
        lease = ow.cursors.acquire("c", "w")
        assert lease is not None
        self.lease: Lease = lease

    def read(self, ow: Onceward) -> None:
        """Take the next message: the third holds the cursor until it is dead, some are parked."""
        place = int(self.lease.position or 0) + 1
        message = RetryMessage(
            cursor="c", position=str(place), raw=b"%d" % place, key=f"k{place % 2}"
        )
        with ow.transaction() as tx:
            if place == 3:
                held = ow.retries.attempts.fail(tx, message, BROKEN, schedule=SCHEDULE)
                if not isinstance(held, Dead):
                    return
            elif ow.retries.parked.blocked_keys("c", [f"k{place % 2}"]):
                ow.retries.parked.park(tx, message)
            elif place % 2 == 0:
                ow.retries.parked.park(tx, message, failure=BROKEN, schedule=SCHEDULE)
            else:
                tx.execute("insert into effects values (?)", [place])
            self.lease.checkpoint(str(place), tx=tx)

    def drain(self, ow: Onceward) -> None:
        """Try what waits and is due."""
        for head in ow.retries.parked.due_heads("c", 3):
            with ow.transaction() as tx:
                tx.execute("insert into effects values (?)", [int(head.message.position)])
                ow.retries.parked.succeed(tx, head)
                self.lease.guard(tx)

    def decide(self, ow: Onceward) -> None:
        """Redrive a letter once; the second time drop it."""
        for letter in ow.dead.list(limit=2):
            if letter.redrive_count == 0:
                ow.dead.redrive(letter.id, actor="disk")
            else:
                ow.dead.drop(letter.id, reason="again", actor="disk")

    def finish(self, ow: Onceward) -> int:
        """Read on to the last message, and find each of them in one place."""
        self.take(ow)
        for _ in range(3 * self.last):
            if int(self.lease.position or 0) < self.last:
                tick(ow)
                self.read(ow)
        found = [row[0] for row in ow.store.select("select place from effects")]
        found += [int(row[0]) for row in ow.store.select("select position from onceward_parked")]
        letters = "select position from onceward_dead where state in ('dead', 'dropped')"
        found += [int(row[0]) for row in ow.store.select(letters)]
        assert sorted(found) == list(range(1, self.last + 1)), found
        return self.last


class Remembering(Scenario):
    """A batch of the memory, a removal and its undoing each happen as a whole or not at all."""

    claims = ("D1", "D2", "M1", "M3", "M4")

    def steps(self) -> list[Step]:
        """Write, write, remove, restore, remove."""
        calls = [(self.write, "1"), (self.write, "2"), (self.remove, "1"), (self.restore, "1")]
        return [partial(_called, call, name) for call, name in [*calls, (self.remove, "2")]]

    def write(self, ow: Onceward, name: str) -> None:
        """Write two entities with what is known of them."""
        a, b = f"{name} a", f"{name} b"
        links = [(a, "knows", b), (b, "is", b)]
        batch = WriteBatch(
            entities=(
                NewEntity(name=a, entity_type="x", observations=("one", "two")),
                NewEntity(name=b, entity_type="y"),
            ),
            observations=(NewObservations(entity_name=b, contents=("three",)),),
            relations=tuple(Link(from_name=f, relation_type=r, to_name=t) for f, r, t in links),
        )
        Graph(ow.store).write(batch)

    def remove(self, ow: Onceward, name: str) -> None:
        """Remove the first of them, and what leads to it."""
        Graph(ow.store).remove(Removal(entities=(f"{name} a",)))

    def restore(self, ow: Onceward, name: str) -> None:
        """Bring it back."""
        Graph(ow.store).restore(name=f"{name} a")

    def finish(self, ow: Onceward) -> int:
        """Say all of it again: what is there is not added twice."""
        graph = Graph(ow.store)
        for name in ("1", "2"):
            self.write(ow, name)
            found = graph.open([f"{name} a", f"{name} b"])
            assert [len(each.observations) for each in found.entities] == [2, 1], found
            assert len(found.relations) == 2, found
        self.remove(ow, "2")
        found = graph.open(["2 a", "2 b"])
        assert ([each.name for each in found.entities], len(found.relations)) == (["2 b"], 1)
        assert graph.problems() == []
        return 5


def _called(call: Callable[[Onceward, str], None], name: str, ow: Onceward) -> None:
    call(ow, name)


class Dispatching(Scenario):
    """A message is dealt with once, and its answer is shown once."""

    claims = ("D1", "D2", "X1", "X3", "X4")

    def prepare(self, ow: Onceward) -> None:
        """Make a group, whose channel shows what the store holds."""
        Talk(ow).group()

    def steps(self) -> list[Step]:
        """Hear, hand out, answer, end; then one that fails and is handed out again."""
        first = [self.hear("one"), self.see, self.begin, self.say, self.done]
        return [*first, self.hear("two"), self.see, self.begin, self.fail, self.begin, self.say]

    def hear(self, id_: str) -> Step:
        """Return the arrival of a message."""

        def arrive(ow: Onceward) -> None:
            Talk(ow).receive(id_)

        return arrive

    def see(self, ow: Onceward) -> None:
        """Read what has arrived."""
        Talk(ow).arrivals.see()

    def begin(self, ow: Onceward) -> None:
        """Hand out what waits."""
        self.delivery: Delivery = Talk(ow).begun()

    def say(self, ow: Onceward) -> None:
        """Answer."""
        answer(Talk(ow), self.delivery)

    def done(self, ow: Onceward) -> None:
        """End it."""
        Talk(ow).done(self.delivery)

    def fail(self, ow: Onceward) -> None:
        """Fail before the first word."""
        Talk(ow).failed(self.delivery)

    def finish(self, ow: Onceward) -> int:
        """Recover as the next dispatcher does, hear both again, and deal with what is left."""
        talk = Talk(ow)
        talk.deliveries.recover()
        talk.hear("one", "two")
        while (delivery := talk.begin()) is not None:
            answer(talk, delivery)
            talk.done(delivery)
        found = fates(ow).messages
        assert set(found) == {("team", "one"), ("team", "two")}, found
        assert set(found.values()) <= {"done", "kept"}, found
        assert sorted(talk.replies()) == ["re one", "re two"], talk.replies()
        return 2


def answer(talk: Talk, delivery: Delivery) -> None:
    """Answer every message of a delivery."""
    for message in delivery.messages:
        key = f"{delivery.id}/{message.id}"
        talk.say(delivery, f"re {message.id}", key=key, is_stored=True)


class Opening(Scenario):
    """A database is made from nothing, and migrated to the end by the next process to open it."""

    is_prepared = False

    def steps(self) -> list[Step]:
        """Use it once it is there."""
        return [self.use]

    def use(self, ow: Onceward) -> None:
        """Move a cursor."""
        lease = ow.cursors.acquire("c", "w")
        assert lease is not None
        lease.checkpoint("1")

    def finish(self, ow: Onceward) -> int:
        """Use it."""
        self.use(ow)
        assert ow.cursors.show("c").position == "1"
        return 1


SCENARIOS: dict[str, type[Scenario]] = {
    each.__name__.lower(): each
    for each in (Cursor, Once, Parking, Remembering, Dispatching, Opening)
}
