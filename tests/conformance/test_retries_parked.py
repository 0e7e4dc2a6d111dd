"""Parked messages: queued by key, one head at a time, in the caller's transaction."""

import pytest

from onceward.client import Onceward
from onceward.errors import InvalidArgument, Superseded
from onceward.retries import Dead, FixedDelays, Later, Parked
from onceward.testing.moving_time import MovingTime
from tests.conformance.test_retries import BROKEN, MINUTES, StandingTime, message


@pytest.fixture
def standing(ow: Onceward) -> StandingTime:
    return StandingTime(ow)


def park(ow: Onceward, *positions: str, key: str = "k", failed: bool = False) -> None:
    for position in positions:
        with ow.transaction() as tx:
            failure = BROKEN if failed else None
            ow.retries.parked.park(tx, message(position, key=key), failure=failure)


def due(ow: Onceward, limit: int = 100) -> list[Parked]:
    return ow.retries.parked.due_heads("leads", limit)


def places(ow: Onceward) -> list[str]:
    return [each.message.position for each in due(ow)]


def succeed(ow: Onceward, parked: Parked) -> None:
    with ow.transaction() as tx:
        ow.retries.parked.succeed(tx, parked)


def fail(ow: Onceward, parked: Parked) -> Later | Dead:
    with ow.transaction() as tx:
        return ow.retries.parked.fail(tx, parked, BROKEN)


def test_a_parked_message_dies_after_exactly_five_waits(
    ow: Onceward, standing: StandingTime
) -> None:
    """At each limit it is not due yet, a moment later it is; then it is a dead letter."""
    park(ow, "1", failed=True)
    park(ow, "2")
    for number, minutes in enumerate(MINUTES, start=1):
        standing.advance(seconds=minutes * 60)
        assert places(ow) == []
        standing.advance(seconds=0.001)
        (head,) = due(ow)
        assert (head.attempt, head.message) == (number, message("1", key="k"))
        answer = fail(ow, head)
    assert isinstance(answer, Dead)
    assert [each.attempt for each in ow.dead.show(answer.letter).failures] == [1, 2, 3, 4, 5, 6]
    assert places(ow) == ["2"]


def test_later_messages_of_a_key_wait_for_it_in_order(ow: Onceward, ow_time: MovingTime) -> None:
    """Only the head is due; each success makes the next of its key due at once."""
    park(ow, "1", failed=True)
    park(ow, "2", "3")
    park(ow, "4", key="other", failed=True)
    assert places(ow) == []
    assert ow.retries.parked.blocked_keys("leads", ["k", "other", "free"]) == {"k", "other"}
    assert ow.retries.parked.blocked_keys("elsewhere", ["k"]) == frozenset()
    ow_time.advance(seconds=61)
    assert places(ow) == ["1", "4"]
    done = []
    while due(ow):
        head = due(ow, limit=1)[0]
        done.append(head.message.position)
        succeed(ow, head)
    assert done == ["1", "2", "3", "4"]
    assert ow.retries.parked.waiting("leads").next_seconds is None


def test_a_follower_that_fails_has_a_schedule_of_its_own(ow: Onceward, ow_time: MovingTime) -> None:
    """What waited for another begins with its own first wait."""
    park(ow, "1", failed=True)
    park(ow, "2", "3")
    ow_time.advance(seconds=61)
    succeed(ow, due(ow)[0])
    assert fail(ow, due(ow)[0]) == Later(attempt=1, seconds=60)
    assert places(ow) == []
    waiting = ow.retries.parked.waiting("leads")
    assert (waiting.messages, waiting.keys) == (2, 1)
    assert waiting.next_seconds == pytest.approx(60, abs=5)


def test_without_order_every_message_waits_alone(ow: Onceward, ow_time: MovingTime) -> None:
    """A failing message blocks no other, whatever its key; nor does one without a key."""
    with ow.transaction() as tx:
        for position in ("1", "2"):
            parked = ow.retries.parked.park(
                tx, message(position, key="k"), failure=BROKEN, order="none"
            )
            assert parked == Later(attempt=1, seconds=60)
        ow.retries.parked.park(tx, message("3"), failure=BROKEN)
    assert ow.retries.parked.blocked_keys("leads", ["k"]) == frozenset()
    ow_time.advance(seconds=61)
    assert places(ow) == ["1", "2", "3"]
    fail(ow, due(ow)[0])
    assert places(ow) == ["2", "3"]


def test_parking_is_undone_with_the_checkpoint(ow: Onceward) -> None:
    """What the caller's transaction does not commit was not parked, removed or rescheduled."""
    with pytest.raises(ZeroDivisionError), ow.transaction() as tx:
        ow.retries.parked.park(tx, message("1", key="k"))
        raise ZeroDivisionError
    assert ow.retries.parked.waiting("leads").messages == 0
    park(ow, "1", "2")
    (head,) = due(ow)
    for call in (
        lambda tx: ow.retries.parked.succeed(tx, head),
        lambda tx: ow.retries.parked.fail(tx, head, BROKEN),
        lambda tx: ow.retries.parked.fail(tx, head, BROKEN, schedule=FixedDelays(seconds=())),
    ):
        with pytest.raises(ZeroDivisionError), ow.transaction() as tx:
            call(tx)
            raise ZeroDivisionError
        assert due(ow) == [head]
    assert ow.dead.list() == []


def test_parking_a_position_again_changes_nothing(ow: Onceward) -> None:
    """A message that is read again after a crash is parked once."""
    park(ow, "1", failed=True)
    park(ow, "1", failed=True)
    park(ow, "1")
    assert ow.retries.parked.waiting("leads").messages == 1
    assert places(ow) == []


def test_a_stale_handle_changes_nothing(ow: Onceward, ow_time: MovingTime) -> None:
    """A worker that read a head before it was moved on is refused, and its effects are undone."""
    park(ow, "1", "2")
    (stale,) = due(ow)
    fail(ow, stale)
    ow_time.advance(seconds=61)
    (fresh,) = due(ow)
    for call in (
        ow.retries.parked.succeed,
        lambda tx, old: ow.retries.parked.fail(tx, old, BROKEN),
    ):
        with pytest.raises(Superseded, match="1 of leads"), ow.transaction() as tx:
            tx.execute("create table effects (id integer)")
            call(tx, stale)
        assert due(ow) == [fresh]
    succeed(ow, fresh)
    with pytest.raises(Superseded):
        succeed(ow, fresh)
    assert places(ow) == ["2"]
    with ow.transaction() as tx:
        tx.execute("create table effects (id integer)")


def test_a_schedule_without_retries_parks_nothing(ow: Onceward) -> None:
    """It is a dead letter in the same transaction."""
    with ow.transaction() as tx:
        parked = ow.retries.parked.park(
            tx, message("1", key="k"), failure=BROKEN, schedule=FixedDelays(seconds=())
        )
    assert isinstance(parked, Dead)
    assert ow.dead.show(parked.letter).attempts == 1
    assert ow.retries.parked.waiting("leads").messages == 0


def test_a_limit_is_a_positive_number(ow: Onceward) -> None:
    """Nothing is asked for by mistake."""
    with pytest.raises(InvalidArgument, match="limit"):
        due(ow, 0)
