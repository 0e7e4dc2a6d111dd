"""Cursors and stores under kill -9: one worker after another, and what is left of its work."""

from collections.abc import Sequence
from typing import Final
from unittest.mock import patch

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.cursors import CursorState, Lease
from onceward.stores import migrations as migrations_module
from onceward.stores import status
from onceward.stores.queries import Engine, migrations
from tests.support.killed_processes import Ack, Life, Place, Scenario


class Holding(Scenario):
    """A worker that holds the one cursor there is."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        with open_handle(self.url) as ow, ow.transaction() as tx:
            tx.execute("create table if not exists effects (number bigint, life bigint)")

    def check_acknowledged(self, lives: Sequence[Life], last: int) -> None:
        """Each acknowledged position is there; each process lost at most one, its last."""
        done = unheard = 0
        for life in lives:
            acknowledged = [int(ack) for ack in life.acks]
            if acknowledged:
                assert done < acknowledged[0] <= done + unheard + 1, (done, unheard, acknowledged)
                assert acknowledged == list(
                    range(acknowledged[0], acknowledged[0] + len(acknowledged))
                ), acknowledged
                done, unheard = acknowledged[-1], 0
            unheard += 1
        assert done <= last <= done + unheard, (done, unheard, last)

    def take(self, ow: Onceward, life: int) -> Lease:
        """Acquire as the one worker there is: the same one may always have it."""
        lease = ow.cursors.acquire("c", "w", version=1)
        assert lease is not None, life
        return lease

    def state(self) -> tuple[CursorState | None, list[int]]:
        with open_handle(self.url) as ow, ow.transaction() as tx:
            rows = tx.execute("select number from effects order by number")
            found = ow.cursors.list("c")
            return (found[0] if found else None), [row[0] for row in rows]


class Working(Holding):
    """Every number is an effect once, in order, up to the position; acknowledged ones are there."""

    def work(self, life: int, ack: Ack) -> None:
        ow = open_handle(self.url)
        while True:
            lease = self.take(ow, life)
            for _ in range(3):
                number = int(lease.position or 0) + 1
                with ow.transaction() as tx:
                    tx.execute("insert into effects values (?, ?)", [number, life])
                    lease.checkpoint(str(number), tx=tx)
                lease.renew()
                ack(str(number))
            lease.release()

    def check(self, lives: Sequence[Life]) -> None:
        state, numbers = self.state()
        last = int(state.position or 0) if state else 0
        assert numbers == list(range(1, last + 1)), (numbers, last)
        assert state is None or state.processed_count == last
        self.check_acknowledged(lives, last)


class Checkpointing(Holding):
    """A checkpoint alone is acknowledged or at most one ahead."""

    def work(self, life: int, ack: Ack) -> None:
        ow = open_handle(self.url)
        lease = self.take(ow, life)
        while True:
            number = int(lease.position or 0) + 1
            lease.checkpoint(str(number))
            ack(str(number))

    def check(self, lives: Sequence[Life]) -> None:
        state, _ = self.state()
        last = int(state.position or 0) if state else 0
        assert state is None or state.processed_count == last
        self.check_acknowledged(lives, last)


class Operating(Holding):
    """Nothing changes without its record: the row is what its history says."""

    def work(self, life: int, ack: Ack) -> None:
        ow = open_handle(self.url)
        if ow.cursors.list("c"):
            ow.cursors.resume("c", "test", "test")  # The dead process may have left it paused.
        self.take(ow, life)
        for number in range(1000):
            ow.cursors.seek("c", f"{life}-{number}", "test", "test")
            ow.cursors.pause("c", "test", "test")
            ow.cursors.resume("c", "test", "test")
            if number % 2:
                ow.cursors.undo("c", "test")
            ack(str(number))

    def check(self, lives: Sequence[Life]) -> None:
        acknowledged = sum(len(life.acks) for life in lives)
        with open_handle(self.url) as ow:
            (state,) = ow.cursors.list("c")
            entries = ow.cursors.history("c", 10_000)
            assert state.position == (entries[0].to_position if entries else None)
            paused = [entry.kind for entry in entries if entry.kind in ("pause", "resume")]
            assert state.is_paused == (paused[:1] == ["pause"])
            seeks = sum(each.kind == "seek" for each in entries)
            assert acknowledged <= seeks <= acknowledged + len(lives), (acknowledged, seeks)


class Versions(Holding):
    """A position is of its version: migrated and recorded, or neither."""

    def work(self, life: int, ack: Ack) -> None:
        ow = open_handle(self.url)
        for number in range(1000):
            found = ow.cursors.list("c")
            stored = found[0].version if found else 0
            wanted = max(stored, 1) + 1
            migrations = dict.fromkeys(range(1, wanted), "{}+".format)
            lease = ow.cursors.acquire("c", "w", version=wanted, migrations=migrations)
            assert lease is not None
            if lease.position is None:
                lease.checkpoint("+" * wanted)
            ack(f"{life}-{number}")

    def check(self, lives: Sequence[Life]) -> None:
        acknowledged = sum(len(life.acks) for life in lives)
        with open_handle(self.url) as ow:
            (state,) = ow.cursors.list("c")
            assert state.position in (None, "+" * state.version)
            steps = [each for each in ow.cursors.history("c", 10_000) if state.position]
            assert not steps or steps[0].reason.endswith(f"to {state.version}")
            assert state.version > acknowledged, (state, acknowledged)


#: Enough for every kill of a plan to find one that is missing.
MADE_UP_MIGRATIONS: Final = 30


def with_made_up(engine: Engine) -> tuple[tuple[int, str, str], ...]:
    """Return the migrations of this version and some that a later one could have."""
    known = migrations(engine)
    numbers = range(len(known) + 1, len(known) + 1 + MADE_UP_MIGRATIONS)
    made_up = (
        (each, f"made_up_{each}", f"create table made_up_{each} (id integer);") for each in numbers
    )
    return (*known, *made_up)


class Migrating(Scenario):
    """A database that was migrated halfway is migrated to the end by the next who opens it."""

    is_empty = True

    def work(self, life: int, ack: Ack) -> None:
        with (
            patch.object(migrations_module, "migrations", with_made_up),
            open_handle(self.url) as ow,
        ):
            lease = ow.cursors.acquire("c", "w")
            assert lease is not None, life
            lease.checkpoint("1")
            ack(f"opened by {life}")

    def settle(self, lives: Sequence[Life]) -> None:
        assert [len(life.acks) for life in lives] == [0] * (len(lives) - 1) + [1]
        with (
            patch.object(migrations_module, "migrations", with_made_up),
            open_handle(self.url) as ow,
        ):
            found = status(ow.store)
            assert not found.pending
            assert not found.unknown
            assert ow.cursors.show("c").position == "1"


SCENARIOS: dict[str, type[Scenario]] = {
    "transaction.": Working,
    "sqlite.group.": Working,
    "cursor.acquire.": Working,
    "cursor.renew.": Working,
    "cursor.release.": Working,
    "cursor.checkpoint.": Checkpointing,
    "cursor.seek.": Operating,
    "cursor.pause.": Operating,
    "cursor.migrate.": Versions,
    "migrate.": Migrating,
}
