"""Lock races: two transactions brought to one row on purpose; one waits for the other's lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from onceward import workers
from onceward.client import Onceward
from onceward.errors import EntityMissing
from onceward.memory.graph import Graph, graph_writes
from onceward.memory.graph.graph_transaction import GraphTransaction
from onceward.memory.models import Link, NewEntity, NewObservations, Removal, WriteBatch
from onceward.retries import Failure, RetryMessage, dead_letter_writes, dead_letters
from onceward.retries.models import LetterId
from onceward.stores import migrate, open_store
from onceward.stores.postgres.store import PostgresStore
from onceward.system.redaction import Redactor
from onceward.testing.moving_time import MovingTime
from onceward.workers import App
from tests.conformance.test_cursors import stop_clock
from tests.support.list_source import ListSource
from tests.support.lock_contention import (
    WAIT_SECONDS_MAX,
    Halt,
    postgres_only,
    run_contending,
    wait_until_blocked,
)
from tests.support.running_worker import drain
from tests.support.trigger_counts import assert_counts


def test_the_statement_itself_knows_the_last_moment_of_a_lease(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """A worker that looked too early is refused by the statement, too: not yet at its end."""
    assert ow.cursors.acquire("c", "w1", 60.0)
    wanted = {"name": "c", "worker": "w2", "seconds": 60.0, "version": 1, "may_take_over": True}
    if isinstance(ow.store, PostgresStore):
        stop_clock(ow.store, "lease_expires_at")
    else:
        ow_time.advance(seconds=60)
    assert ow.store.write(lambda tx: tx.query("cursor_acquire", **wanted)) == []
    if isinstance(ow.store, PostgresStore):
        stop_clock(ow.store, "lease_expires_at + interval '1 microsecond'")
    else:
        ow_time.advance(seconds=1)
    assert ow.store.write(lambda tx: tx.query("cursor_acquire", **wanted)) == [(2, None, 1)]


@postgres_only
def test_opening_a_new_store_waits_for_its_migration(ow: Onceward, ow_url: str) -> None:
    """Two that are deployed at once do not change one schema at once."""
    assert isinstance(ow.store, PostgresStore)

    def open_and_close() -> None:
        other = open_store(ow_url)
        migrate(other)
        other.close()

    with ow.transaction() as tx:
        # As a store that has a migration to come.
        last = "(select max(number) from onceward_migrations)"
        sql = f"delete from onceward_migrations where number = {last} returning number, name"
        (missing,) = tx.execute(sql)
    with ThreadPoolExecutor(1) as pool:
        with ow.store.connection() as holder:
            holder.execute("begin")
            holder.execute("select pg_advisory_xact_lock(hashtext('onceward_migrations'))")
            opened = pool.submit(open_and_close)
            wait_until_blocked(ow, opened)
            holder.execute("insert into onceward_migrations values (%s, %s)", missing)
            holder.execute("commit")
        opened.result(WAIT_SECONDS_MAX)


@postgres_only
def test_a_letter_that_is_locked_cannot_be_dropped(ow: Onceward) -> None:
    """A transaction that decides about it sees it as it is until its own end."""
    message = RetryMessage(cursor="c", position="1", raw=b"{}")
    with ow.transaction() as tx:
        letter = ow.retries.dead.add(tx, message, Failure.of(ValueError("x")))
    with ThreadPoolExecutor(1) as pool:
        with ow.transaction() as tx:
            (held,) = ow.retries.dead.lock(tx, [letter])
            dropped = pool.submit(ow.dead.drop, letter, reason="spam", actor="me")
            wait_until_blocked(ow, dropped)
            assert held.state == ow.dead.show(letter).state == "dead"
        assert dropped.result(WAIT_SECONDS_MAX)


def _letter(ow: Onceward, cursor: str, position: str) -> LetterId:
    with ow.transaction() as tx:
        message = RetryMessage(cursor=cursor, position=position, raw=b"{}")
        return ow.dead.add(tx, message, Failure.of(ValueError("x")))


@postgres_only
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_letters_are_redriven_and_dropped_for_their_age_at_once(
    ow: Onceward, ow_time: MovingTime, monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    """Both change letters and counts of two cursors, and neither waits for what waits for it."""
    redriven = [_letter(ow, name, "1") for name in names]
    dropped = [_letter(ow, name, "2") for name in names]
    ow_time.advance(seconds=60)
    halt = Halt()

    def halting(point: str) -> None:
        if point == "dead.redrive.after_park" and not halt.reached.is_set():
            halt()

    def redrive() -> None:
        with ow.transaction():
            ow.dead.redrive(redriven, actor="ana")

    def expire() -> None:
        # As a worker does, without its limit on waiting.
        with ow.transaction() as tx:
            tx.query("dead_expire", seconds=30.0, actor="onceward", reason="old", limit=500)

    monkeypatch.setattr(dead_letters, "crash_point", halting)
    for ended in run_contending(ow, halt, redrive, expire):
        ended.result()
    states = {letter.id: letter.state for letter in ow.dead.list(state=None)}
    assert {states[letter] for letter in redriven} == {"redriven"}
    assert {states[letter] for letter in dropped} == {"dropped"}
    assert_counts(ow)


@postgres_only
def test_a_batch_writes_letters_again_while_others_expire(
    ow: Onceward, ow_time: MovingTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It locks all of its letters before the counts that the expiry waits for."""
    app = App(ow)

    @app.consumer("c", source=ListSource(b"?", b"!"), batch=2)
    def unread(messages: list[workers.Message]) -> None:
        raise AssertionError(messages)

    drain(app)
    other = _letter(ow, "c", "9")
    ow.cursors.seek("c", None, reason="again", actor="ana")
    ow_time.advance(seconds=60)
    halt, written = Halt(), list[LetterId]()
    write = dead_letter_writes.write_dead_letter

    def halting(*said: Any, **named: Any) -> LetterId:
        written.append(write(*said, **named))
        if len(written) == 1:
            halt()
        return written[-1]

    def expire() -> None:
        with ow.transaction() as tx:
            tx.query("dead_expire", seconds=30.0, actor="onceward", reason="old", limit=500)

    monkeypatch.setattr(dead_letters, "write_dead_letter", halting)
    for ended in run_contending(ow, halt, lambda: drain(app), expire):
        ended.result()
    assert len(written) == 2, "the batch was rolled back and done again"
    states = {letter.id: letter.state for letter in ow.dead.list(state=None)}
    assert states == {written[0]: "dead", written[1]: "dead", other: "dropped"}
    assert_counts(ow)


FACT = WriteBatch(observations=(NewObservations(entity_name="hub", contents=("one",)),))
HUB = Removal(entities=("hub",))


def with_a_hub(ow: Onceward) -> Graph:
    graph = Graph(ow.store, redactor=Redactor())
    graph.write(WriteBatch(entities=(NewEntity(name="hub", entity_type="thing", observations=()),)))
    return graph


@postgres_only
def test_an_entity_is_deleted_only_after_a_concurrent_addition(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the lock of an entity to the commit it cannot be deleted: no fact loses its entity."""
    graph = with_a_hub(ow)
    halt = Halt()

    def halting(point: str) -> None:
        if point == "memory.write.after_entities":
            halt()

    monkeypatch.setattr(graph_writes, "crash_point", halting)
    added, removed = run_contending(ow, halt, lambda: graph.write(FACT), lambda: graph.remove(HUB))
    added.result()
    removed.result()
    assert graph.problems() == []
    assert graph.open(["hub"]).entities == ()


@postgres_only
def test_an_entity_that_is_being_deleted_cannot_be_added_to(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the look at it on: a fact that came in between would outlive its entity."""
    graph = with_a_hub(ow)
    halt, query = Halt(), GraphTransaction.query

    def halting(tx: GraphTransaction, name: str, /, **params: object) -> list[tuple[Any, ...]]:
        rows = query(tx, name, **params)
        if name == "memory_entity_lock":
            halt()
        return rows

    monkeypatch.setattr(GraphTransaction, "query", halting)
    removed, added = run_contending(ow, halt, lambda: graph.remove(HUB), lambda: graph.write(FACT))
    removed.result()
    with pytest.raises(EntityMissing):
        added.result()
    assert graph.problems() == []


def things(*names: str) -> WriteBatch:
    """Return entities, a fact about each and a link from each."""
    return WriteBatch(
        entities=tuple(
            NewEntity(name=name, entity_type="thing", observations=("it is",)) for name in names
        ),
        relations=tuple(
            Link(from_name=name, to_name="hub", relation_type="part of") for name in names
        ),
    )


DELETED: dict[str, Callable[[str], Removal]] = {
    "memory_entities": lambda name: Removal(entities=(name,)),
    "memory_observations": lambda name: Removal(
        observations=(NewObservations(entity_name=name, contents=("it is",)),)
    ),
    "memory_relations": lambda name: Removal(relations=things(name).relations),
}


@postgres_only
@pytest.mark.parametrize("table", DELETED)
def test_who_brings_things_back_takes_them_in_one_order(
    ow: Onceward, ow_url: str, table: str
) -> None:
    """A restore that waits for the first holds none of the others: no two wait for each other."""
    graph = with_a_hub(ow)
    graph.write(things("a"))
    graph.write(things("b"))
    for name in "ba":
        graph.remove(DELETED[table](name))
    graph.write(things(*(f"c{number}" for number in range(300))))
    with ow.transaction() as tx:
        # Let them be found as they lie, b before a: a join may come in any order.
        for way in ("enable_nestloop", "enable_mergejoin"):
            tx.execute(
                "do $$ begin execute format('alter database %I set "
                f"{way} = off', current_database()); end $$"
            )
    store = open_store(ow_url)
    assert isinstance(store, PostgresStore)
    graph = Graph(store, redactor=Redactor())
    with ThreadPoolExecutor(2) as pool:
        with store.connection() as holder:
            holder.execute("begin")
            first = f"select id from {table} where deleted_by is not null order by deleted_by desc"
            holder.execute(f"{first} limit 1 for update")
            both = pool.submit(graph.write, things("b", "a"))
            wait_until_blocked(ow, both)
            pool.submit(graph.write, things("b")).result(60.0)
            holder.execute("rollback")
        both.result(WAIT_SECONDS_MAX)
    store.close()
