"""Dual cursors: read at once, processed by way of trial, rolled back unless output was sent."""

import threading
from collections.abc import Iterator
from datetime import UTC

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.cursors.dual import DualCursor
from onceward.errors import BatchInFlight, InvalidArgument, Superseded
from onceward.stores.postgres.store import PostgresStore
from tests.support.waiting import until


class Chat:
    """Messages of groups in the user's own table, found by arrival, ordered for people by time."""

    def __init__(self, ow: Onceward) -> None:
        self.ow = ow
        self.dual = ow.dual("chat")
        with ow.transaction() as tx:
            tx.execute("create table messages (place bigint primary key, team text, at text)")

    def arrive(self, group: str, at: str) -> int:
        with self.ow.transaction() as tx:
            place = self.dual.next_sequence(tx, group)
            tx.execute("insert into messages values (?, ?, ?)", [place, group, at])
        return place

    def poll(self) -> list[int]:
        """Return what is new, and move the read cursor over it."""
        with self.ow.transaction() as tx:
            rows = tx.execute("select place from messages where place > ?", [self.dual.read])
            places = sorted(row[0] for row in rows)
            if places:
                self.dual.advance_global(places[-1])
        return places

    def waiting(self, group: str) -> list[int]:
        (pending,) = self.dual.pending(group)
        with self.ow.transaction() as tx:
            rows = tx.execute(
                "select place from messages where team = ? and place > ? and place <= ?",
                [group, pending.after, pending.upto],
            )
        return sorted(row[0] for row in rows)


@pytest.fixture
def chat(ow: Onceward) -> Chat:
    return Chat(ow)


@pytest.fixture
def dual(chat: Chat) -> DualCursor:
    return chat.dual


def groups(dual: DualCursor) -> list[str]:
    return [each.group for each in dual.pending()]


@pytest.mark.parametrize("is_sent", [False, True])
def test_the_timeline_of_a_failure(chat: Chat, is_sent: bool) -> None:
    """T1 two arrive, T2 read, T3 processed by way of trial, T4 failure, T5 they come again."""
    first, second = chat.arrive("A", "T1"), chat.arrive("A", "T1")
    assert chat.poll() == [first, second]
    assert (chat.dual.read, chat.dual.processed("A")) == (second, 0)
    batch = chat.dual.advance_group("A", second, batch=[first, second])
    assert (batch.previous, batch.position, batch.items) == (0, second, (first, second))
    assert batch.started_at.tzinfo is UTC
    assert chat.dual.processed("A") == second
    if is_sent:
        chat.dual.output_sent(batch)
    ended = chat.dual.rollback_group(batch)
    assert ended.ending == ("kept" if is_sent else "rolled back")
    assert chat.dual.processed("A") == (second if is_sent else 0)
    assert chat.poll() == []
    assert chat.waiting("A") == ([] if is_sent else [first, second])
    assert groups(chat.dual) == ([] if is_sent else ["A"])


def test_success_keeps_the_position(chat: Chat) -> None:
    """A batch that was committed is over; the group goes on from there."""
    place = chat.arrive("A", "T1")
    chat.poll()
    batch = chat.dual.advance_group("A", place)
    assert chat.dual.commit_group(batch) == place
    assert chat.waiting("A") == []
    assert chat.dual.pending() == []
    assert chat.dual.in_flight() == []
    assert chat.dual.processed("A") == place


def test_h07_equal_timestamps_are_never_lost(chat: Chat) -> None:
    """Messages of one and the same time in different polls: each comes, and each comes once."""
    seen = []
    for _ in range(5):
        for _ in range(3):
            chat.arrive("A", "2026-01-01T00:00:00.000Z")
        seen += chat.poll()
    assert chat.poll() == []
    assert seen == list(range(1, 16))
    processed = []
    while waiting := chat.waiting("A"):
        batch = chat.dual.advance_group("A", waiting[:4][-1])
        processed += waiting[:4]
        chat.dual.commit_group(batch)
    assert processed == seen


def test_h08_late_and_out_of_order_arrivals_are_delivered(chat: Chat) -> None:
    """A message with an older time that arrives later is new all the same."""
    first = chat.arrive("A", "2026-01-01T12:00:00.000Z")
    chat.poll()
    chat.dual.commit_group(chat.dual.advance_group("A", first))
    late = chat.arrive("A", "2025-06-01T00:00:00.000Z")
    assert chat.poll() == [late]
    assert chat.waiting("A") == [late]


def test_groups_do_not_disturb_each_other(chat: Chat) -> None:
    """One group's failure moves no other and holds none up; the longest waiting comes first."""
    places = [chat.arrive(group, "T") for group in "ABCA"]
    chat.poll()
    batches = {group: chat.dual.advance_group(group, 4) for group in "ABC"}
    chat.dual.rollback_group(batches["A"])
    chat.dual.commit_group(batches["B"])
    assert [(each.group, each.batch) for each in chat.dual.pending()] == [("A", None), ("C", 1)]
    assert chat.waiting("A") == [places[0], places[3]]
    assert (chat.dual.processed("B"), chat.dual.processed("C")) == (4, 4)


def test_only_one_batch_of_a_group_is_in_flight(chat: Chat) -> None:
    """A second one is refused until the first has ended; its holder may extend the first."""
    for _ in range(3):
        chat.arrive("A", "T")
    chat.poll()
    batch = chat.dual.advance_group("A", 1, batch=["m1"])
    with pytest.raises(BatchInFlight):
        chat.dual.advance_group("A", 2)
    more = chat.dual.advance_group("A", 2, batch=["m2"], extends=batch)
    assert (more.number, more.previous, more.items) == (batch.number, 0, ("m1", "m2"))
    chat.dual.rollback_group(batch)
    assert chat.waiting("A") == [1, 2, 3]


def test_what_was_handed_over_after_the_last_output_comes_again(chat: Chat) -> None:
    """Output keeps what was answered, not the follow-ups that came after it."""
    for _ in range(4):
        chat.arrive("A", "T")
    chat.poll()
    batch = chat.dual.advance_group("A", 1)
    batch = chat.dual.advance_group("A", 2, extends=batch)
    chat.dual.output_sent(batch)
    batch = chat.dual.advance_group("A", 3, extends=batch)
    ended = chat.dual.rollback_group(batch, reason="exit 1")
    assert (ended.ending, ended.position) == ("kept", 2)
    assert chat.waiting("A") == [3, 4]


def test_a_stale_batch_changes_nothing(chat: Chat) -> None:
    """A holder of an old batch can neither commit, roll back, extend nor mark the newer one."""
    for _ in range(3):
        chat.arrive("A", "T")
    chat.poll()
    stale = chat.dual.advance_group("A", 1)
    chat.dual.rollback_group(stale)
    fresh = chat.dual.advance_group("A", 2)
    assert fresh.number > stale.number
    for call in (
        chat.dual.commit_group,
        chat.dual.rollback_group,
        chat.dual.output_sent,
        lambda batch: chat.dual.advance_group("A", 3, extends=batch),
    ):
        with pytest.raises(Superseded):
            call(stale)
        assert chat.dual.in_flight() == [fresh]
        assert chat.dual.processed("A") == 2
    chat.dual.commit_group(fresh)
    for call in (chat.dual.commit_group, chat.dual.rollback_group, chat.dual.output_sent):
        with pytest.raises(Superseded):
            call(fresh)
    assert chat.dual.processed("A") == 2


def test_a_group_can_be_named_instead_of_its_batch(chat: Chat) -> None:
    """A program with one worker need not carry the batch around."""
    chat.arrive("A", "T")
    chat.poll()
    chat.dual.advance_group("A", 1)
    chat.dual.output_sent("A")
    assert chat.dual.rollback_group("A").ending == "kept"
    with pytest.raises(Superseded, match="no batch of .* is in flight"):
        chat.dual.commit_group("A")


def test_what_a_crash_left_in_flight_is_found_again(chat: Chat, ow_url: str) -> None:
    """After a restart everything not known to be done comes again, unless output was sent."""
    for group in "ABC":
        chat.arrive(group, "T")
    chat.poll()
    left = {group: chat.dual.advance_group(group, 3, batch=[group]) for group in "ABC"}
    chat.dual.output_sent(left["B"])
    chat.dual.commit_group(left["C"])
    with open_handle(ow_url) as reopened:
        dual = reopened.dual("chat")
        assert [(each.group, each.items) for each in dual.in_flight()] == [
            ("A", ("A",)),
            ("B", ("B",)),
        ]
        ended = {each.batch.group: each.ending for each in dual.recover()}
        assert ended == {"A": "rolled back", "B": "kept"}
        assert dual.recover() == []
        assert groups(dual) == ["A"]
    with pytest.raises(Superseded):
        chat.dual.commit_group(left["A"])
    assert chat.waiting("A") == [1]


def test_every_method_is_part_of_the_callers_transaction(chat: Chat) -> None:
    """What the caller rolls back did not happen, a drawn number included."""
    chat.arrive("A", "T")
    with pytest.raises(ZeroDivisionError), chat.ow.transaction() as tx:
        assert chat.dual.next_sequence(tx, "A") == 2
        chat.dual.advance_global(2)
        chat.dual.output_sent(chat.dual.advance_group("A", 2))
        raise ZeroDivisionError
    assert (chat.dual.read, chat.dual.processed("A"), chat.dual.in_flight()) == (0, 0, [])
    assert chat.arrive("A", "T") == 2


def test_cursors_stay_in_their_range(chat: Chat) -> None:
    """Reading goes no further than what arrived, processing no further than what was read."""
    chat.arrive("A", "T")
    chat.arrive("A", "T")
    with pytest.raises(InvalidArgument, match="3 is not between 0 and 2"):
        chat.dual.advance_global(3)
    assert chat.dual.advance_global(1) == 1
    with pytest.raises(InvalidArgument, match="2 is not between 1 and 1"):
        chat.dual.advance_group("A", 2)
    assert chat.dual.advance_global(2) == 2
    assert chat.dual.advance_global(1) == 2
    chat.dual.commit_group(chat.dual.advance_group("A", 2))
    with pytest.raises(InvalidArgument, match="position"):
        chat.dual.advance_group("A", 1)
    with pytest.raises(InvalidArgument, match="batch"):
        chat.arrive("A", "T")
        chat.poll()
        chat.dual.advance_group("A", 3, batch=[object()])


def test_what_arrived_and_was_not_read_is_not_pending(chat: Chat) -> None:
    """Pending is what lies between the two cursors; the next poll reads the rest."""
    chat.arrive("A", "T")
    assert chat.dual.pending() == []
    (asked,) = chat.dual.pending("unknown")
    assert asked.is_empty
    chat.poll()
    assert groups(chat.dual) == ["A"]


def test_a_rollback_is_in_the_history(chat: Chat) -> None:
    """A later reader can see from where to where, and why."""
    chat.arrive("A", "T")
    chat.poll()
    chat.dual.rollback_group(chat.dual.advance_group("A", 1), reason="exit 1", actor="router")
    with chat.ow.transaction() as tx:
        rows = tx.execute(
            "select kind, actor, reason, from_position, to_position from cursor_history "
            "where cursor_name = 'chat/A'"
        )
    assert rows == [("rollback", "router", "exit 1", "1", "0")]


def test_numbers_are_in_the_order_of_commits(chat: Chat) -> None:
    """A draw waits until the one before has committed; a reader in between skips no number."""
    drawn, commit = threading.Event(), threading.Event()

    def slow() -> None:
        with chat.ow.transaction() as tx:
            place = chat.dual.next_sequence(tx, "A")
            tx.execute("insert into messages values (?, 'A', 'T')", [place])
            drawn.set()
            commit.wait()

    first = threading.Thread(target=slow)
    first.start()
    drawn.wait()
    second = threading.Thread(target=chat.arrive, args=["B", "T"])
    second.start()
    if isinstance(chat.ow.store, PostgresStore):  # On SQLite it waits for its turn to write.
        wait_until_blocked(chat.ow.store)
    assert chat.poll() == []
    assert second.is_alive()
    commit.set()
    first.join()
    second.join()
    assert chat.poll() == [1, 2]


def wait_until_blocked(store: PostgresStore) -> None:
    waits = "select 1 from pg_locks where not granted"
    with store.connection() as connection:
        until(lambda: connection.execute(waits).fetchall(), "no session waits")


def test_transactions_that_commit_in_the_opposite_order_of_starting(chat: Chat) -> None:
    """One that started first and draws last has the higher number, and nothing is skipped."""
    started, commit = threading.Event(), threading.Event()

    def early_bird() -> None:
        with chat.ow.transaction() as tx:
            tx.execute("select count(*) from messages")
            started.set()
            commit.wait()
            place = chat.dual.next_sequence(tx, "A")
            tx.execute("insert into messages values (?, 'A', 'early')", [place])

    bird = threading.Thread(target=early_bird)
    bird.start()
    started.wait()
    assert chat.arrive("A", "late") == 1
    assert chat.poll() == [1]
    commit.set()
    bird.join()
    assert chat.poll() == [2]


def test_many_writers_and_a_reader_lose_nothing(chat: Chat) -> None:
    """While threads insert in transactions of all lengths, a poller sees every message once."""
    per_writer, writers = 25, 4
    seen: list[int] = []

    def write(number: int) -> None:
        for index in range(per_writer):
            with chat.ow.transaction() as tx:
                for _ in numbers(number + index):
                    tx.execute("select 1")
                place = chat.dual.next_sequence(tx, f"g{number}")
                tx.execute("insert into messages values (?, ?, 'T')", [place, f"g{number}"])

    threads = [threading.Thread(target=write, args=[number]) for number in range(writers)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        seen += chat.poll()
    for thread in threads:
        thread.join()
    seen += chat.poll()
    assert seen == list(range(1, per_writer * writers + 1))


def numbers(seed: int) -> Iterator[int]:
    yield from range(seed * 7919 % 5)


def test_a_handle_speaks_only_for_what_it_names(ow: Onceward) -> None:
    """Follow-ups that a handle does not know of are neither committed nor kept by it."""
    dual = ow.dual("chat")
    with ow.transaction() as tx:
        last = [dual.next_sequence(tx, "g") for _ in range(3)][-1]
    dual.advance_global(last)
    first = dual.advance_group("g", 1)
    dual.advance_group("g", 2, extends=first)
    dual.output_sent(first)
    assert dual.in_flight()[0].output_position == 1
    assert dual.commit_group(first) == 1
    assert dual.pending("g")[0].after == 1
    second = dual.advance_group("g", 2)
    longer = dual.advance_group("g", 3, extends=second)
    assert dual.commit_group(longer) == 3
    assert dual.pending("g")[0].is_empty
