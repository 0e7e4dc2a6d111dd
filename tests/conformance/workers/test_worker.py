"""Workers: what consumers are promised, on both engines."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.retries import FixedDelays
from onceward.stores import Transaction
from onceward.testing.moving_time import MovingTime
from onceward.workers import App, Item, Message, Reject, Worker
from tests.support.list_source import ListPartitions, ListSource
from tests.support.running_worker import PATIENCE_SECONDS


def drain(app: App, threads: int = 2) -> Any:
    return Worker(app, threads=threads).run(once=True)


@pytest.fixture
def done(ow: Onceward) -> Any:
    """A table of effects, and how to read it."""
    with ow.transaction() as tx:
        tx.execute("create table done (n bigint)")

    def read() -> list[int]:
        with ow.transaction() as tx:
            return [row[0] for row in tx.execute("select n from done order by 1")]

    return read


def add(message: Message, tx: Transaction) -> None:
    tx.execute("insert into done values (?)", [message.data])


def test_every_message_is_handled_once_and_in_order(ow: Onceward, done: Any) -> None:
    """A drained cursor stands after the last message, each effect is there once."""
    app = App(ow)
    app.consumer("numbers", source=ListSource(*range(250)))(add)
    worked = drain(app)
    assert worked.messages == 250
    assert worked.is_clean
    assert worked.unfinished == ()
    assert done() == list(range(250))
    assert ow.cursors.show("numbers").position == "250"
    assert drain(app).messages == 0
    assert not ow.cursors.show("numbers").is_held


def test_a_run_that_was_stopped_before_it_began_leaves_every_consumer(ow: Onceward) -> None:
    """Without a search, no cursor counts as drained."""
    app = App(ow)
    app.consumer("numbers", source=ListSource(1))(print)
    worker = Worker(app)
    worker.stop()
    worked = worker.run(once=True)
    assert (worked.messages, worked.unfinished) == (0, ("numbers",))


def test_batches_are_one_commit(ow: Onceward, done: Any) -> None:
    """A handler with `batch` gets lists, and the cursor moves once for each."""
    app, sizes = App(ow), []

    @app.consumer("numbers", source=ListSource(*range(25)), batch=10)
    def handle(messages: list[Message], tx: Transaction) -> None:
        sizes.append(len(messages))
        for message in messages:
            add(message, tx)

    drain(app)
    assert sizes == [10, 10, 5]
    assert done() == list(range(25))
    assert ow.cursors.show("numbers").processed_count == 25


def test_async_handlers_are_awaited(ow: Onceward, done: Any) -> None:
    """An `async def` handler works like any other, its transaction open around it."""
    app = App(ow)

    @app.consumer("numbers", source=ListSource(*range(30)))
    async def handle(message: Message, tx: Transaction) -> None:
        tx.execute("insert into done values (?)", [message.data])

    drain(app)
    assert done() == list(range(30))


def test_a_handler_without_tx_moves_the_cursor_after_it(ow: Onceward) -> None:
    """Effects elsewhere come first, then the checkpoint."""
    app, seen = App(ow), []
    app.consumer("numbers", source=ListSource(1, 2, 3))(lambda message: seen.append(message.data))
    drain(app)
    assert seen == [1, 2, 3]
    assert ow.cursors.show("numbers").position == "3"


@pytest.mark.parametrize("batch", [None, 4])
def test_a_failing_message_holds_its_cursor(
    ow: Onceward, ow_time: MovingTime, done: Any, batch: int | None
) -> None:
    """With order="cursor" nothing passes it until its last retry; then it is a dead letter."""
    app, tries = App(ow), []

    @app.consumer(
        "numbers",
        source=ListSource(*range(6)),
        batch=batch,
        retry=FixedDelays(seconds=(60.0, 120.0)),
    )
    def handle(messages: Any, tx: Transaction) -> None:
        for message in messages if isinstance(messages, list) else [messages]:
            add(message, tx)
            if message.data == 3:
                tries.append(message.attempt)
                raise ValueError(message.data)

    assert drain(app).unfinished == ("numbers",)
    assert done() == [0, 1, 2]
    assert ow.cursors.show("numbers").error_count == 1
    before = len(tries)
    drain(app)
    assert len(tries) == before, "not before its time"
    ow_time.advance(seconds=60.001)
    drain(app)
    ow_time.advance(seconds=119)
    drain(app)
    assert done() == [0, 1, 2]
    ow_time.advance(seconds=1.001)
    drain(app)
    assert done() == [0, 1, 2, 4, 5]
    assert tries[-3:] == [1, 2, 3] if batch is None else tries[-2:] == [2, 3]
    (letter,) = ow.dead.list()
    assert (letter.position, letter.attempts, letter.error_type) == ("4", 3, "ValueError")


def test_a_failing_key_parks_its_later_messages(ow: Onceward, ow_time: MovingTime) -> None:
    """With order="key" other keys go on, and those of its key keep their order."""
    app, seen, broken = App(ow), [], [True]
    values = [{"k": "a", "n": 1}, {"k": "b", "n": 2}, {"k": "a", "n": 3}, {"k": "b", "n": 4}]
    source = ListSource(*values)

    @app.consumer("numbers", source=source, order="key", key=lambda data: data["k"])
    def handle(message: Message) -> None:
        if broken[0] and message.data["n"] == 1:
            raise ValueError(message.data)
        seen.append((message.data["n"], message.attempt))

    drain(app)
    assert seen == [(2, 1), (4, 1)]
    broken[0] = False
    source.values.append({"k": "a", "n": 5})
    drain(app)
    assert seen == [(2, 1), (4, 1)]
    ow_time.advance(seconds=60.001)
    drain(app)
    assert seen[2:] == [(1, 2), (3, 1), (5, 1)]
    assert ow.retries.parked.next_seconds("numbers") is None


def test_order_none_parks_a_message_alone(ow: Onceward, ow_time: MovingTime) -> None:
    """Nothing waits for it."""
    app, seen = App(ow), []

    @app.consumer("numbers", source=ListSource(1, 2, 3), order="none")
    def handle(message: Message) -> None:
        if message.data == 2 and message.attempt == 1:
            raise ValueError(message.data)
        seen.append(message.data)

    drain(app)
    assert seen == [1, 3]
    ow_time.advance(seconds=60.001)
    drain(app)
    assert seen == [1, 3, 2]


@pytest.mark.parametrize("batch", [None, 10])
def test_h21_what_cannot_be_read_is_a_dead_letter_with_its_bytes(
    ow: Onceward, done: Any, batch: int | None
) -> None:
    """Poison does not stop the cursor; its bytes are kept as they came."""
    app = App(ow)

    @app.consumer("numbers", source=ListSource(1, b"\xff{", 2), batch=batch)
    def handle(messages: Any, tx: Transaction) -> None:
        for message in messages if isinstance(messages, list) else [messages]:
            add(message, tx)

    drain(app)
    assert done() == [1, 2]
    (letter,) = ow.dead.list()
    assert ow.dead.show(letter.id).raw == b"\xff{"


def test_a_rejected_message_is_dead_at_once(ow: Onceward, done: Any) -> None:
    """A handler that says Reject is not asked again, and leaves no effect."""
    app = App(ow)

    @app.consumer("numbers", source=ListSource(1, 2, 3))
    def handle(message: Message, tx: Transaction) -> None:
        add(message, tx)
        if message.data == 2:
            raise Reject(message.data)

    drain(app)
    assert done() == [1, 3]
    assert [letter.error_message for letter in ow.dead.list()] == ["2"]


def test_a_redriven_message_succeeds_once(ow: Onceward, done: Any) -> None:
    """Redriving puts it back where the worker finds it."""
    app, broken = App(ow), [True]

    @app.consumer("numbers", source=ListSource(1, 2, 3), retry=FixedDelays(seconds=()))
    def handle(message: Message, tx: Transaction) -> None:
        add(message, tx)
        if broken[0] and message.data == 2:
            raise ValueError(message.data)

    drain(app)
    assert done() == [1, 3]
    broken[0] = False
    (letter,) = ow.dead.list()
    ow.dead.redrive(letter.id, actor="me")
    drain(app)
    drain(app)
    assert done() == [1, 2, 3]


def test_partitions_have_cursors_of_their_own(ow: Onceward, done: Any) -> None:
    """Each is found, worked through, and let go."""
    app = App(ow)
    source = ListPartitions(a=[1, 2], b=[3], c=[])
    app.consumer("niche_{id}", source=source)(add)
    drain(app)
    assert done() == [1, 2, 3]
    source.lists["c"].append(4)
    source.lists["d"] = [5]
    drain(app)
    assert done() == [1, 2, 3, 4, 5]
    assert {each.name for each in ow.cursors.list("niche_*")} == {f"niche_{c}" for c in "abcd"}


def test_limits_hold_over_all_threads(ow: Onceward) -> None:
    """No more partitions of a consumer, or of one group, are at work than it allows."""
    app = App(ow)
    at_work: list[str] = []
    most: dict[str, int] = {"all": 0, "odd": 0}
    mutex, are_two = threading.Lock(), threading.Event()
    source = ListPartitions(**{f"p{n}": list[object]((1, 2, 3)) for n in range(6)})

    @app.consumer(
        "niche_{id}",
        source=source,
        max_in_flight=2,
        max_in_flight_per_group=lambda group: 1 if group == "odd" else 2,
        group=lambda key: "odd" if int(key[1:]) % 2 else "even",
        poll_seconds=0.02,
    )
    def handle(message: Message) -> None:
        assert message.partition is not None
        with mutex:
            at_work.append(message.partition)
            most["all"] = max(most["all"], len(set(at_work)))
            odd = {each for each in at_work if int(each[1:]) % 2}
            most["odd"] = max(most["odd"], len(odd))
            if most["all"] >= 2:
                are_two.set()
        are_two.wait(PATIENCE_SECONDS)
        threading.Event().wait(0.01)
        with mutex:
            at_work.remove(message.partition)

    worked = drain(app, threads=6)
    assert worked.messages == 18
    assert most == {"all": 2, "odd": 1}


def test_a_paused_cursor_is_left_alone(ow: Onceward, done: Any) -> None:
    """Until an operator resumes it."""
    app = App(ow)
    app.consumer("numbers", source=ListSource(1, 2))(add)
    ow.cursors.acquire("numbers").release()  # type: ignore[union-attr]
    ow.cursors.pause("numbers")
    assert drain(app).unfinished == ("numbers",)
    assert done() == []
    ow.cursors.resume("numbers")
    drain(app)
    assert done() == [1, 2]


@pytest.mark.parametrize("order", ["cursor", "none"])
def test_a_message_that_fails_six_times_is_a_dead_letter_at_the_right_times(
    ow: Onceward, ow_time: MovingTime, done: Any, order: Any
) -> None:
    """Tried at once and after 1, 2, 5, 15 and 60 minutes, not a second before; redriven, once."""
    app, tries, broken = App(ow), [], [True]

    @app.consumer("numbers", source=ListSource(1), order=order)
    def handle(message: Message, tx: Transaction) -> None:
        tries.append(message.attempt)
        add(message, tx)
        if broken[0]:
            raise ValueError(message.data)

    drain(app)
    for number, minutes in enumerate((1, 2, 5, 15, 60), 1):
        assert tries == list(range(1, number + 1))
        assert ow.dead.list() == []
        ow_time.advance(seconds=minutes * 60 - 5)
        drain(app)
        assert len(tries) == number
        ow_time.advance(seconds=5.001)
        drain(app)
    (letter,) = ow.dead.list()
    assert (letter.attempts, tries, done()) == (6, [1, 2, 3, 4, 5, 6], [])
    broken[0] = False
    ow.dead.redrive(letter.id, actor="me")
    drain(app)
    drain(app)
    assert (done(), ow.dead.list()) == ([1], [])


def test_h22_a_new_message_does_not_hurry_a_failing_one(ow: Onceward, ow_time: MovingTime) -> None:
    """Restarts and arrivals leave the schedule of what failed as it was."""
    tries: list[int] = []
    source = ListSource({"k": "a"})

    def fresh() -> App:
        app = App(ow)

        @app.consumer("numbers", source=source, order="key", key=lambda data: data["k"])
        def handle(message: Message) -> None:
            if message.data["k"] == "a":
                tries.append(message.attempt)
                raise ValueError(message.attempt)

        return app

    for number in range(5):
        drain(fresh())
        source.values.append({"k": "a"})
        source.values.append({"k": f"b{number}"})
        ow_time.advance(seconds=10)
    assert tries == [1]
    ow_time.advance(seconds=10.001)
    drain(fresh())
    assert tries == [1, 2]


def test_an_old_worker_and_a_new_one_never_share_a_cursor(ow: Onceward, done: Any) -> None:
    """The new version migrates the position under its lease; the old one is refused afterwards."""
    old, new, source = App(ow), App(ow), ListSource(1, 2)
    old.consumer("numbers", source=source)(add)
    drain(old)

    class Tens:
        def read(self, after: str | None, limit: int) -> Any:
            before = None if after is None else str(int(after) // 10)
            items = source.read(before, limit)
            return [Item(position=f"{item.position}0", raw=item.raw) for item in items]

    migrations = {1: lambda position: f"{position}0"}
    new.consumer("numbers", source=Tens(), version=2, migrations=migrations)(add)
    source.values.append(3)
    drain(new)
    assert (done(), ow.cursors.show("numbers").position) == ([1, 2, 3], "30")
    source.values.append(4)
    assert drain(old).unfinished == ("numbers",)
    assert done() == [1, 2, 3]
    drain(new)
    assert done() == [1, 2, 3, 4]
    assert [entry.kind for entry in ow.cursors.history("numbers")] == ["migration"]
