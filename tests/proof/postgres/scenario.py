"""Scenario: one of each kind of write, as a careful caller makes it, and what must hold after it.

Every step looks before it writes, so that it can be repeated whatever became of it. Owns neither
faults nor databases.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import psycopg
import pytest

from onceward.client import Onceward
from onceward.cursors import DualBatch, Lease
from onceward.errors import LeaseLost, OncewardError, OutcomeUnknown
from onceward.memory import Graph, Link, NewEntity
from onceward.memory import WriteBatch as NewFacts
from onceward.stores import Transaction
from onceward.stores.postgres.transaction import PostgresTransaction

Rows = list[tuple[Any, ...]]
#: All that a database holds, by table.
State = dict[str, list[str]]
TRIES_MAX: Final = 5
#: Effects as a user has them. Nothing stops a second row: what is doubled must be seen.
TABLES: Final = """
  create table effects (what text);
  create table messages (id text, place bigint);
"""
#: What must be the same in the end, whatever happened on the way.
PARTS: Final = (
    "select what from effects",
    "select id, place from messages",
    "select cursor_name, last_position, processed_count, paused, lease_owner from cursor_positions",
    "select cursor_name, kind, from_position, to_position, actor, reason from cursor_history",
    "select scope, key, state, result, failure from onceward_outcomes",
    "select name, entity_type, deleted_by from memory_entities",
    "select content, deleted_by from memory_observations",
    "select relation_type, deleted_by from memory_relations",
    "select * from onceward_dual_counters",
    "select dual_name, read_position from onceward_dual_reads",
    "select dual_name, group_name, processed_position, last_batch from onceward_dual_groups",
    "select dual_name, group_name from onceward_dual_batches",
)


class Scenario:
    """Steps of one caller on one store."""

    def __init__(self, ow: Onceward) -> None:
        """Use this handle; it may lose its connections at any time."""
        self.ow = ow
        self.mails: list[str] = []
        self._lease: Lease | None = None
        self._dual = ow.dual("chat")
        self._graph = Graph(ow.store)
        #: Errors that callers got, counted by name.
        self.errors: Counter[str] = Counter()

        @ow.once(scope="pay", key=str)
        def pay(order: str, tx: Transaction) -> dict[str, str]:
            tx.execute("insert into effects values (?)", [f"paid {order}"])
            return {"paid": order}

        @ow.once(scope="mail", key=str)
        def mail(order: str) -> dict[str, str]:
            self.mails.append(order)
            return {"mailed": order}

        self._pay: Callable[..., dict[str, str]] = pay
        self._mail: Callable[..., dict[str, str]] = mail

    def steps(self) -> list[Callable[[], object]]:
        """Return what is to be done, in order."""
        return [
            self.lease,
            lambda: self.count(1),
            lambda: self.count(2, is_guarded=True),
            lambda: self.checkpoint(3),
            lambda: self.lease().renew(),
            lambda: self.pay("o1"),
            lambda: self.mail("o2"),
            lambda: self._graph.write(_FACTS),
            lambda: self.receive("m1"),
            lambda: self.receive("m2"),
            lambda: self._dual.advance_global(2),
            lambda: self.process(2),
            lambda: self.count(4),
            self.pause,
            lambda: self.seek("2"),
            self.resume,
            lambda: self.count(3),
            self.release,
            lambda: self.pay("o1"),
        ]

    def run(self, when_refused: Callable[[OncewardError], None]) -> None:
        """Do everything; a step that is refused is checked by the caller, and done again."""
        for step in self.steps():
            for _ in range(TRIES_MAX):
                try:
                    step()
                    break
                except OncewardError as exc:
                    self.errors[type(exc).__name__] += 1
                    when_refused(exc)
                    self.look_at_the_lease(exc)
            else:
                pytest.fail(f"no success in {TRIES_MAX} tries: {self.errors}")

    def look_at_the_lease(self, exc: OncewardError) -> None:
        """Give the handle up when it says so; one that does not know its position must refuse."""
        if self._lease is None:
            return
        if self._lease.lost.is_set() and isinstance(exc, OutcomeUnknown):
            for refused in (self._lease.renew, lambda: self._lease_().checkpoint("9")):
                with pytest.raises(LeaseLost) as refusal:
                    refused()
                assert refusal.value.is_ambiguous
            self.errors["an ambiguous lease refuses"] += 1
        if self._lease.lost.is_set():
            self._lease = None

    # --- one kind of write each -----------------------------------------------------------------

    def lease(self) -> Lease:
        """Return the lease, acquired again if the last one is of no use."""
        while self._lease is None:
            # None when a lock was in the way for a moment.
            self._lease = self.ow.cursors.acquire("c", "w1", 600.0)
        return self._lease

    def _lease_(self) -> Lease:
        assert self._lease is not None
        return self._lease

    def count(self, number: int, *, is_guarded: bool = False) -> None:
        """Move the cursor by one, with an effect in the same commit."""
        lease = self.lease()
        if int(lease.position or 0) >= number:
            return
        with self.ow.transaction() as tx:
            if is_guarded:
                lease.guard(tx)
            tx.execute("insert into effects values (?)", [f"counted {number}"])
            lease.checkpoint(str(number), tx=tx)

    def checkpoint(self, number: int) -> None:
        """Move the cursor by one, and nothing else."""
        lease = self.lease()
        if int(lease.position or 0) < number:
            lease.checkpoint(str(number))

    def pay(self, order: str) -> None:
        """Do work whose effect and outcome are in one commit."""
        assert self._pay(order) == {"paid": order}

    def mail(self, order: str) -> None:
        """Do work elsewhere, between a claim and its end."""
        assert self._mail(order) == {"mailed": order}

    def receive(self, name: str) -> None:
        """Take a message in under the next number."""
        with self.ow.transaction() as tx:
            if not tx.execute("select 1 from messages where id = ?", [name]):
                place = self._dual.next_sequence(tx, "g")
                tx.execute("insert into messages values (?, ?)", [name, place])

    def process(self, position: int) -> None:
        """Begin and end work on a batch; in flight is what an earlier try began."""
        batch: DualBatch | None = next(iter(self._dual.in_flight()), None)
        if batch is None and self._dual.processed("g") >= position:
            return
        batch = batch or self._dual.advance_group("g", position, batch=["m1", "m2"])
        self._dual.output_sent(batch)
        self._dual.commit_group(batch)

    def pause(self) -> None:
        """Pause the cursor, as an operator does."""
        if not self.ow.cursors.show("c").is_paused:
            self.ow.cursors.pause("c", "look", "ada")

    def resume(self) -> None:
        """Resume it; the worker's lease was taken by the seek."""
        if self.ow.cursors.show("c").is_paused:
            self.ow.cursors.resume("c", "looked", "ada")
        self._lease = None

    def seek(self, position: str) -> None:
        """Go back, as an operator does."""
        if self.ow.cursors.show("c").position != position:
            self.ow.cursors.seek("c", position, "again", "ada")

    def release(self) -> None:
        """Give the cursor back."""
        if self.ow.cursors.show("c").lease_owner is not None:
            self.lease().release()
        self._lease = None


_FACTS: Final = NewFacts(
    entities=(
        NewEntity(name="ada", entity_type="person", observations=("wrote the first program",)),
        NewEntity(name="engine", entity_type="thing"),
    ),
    relations=(Link(from_name="ada", to_name="engine", relation_type="wrote for"),),
)


def finals(connection: psycopg.Connection[Any]) -> list[Rows]:
    """Return what must be the same in the end."""
    return [sorted(connection.execute(each.encode()).fetchall(), key=repr) for each in PARTS]


def state(connection: psycopg.Connection[Any]) -> State:
    """Return every row of every table, without times and without what chance has chosen."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        columns = connection.execute(
            "select table_name, array_agg(column_name::text) from information_schema.columns"
            " join information_schema.tables using (table_schema, table_name)"
            " where table_schema = 'public' and table_type = 'BASE TABLE'"
            "   and data_type not like 'timestamp%' and column_name not in ('owner')"
            " group by table_name"
        ).fetchall()
        found: State = {}
        for table, names in columns:
            wanted = ", ".join(f'"{name}"' for name in sorted(names))
            rows = connection.execute(f'select {wanted} from "{table}"'.encode()).fetchall()
            found[table] = sorted(json.dumps(row, default=str) for row in rows)
    return found


def watch_commits(patch: pytest.MonkeyPatch, connection: psycopg.Connection[Any]) -> list[State]:
    """Return a list that gets what the database holds, after each commit of this process."""
    states = [state(connection)]
    commit = PostgresTransaction._commit

    def committing(self: PostgresTransaction, *words: Any) -> Any:
        answer = commit(self, *words)
        states.append(state(connection))
        return answer

    patch.setattr(PostgresTransaction, "_commit", committing)
    return states
