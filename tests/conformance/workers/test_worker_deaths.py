"""Deaths of workers at a message: failed attempts under the message's own schedule."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from onceward.client import Onceward
from onceward.errors import InvalidArgument, StoreBusy
from onceward.retries import FixedDelays, Schedule
from onceward.testing.moving_time import MovingTime
from onceward.workers import App, Message, Reject
from onceward.workers.message_processing import MessageProcessor
from onceward.workers.poison_guard import PoisonGuard, ProcessingStage
from tests.support.list_source import ListSource
from tests.support.running_worker import drain

STAGES = pytest.mark.parametrize("stage", ["decoding", "handling"])
ORDERS = pytest.mark.parametrize("order", ["cursor", "key", "none"])
#: Much longer than a test takes: PostgreSQL's clock goes on by itself.
WAIT_SECONDS = 1000.0
LONG = FixedDelays(seconds=(WAIT_SECONDS,) * 9)


class Numbers:
    """An app whose handler records what it saw, and acts as the test says."""

    def __init__(self, ow: Onceward, order: Any, retry: Schedule, *values: object) -> None:
        self.app, self.seen = App(ow), list[tuple[Any, int]]()
        self.error: BaseException | None = None
        self.is_readable = True
        self.app.consumer(
            "numbers",
            source=ListSource(*values),
            order=order,
            key=(lambda data: data["k"]) if order == "key" else None,
            decode=self.decode,
            retry=retry,
        )(self.handle)

    def decode(self, raw: bytes) -> Any:
        if not self.is_readable:
            raise ValueError(raw)
        return orjson.loads(raw)

    def handle(self, message: Message) -> None:
        self.seen.append((message.data["n"], message.attempt))
        if self.error is not None and message.data["n"] == 1:
            raise self.error

    def values(self) -> list[Any]:
        return [each for each, _ in self.seen]


def numbers(*found: int) -> list[dict[str, Any]]:
    return [{"n": number, "k": "a"} for number in found]


class Deaths:
    """Workers that die at a message of the cursor, one after another."""

    def __init__(self, ow: Onceward, ow_time: MovingTime) -> None:
        self._ow, self._time, self._count = ow, ow_time, 0

    def at(self, position: str, stage: ProcessingStage) -> None:
        """Let one die there, and its lease and the wait of the message pass."""
        self._count += 1
        lease = self._ow.cursors.acquire("numbers", f"killed{self._count}", 1.0)
        assert lease is not None
        PoisonGuard(self._ow, lease).note_start(position, stage)
        self._time.advance(seconds=WAIT_SECONDS + 1)


@STAGES
@ORDERS
def test_h59_a_death_is_an_attempt_of_the_message_and_no_more(
    ow: Onceward, ow_time: MovingTime, order: Any, stage: ProcessingStage
) -> None:
    """The message waits as its schedule says, then runs, and what follows it keeps its order."""
    app = Numbers(ow, order, LONG, *numbers(1, 2))
    deaths = Deaths(ow, ow_time)
    deaths.at("1", stage)
    drain(app.app)
    assert ow.dead.list() == []
    assert app.values() == ([2] if order == "none" else [])
    ow_time.advance(seconds=WAIT_SECONDS / 2)
    drain(app.app)
    assert 1 not in app.values(), "its wait is not over"
    ow_time.advance(seconds=WAIT_SECONDS / 2 + 1)
    drain(app.app)
    assert sorted(app.seen) == [(1, 2), (2, 1)]
    assert app.values() == ([2, 1] if order == "none" else [1, 2])
    assert ow.dead.list() == []
    assert ow.retries.attempts.positions("numbers") == frozenset()
    assert ow.retries.attempts.positions("~begun/numbers") == frozenset()


@STAGES
@ORDERS
def test_h59_three_deaths_at_one_message_make_it_poison(
    ow: Onceward, ow_time: MovingTime, order: Any, stage: ProcessingStage
) -> None:
    """Whatever its schedule still allows: a message that ends workers would end them for ever."""
    app = Numbers(ow, order, LONG, *numbers(1, 2))
    deaths = Deaths(ow, ow_time)
    for number in range(3):
        deaths.at("1", stage)
        assert ow.dead.list() == [], number
        drain(app.app)
        ow_time.advance(seconds=WAIT_SECONDS + 1)
    drain(app.app)
    (letter,) = ow.dead.list()
    assert (letter.position, letter.error_type, letter.attempts) == ("1", "PoisonMessage", 3)
    shown = ow.dead.show(letter.id)
    assert [each.attempt for each in shown.failures] == [1, 2, 3]
    assert shown.first_failed_at < shown.dead_at
    assert app.values() == [2]


@pytest.mark.parametrize("stages", [("decoding", "handling"), ("handling", "decoding")])
@ORDERS
def test_h59_failures_and_deaths_are_counted_together(
    ow: Onceward, ow_time: MovingTime, order: Any, stages: tuple[ProcessingStage, ProcessingStage]
) -> None:
    """Held while its key was unreadable, parked afterwards: the attempts stay the message's."""
    app = Numbers(ow, order, FixedDelays(seconds=(WAIT_SECONDS,) * 2), *numbers(1))
    deaths = Deaths(ow, ow_time)
    deaths.at("1", stages[0])
    drain(app.app)
    ow_time.advance(seconds=WAIT_SECONDS + 1)
    app.error = ValueError("no")
    drain(app.app)
    assert app.seen == [(1, 2)]
    ow_time.advance(seconds=WAIT_SECONDS + 1)
    deaths.at("1", stages[1])
    drain(app.app)
    (letter,) = ow.dead.list()
    assert (letter.error_type, letter.attempts) == ("WorkerDied", 3)
    errors = [each.error.partition(":")[0] for each in ow.dead.show(letter.id).failures]
    assert errors == ["WorkerDied", "ValueError", "WorkerDied"]


@pytest.mark.parametrize("what", ["unreadable", "rejected"])
def test_what_is_given_up_after_a_death_keeps_its_attempts(
    ow: Onceward, ow_time: MovingTime, what: str
) -> None:
    """A letter at the second attempt says so."""
    app = Numbers(ow, "key", LONG, *numbers(1))
    Deaths(ow, ow_time).at("1", "decoding")
    drain(app.app)
    ow_time.advance(seconds=WAIT_SECONDS + 1)
    app.is_readable = what != "unreadable"
    app.error = Reject("no")
    drain(app.app)
    (letter,) = ow.dead.list()
    kind = "ValueError" if what == "unreadable" else "Reject"
    assert (letter.error_type, letter.attempts) == (kind, 2)
    assert len(ow.dead.show(letter.id).failures) == 2
    assert ow.retries.attempts.positions("numbers") == frozenset()


def test_a_message_held_while_unreadable_is_queued_after_its_key(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """An earlier message of its key may be parked: it was read before the key was known."""
    app = Numbers(ow, "key", LONG, *numbers(1, 2))
    app.error = ValueError("no")
    source = app.app.consumers[0].source
    assert isinstance(source, ListSource)
    late = source.values.pop()
    drain(app.app)
    source.values.append(late)
    Deaths(ow, ow_time).at("2", "decoding")
    drain(app.app)
    ow_time.advance(seconds=WAIT_SECONDS + 1)
    drain(app.app)
    assert 2 not in app.values(), "its key waits"
    app.error = None
    ow_time.advance(seconds=WAIT_SECONDS + 1)
    drain(app.app)
    assert app.values()[-2:] == [1, 2]
    assert ow.dead.list() == []


@STAGES
def test_a_worker_that_lives_blames_no_message(
    ow: Onceward, ow_time: MovingTime, stage: ProcessingStage
) -> None:
    """A store that went away while it struck a note out is not a death."""
    worker = ow.cursors.acquire("numbers", "w", 1.0)
    assert worker is not None
    PoisonGuard(ow, worker).note_start("1", stage)
    ow_time.advance(seconds=2)
    again = ow.cursors.acquire("numbers", "w", 1.0)
    assert again is not None
    begun = PoisonGuard(ow, again)
    assert begun.abandoned == {}
    begun.remove_note("1")
    assert ow.retries.attempts.positions("~begun/numbers") == frozenset()


@pytest.mark.parametrize("order", ["cursor", "none"])
def test_a_death_is_counted_after_a_store_that_was_busy(
    ow: Onceward, ow_time: MovingTime, monkeypatch: pytest.MonkeyPatch, order: Any
) -> None:
    """A worker that could not record the death of another one leaves that to its next look."""
    app = Numbers(ow, order, LONG, *numbers(1))
    Deaths(ow, ow_time).at("1", "handling")
    record, busy = MessageProcessor._write_failure, [StoreBusy("a test")]

    def busy_at_first(self: MessageProcessor, *said: Any, **named: Any) -> Any:
        if busy:
            raise busy.pop()
        return record(self, *said, **named)

    monkeypatch.setattr(MessageProcessor, "_write_failure", busy_at_first)
    drain(app.app)
    assert not busy
    ow_time.advance(seconds=WAIT_SECONDS + 1)
    drain(app.app)
    assert app.seen == [(1, 2)]
    assert ow.retries.attempts.positions("~begun/numbers") == frozenset()


@pytest.mark.parametrize("worker", ["same", "other"])
def test_a_death_while_handling_is_still_one_after_a_store_failure(
    ow: Onceward, ow_time: MovingTime, worker: str
) -> None:
    """The message was decoded again to record the death, and the store went before it was."""
    Deaths(ow, ow_time).at("1", "handling")
    lease = ow.cursors.acquire("numbers", "same", 1.0)
    assert lease is not None
    begun = PoisonGuard(ow, lease)
    begun.note_start("1", "decoding")
    if worker == "same":  # It lives, and was not even able to note that the message is decoded.
        assert PoisonGuard(ow, lease).abandoned == {"1": "handling"}
    begun.note_decoded("1")
    ow_time.advance(seconds=2)
    again = ow.cursors.acquire("numbers", worker, 1.0)
    assert again is not None
    assert PoisonGuard(ow, again).abandoned == {"1": "handling"}


def test_a_death_while_a_message_is_decoded_again_is_one_of_decoding(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """Its handler killed one worker; the next one died before the handler was called."""
    Deaths(ow, ow_time).at("1", "handling")
    lease = ow.cursors.acquire("numbers", "dies", 1.0)
    assert lease is not None
    PoisonGuard(ow, lease).note_start("1", "decoding")
    ow_time.advance(seconds=2)
    again = ow.cursors.acquire("numbers", "other", 1.0)
    assert again is not None
    assert PoisonGuard(ow, again).abandoned == {"1": "decoding"}


def test_how_many_deaths_make_poison_can_be_chosen(ow: Onceward, ow_time: MovingTime) -> None:
    """And must be a number."""
    app = App(ow)
    app.consumer("numbers", source=ListSource(1), retry=LONG, poison_deaths=1)(lambda _: None)
    Deaths(ow, ow_time).at("1", "handling")
    drain(app)
    assert [letter.error_type for letter in ow.dead.list()] == ["PoisonMessage"]
    with pytest.raises(InvalidArgument, match="poison_deaths"):
        app.consumer("others", source=ListSource(1), poison_deaths=0)
