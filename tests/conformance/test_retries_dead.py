"""Dead letters: kept with their bytes, listed, put back once, dropped with a reason."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from onceward.client import Onceward
from onceward.errors import DeadLetterMissing, InvalidArgument, Superseded
from onceward.retries import Dead, DeadFilter, Failure, FixedDelays, Parked, Redriven
from onceward.stores import Transaction
from onceward.stores.postgres.store import PostgresStore
from onceward.testing.moving_time import MovingTime
from tests.conformance.test_dual import wait_until_blocked
from tests.conformance.test_retries import BROKEN, message

NO_RETRIES = FixedDelays(seconds=())


def bury(ow: Onceward, position: str, key: str | None = None, cursor: str = "leads") -> int:
    with ow.transaction() as tx:
        parked = ow.retries.parked.park(
            tx, message(position, key=key, cursor=cursor), failure=BROKEN, schedule=NO_RETRIES
        )
    assert isinstance(parked, Dead)
    return parked.letter


def due(ow: Onceward) -> list[Parked]:
    return ow.retries.parked.due_heads("leads")


def die(ow: Onceward, parked: Parked) -> int:
    with ow.transaction() as tx:
        dead = ow.retries.parked.fail(tx, parked, BROKEN, schedule=NO_RETRIES)
    assert isinstance(dead, Dead)
    return dead.letter


def test_undecodable_input_is_a_dead_letter_with_its_raw_bytes(ow: Onceward) -> None:
    """Whatever the bytes, they are kept as they came."""
    raw = bytes(range(256)) * 5
    try:
        raw.decode()
    except UnicodeDecodeError as exc:
        failure = Failure.of(exc)
    with ow.transaction() as tx:
        letter = ow.dead.add(tx, message("1").__class__(cursor="c", position="1", raw=raw), failure)
    shown = ow.dead.show(letter)
    assert (shown.raw, shown.raw_size, shown.key) == (raw, len(raw), None)
    assert shown.error_type == "UnicodeDecodeError"
    assert "test_retries_dead.py" in shown.error_trace
    assert (shown.attempts, shown.state, shown.redrive_count) == (1, "dead", 0)
    assert len(shown.failures) == 1


def test_listing_by_cursor_key_time_and_state(ow: Onceward, ow_time: MovingTime) -> None:
    """Newest first; what is not asked for does not matter."""
    first = bury(ow, "1", key="a")
    second = bury(ow, "2", key="b")
    ow_time.advance(seconds=3600)
    third = bury(ow, "1", key="a", cursor="other")
    assert [each.id for each in ow.dead.list()] == [third, second, first]
    assert [each.id for each in ow.dead.list(cursor="leads")] == [second, first]
    assert [each.id for each in ow.dead.list(key="a", limit=1)] == [third]
    since = ow.dead.show(first).dead_at + timedelta(minutes=30)
    assert [each.id for each in ow.dead.list(since=since)] == [third]
    ow.dead.drop(first, reason="a test", actor="me")
    assert [each.id for each in ow.dead.list(state="dropped")] == [first]
    assert [each.id for each in ow.dead.list(state=None)] == [third, second, first]
    assert ow.dead.count() == {"leads": 1, "other": 1}


def test_redrive_puts_a_message_back_once(ow: Onceward) -> None:
    """It is parked and due now, with no attempts; doing it again does nothing more."""
    letter = bury(ow, "1", key="k")
    assert ow.dead.redrive(letter, actor="me").ids == (letter,)
    again = ow.dead.redrive(letter, actor="me")
    assert (again.ids, again.skipped) == ((), (letter,))
    (head,) = due(ow)
    assert (head.message, head.attempt, head.failures) == (message("1", key="k"), 0, ())
    shown = ow.dead.show(letter)
    assert (shown.state, shown.redrive_count, shown.changed_by) == ("redriven", 1, "me")
    with ow.transaction() as tx:
        ow.retries.parked.succeed(tx, head)
    assert ow.dead.redrive(letter, actor="me").ids == ()
    assert due(ow) == []


def test_a_message_that_dies_again_opens_its_letter_again(ow: Onceward) -> None:
    """One message has one letter, and it knows how often it was put back."""
    letter = bury(ow, "1", key="k")
    for times in (1, 2):
        ow.dead.redrive(letter, actor="me")
        assert die(ow, due(ow)[0]) == letter
        shown = ow.dead.show(letter)
        assert (shown.state, shown.redrive_count, shown.attempts) == ("dead", times, 1)
    assert len(ow.dead.list(state=None)) == 1


def test_a_redriven_message_takes_its_old_place_in_line(ow: Onceward) -> None:
    """It stands before later messages of its key, which keep their own schedules."""
    with ow.transaction() as tx:
        ow.retries.parked.park(tx, message("1", key="k"))
        ow.retries.parked.park(tx, message("2", key="k"))
    letter = die(ow, due(ow)[0])
    (second,) = due(ow)
    with ow.transaction() as tx:
        ow.retries.parked.fail(tx, second, BROKEN)
    waits = ow.retries.parked.waiting("leads").next_seconds
    assert waits == pytest.approx(60, abs=5)
    ow.dead.redrive(letter, actor="me")
    (head,) = due(ow)
    assert head.message.position == "1"
    with ow.transaction() as tx:
        ow.retries.parked.succeed(tx, head)
    assert due(ow) == []
    assert ow.retries.parked.waiting("leads").next_seconds == pytest.approx(60, abs=5)


def test_redrive_by_filter_and_by_numbers(ow: Onceward) -> None:
    """Many at once, oldest first, no more than the limit; those of other cursors stay."""
    letters = [bury(ow, str(number), key=f"k{number}") for number in range(5)]
    other = bury(ow, "9", cursor="other")
    wanted = DeadFilter(cursor="leads", limit=2)
    assert ow.dead.matching(wanted) == tuple(letters[:2])
    assert ow.dead.redrive(wanted, actor="me").ids == tuple(letters[:2])
    redriven = ow.dead.redrive([letters[4], letters[0], letters[4]], actor="me")
    assert (redriven.ids, redriven.skipped) == ((letters[4],), (letters[0],))
    assert ow.dead.redrive(DeadFilter(key="k3"), actor="me").ids == (letters[3],)
    assert [each.id for each in ow.dead.list()] == [other, letters[2]]
    assert [each.message.position for each in due(ow)] == ["0", "1", "3", "4"]


def test_redriving_is_all_or_nothing(ow: Onceward) -> None:
    """A number that does not exist is refused, and nothing is put back."""
    letter = bury(ow, "1")
    with pytest.raises(DeadLetterMissing, match="9999"):
        ow.dead.redrive([letter, 9999], actor="me")
    assert ow.dead.show(letter).state == "dead"
    assert due(ow) == []


def test_an_iterator_of_letters_survives_an_operation_that_runs_again(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a pooler that has forgotten a statement."""
    letters = [bury(ow, "1"), bury(ow, "2")]
    write = ow.store.write

    def twice(operation: Callable[[Transaction], Redriven]) -> Redriven:
        with pytest.raises(ZeroDivisionError), ow.store.transaction() as tx:
            operation(tx)
            raise ZeroDivisionError
        return write(operation)

    monkeypatch.setattr(ow.store, "write", twice)
    assert ow.dead.redrive(iter(letters), actor="me").ids == tuple(letters)


def test_a_number_that_no_letter_can_have_is_missing(ow: Onceward) -> None:
    """It is reported like any other missing letter, whatever a database can count to."""
    for letter in [0, -1, 2**63, 10**30]:
        with pytest.raises(DeadLetterMissing, match=str(letter)):
            ow.dead.redrive(letter, actor="me")
        with pytest.raises(DeadLetterMissing, match=str(letter)):
            ow.dead.drop(letter, reason="gone", actor="me")
        with pytest.raises(DeadLetterMissing, match=str(letter)):
            ow.dead.show(letter)
        assert ow.dead.get_many([letter]) == []


def test_redriving_what_is_parked_already_parks_it_once(ow: Onceward) -> None:
    """After a cursor was moved back, a message may be parked while its old letter is dead."""
    letter = bury(ow, "1", key="k")
    with ow.transaction() as tx:
        ow.retries.parked.park(tx, message("1", key="k"))
    assert ow.dead.redrive(letter, actor="me").ids == (letter,)
    assert ow.retries.parked.waiting("leads").messages == 1


def test_dropping_needs_a_reason_and_loses_nothing_but_the_work(ow: Onceward) -> None:
    """The letter stays to be read, with who gave it up and why; it cannot be redriven."""
    letter = bury(ow, "1")
    with pytest.raises(InvalidArgument, match="reason"):
        ow.dead.drop(letter, reason="  ", actor="me")
    assert ow.dead.drop(letter, reason="spam", actor="me")
    assert not ow.dead.drop(letter, reason="again", actor="you")
    shown = ow.dead.show(letter)
    assert (shown.state, shown.reason, shown.changed_by) == ("dropped", "spam", "me")
    assert shown.raw == message("1").raw
    assert ow.dead.redrive(letter, actor="me").ids == ()
    for call in (ow.dead.show, lambda id_: ow.dead.drop(id_, reason="x", actor="me")):
        with pytest.raises(DeadLetterMissing):
            call(9999)


def test_two_people_who_redrive_at_once_put_each_message_back_once(ow: Onceward) -> None:
    """The second redrive finds nothing left to do."""
    letters = [bury(ow, str(number), key=f"k{number % 3}") for number in range(30)]
    answers: list[Redriven] = []
    barrier = threading.Barrier(4)

    def press() -> None:
        barrier.wait()
        answers.append(ow.dead.redrive(letters, actor="me"))

    run_all([press] * 4)
    assert sorted(id_ for answer in answers for id_ in answer.ids) == letters
    assert ow.retries.parked.waiting("leads").messages == 30


def test_redriving_while_a_worker_parks_and_drains(ow: Onceward) -> None:
    """Every message ends up done once; no key ever has two heads, and no transaction fails."""
    for number in range(20):
        bury(ow, f"dead-{number}", key="k")
    done: list[str] = []

    def work() -> None:
        for number in range(40):
            with ow.transaction() as tx:
                ow.retries.parked.park(tx, message(f"new-{number}", key="k"))
            done.extend(drained(ow))

    def press() -> None:
        while ow.dead.redrive(DeadFilter(limit=1), actor="me").ids:
            pass

    run_all([work, press])
    while left := drained(ow):
        done.extend(left)
    assert sorted(done) == sorted(
        [f"dead-{n}" for n in range(20)] + [f"new-{n}" for n in range(40)]
    )
    assert [place for place in done if place.startswith("new")] == [f"new-{n}" for n in range(40)]


def test_what_is_no_longer_the_head_is_not_done_before_it(ow: Onceward) -> None:
    """A letter that was put back in front while its successor was at work comes first."""
    letter = bury(ow, "1", key="k")
    with ow.transaction() as tx:
        ow.retries.parked.park(tx, message("2", key="k"))
    (second,) = due(ow)
    ow.dead.redrive(letter, actor="me")
    with pytest.raises(Superseded), ow.transaction() as tx:
        ow.retries.parked.succeed(tx, second)
    assert [drained(ow), drained(ow), drained(ow)] == [["1"], ["2"], []]


def test_redriving_waits_for_a_transaction_that_parks_the_same_key(ow: Onceward) -> None:
    """What is parked and not yet committed has its place: there is one head, and no call fails."""
    letter = bury(ow, "1", key="k")
    parked, commit = threading.Event(), threading.Event()

    def work() -> None:
        with ow.transaction() as tx:
            ow.retries.parked.park(tx, message("2", key="k"), failure=BROKEN)
            parked.set()
            commit.wait()

    def press() -> None:
        parked.wait()
        assert ow.dead.redrive(letter, actor="me").ids == (letter,)

    def let_go() -> None:
        parked.wait()
        if isinstance(ow.store, PostgresStore):  # On SQLite it waits for its turn to write.
            wait_until_blocked(ow.store)
        commit.set()

    run_all([work, press, let_go])
    assert [each.message.position for each in due(ow)] == ["1"]
    assert ow.retries.parked.waiting("leads").messages == 2


def drained(ow: Onceward) -> list[str]:
    """Do the head, if there is one and nothing was put in front of it meanwhile."""
    heads = due(ow)
    assert len(heads) <= 1
    for head in heads:
        try:
            with ow.transaction() as tx:
                ow.retries.parked.succeed(tx, head)
        except Superseded:
            return drained(ow)
    return [head.message.position for head in heads]


def run_all(calls: list[Callable[[], None]]) -> None:
    """Run them at once, and raise what any of them raised."""
    with ThreadPoolExecutor(len(calls)) as pool:
        for future in [pool.submit(call) for call in calls]:
            future.result()


def test_redriving_joins_the_callers_transaction(ow: Onceward) -> None:
    """What the caller rolls back was not redriven."""
    letter = bury(ow, "1")
    with pytest.raises(ZeroDivisionError), ow.transaction():
        ow.dead.redrive(letter, actor="me")
        raise ZeroDivisionError
    assert ow.dead.show(letter).state == "dead"


@pytest.mark.parametrize("limit", [0, 10_001])
def test_limits_are_kept(ow: Onceward, limit: int) -> None:
    """No call reads or moves more than a known number of letters."""
    with pytest.raises(InvalidArgument, match="limit"):
        ow.dead.list(limit=limit)
    with pytest.raises(InvalidArgument, match="limit"):
        ow.dead.redrive(DeadFilter(limit=limit), actor="me")
