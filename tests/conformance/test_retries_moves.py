"""What waits beside a cursor follows its moves: a seek forgets, its undoing brings back."""

import pytest

from onceward.client import Onceward
from onceward.cursors import Move
from onceward.errors import Superseded
from onceward.retries import Dead, FixedDelays, Parked
from onceward.testing.moving_time import MovingTime
from tests.conformance.test_cursors_operators import between
from tests.conformance.test_retries import BROKEN, message


def read(ow: Onceward, *positions: str) -> None:
    """The cursor passes these; they are done."""
    lease = ow.cursors.acquire("leads", "w")
    assert lease is not None
    for position in positions:
        lease.checkpoint(position)
    lease.release()


def park(ow: Onceward, *positions: str, key: str | None = "k", failed: bool = False) -> None:
    """The cursor passes these; they wait."""
    lease = ow.cursors.acquire("leads", "w")
    assert lease is not None
    for position in positions:
        with ow.transaction() as tx:
            failure = BROKEN if failed else None
            ow.retries.parked.park(tx, message(position, key=key), failure=failure)
            lease.checkpoint(position, tx=tx)
    lease.release()


def hold(ow: Onceward, *positions: str) -> None:
    for position in positions:
        with ow.transaction() as tx:
            ow.retries.attempts.fail(tx, message(position), BROKEN)


def move(ow: Onceward, position: str) -> None:
    lease = ow.cursors.acquire("leads", "w")
    assert lease is not None
    lease.checkpoint(position)
    lease.release()


def bury(ow: Onceward, position: str, key: str = "k") -> int:
    """A dead letter that had a place in its key's line."""
    with ow.transaction() as tx:
        return ow.dead.add(tx, message(position, key=key), BROKEN, order="key")


def seek(ow: Onceward, position: str | None) -> Move:
    return ow.cursors.seek("leads", position, "why", "ana", count=between)


def undo(ow: Onceward) -> Move:
    return ow.cursors.undo("leads", "ana", count=between)


def counted(move: Move) -> tuple[int | None, int]:
    return move.discarded, move.restored


def head(ow: Onceward) -> Parked:
    (found,) = ow.retries.parked.due_heads("leads")
    return found


def line(ow: Onceward, key: str = "k") -> list[str]:
    """What waits for a key, in the order in which it would be tried; nothing stays of it."""
    order = []
    with pytest.raises(ZeroDivisionError), ow.transaction() as tx:
        boot = ", due_boot = null" if ow.store.engine == "sqlite" else ""
        tx.execute(f"update onceward_parked set due_at = null{boot}")
        while True:
            heads = [
                each
                for each in ow.retries.parked.due_heads("leads")
                if each.message.key == key and each.order == "key"
            ]
            if not heads:
                break
            (first,) = heads
            order.append(first.message.position)
            ow.retries.parked.succeed(tx, first)
        raise ZeroDivisionError
    return order


def waiting(ow: Onceward) -> set[str]:
    with ow.transaction() as tx:
        return {row[0] for row in tx.query("parked_list", cursor="leads")}


def kept(ow: Onceward) -> int:
    """How many forgotten messages the store still knows."""
    with ow.transaction() as tx:
        return int(tx.execute("select count(*) from onceward_discarded")[0][0])


def test_a_seek_forgets_what_the_cursor_will_read_again(ow: Onceward) -> None:
    """What waits after the target goes with it; the rest stays, with a head for every key."""
    park(ow, "1", "2", key="a")
    park(ow, "10", "30", key="b")
    hold(ow, "5", "40")
    tried = ow.cursors.seek("leads", "5", "why", "ana", count=between, dry_run=True)
    assert (counted(tried), waiting(ow)) == ((4, 0), {"1", "2", "10", "30"})
    assert counted(seek(ow, "5")) == (4, 0)
    assert (line(ow, "a"), line(ow, "b")) == (["1", "2"], [])
    assert ow.retries.attempts.positions("leads") == frozenset()
    park(ow, "10", key="b")
    assert (line(ow, "a"), line(ow, "b")) == (["1", "2"], ["10"])


def test_forgetting_a_head_frees_the_next_of_its_key(ow: Onceward) -> None:
    """When positions are not in the order of parking, a line may lose its head."""
    park(ow, "20", failed=True)
    park(ow, "3")
    assert counted(seek(ow, "10")) == (1, 0)
    assert line(ow) == ["3"]


def test_a_move_past_a_message_that_holds_its_cursor_forgets_its_attempts(ow: Onceward) -> None:
    """It will not be tried, so it is not shown as waiting, even without a count."""
    move(ow, "4")
    hold(ow, "5")
    assert counted(ow.cursors.seek("leads", "5", "skip it", "ana")) == (1, 0)
    assert ow.retries.attempts.positions("leads") == frozenset()


def test_a_move_ahead_leaves_everything_where_it_is(ow: Onceward) -> None:
    """What was skipped is not tried; what waits still is."""
    park(ow, "1", "2")
    assert counted(seek(ow, "50")) == (0, 0)
    assert counted(undo(ow)) == (0, 0)
    assert line(ow) == ["1", "2"]


def test_an_undo_brings_back_what_its_seek_had_forgotten(ow: Onceward, ow_time: MovingTime) -> None:
    """As it was: bytes, attempts, due time and place in line; only old handles are of no use."""
    park(ow, "1", failed=True)
    park(ow, "2", "3")
    park(ow, "4", key=None, failed=True)
    hold(ow, "5")
    ow_time.advance(seconds=61)
    before = ow.retries.parked.due_heads("leads")
    attempt = ow.retries.attempts.find("leads", "5")
    assert attempt is not None
    assert counted(seek(ow, "0")) == (5, 0)
    assert waiting(ow) == set()
    tried = ow.cursors.undo("leads", "ana", count=between, dry_run=True)
    assert (counted(tried), waiting(ow)) == ((0, 5), set())
    assert counted(undo(ow)) == (0, 5)
    after = ow.retries.parked.due_heads("leads")
    assert [(each.message, each.attempt, each.failures, each.due_at) for each in after] == [
        (each.message, each.attempt, each.failures, each.due_at) for each in before
    ]
    assert [(each.sequence, each.parked_at) for each in after] == [
        (each.sequence, each.parked_at) for each in before
    ]
    found = ow.retries.attempts.find("leads", "5")
    assert found is not None
    assert (found.attempt, found.due_at, found.failures) == (1, attempt.due_at, attempt.failures)
    assert line(ow) == ["1", "2", "3"]
    assert kept(ow) == 0
    with pytest.raises(Superseded), ow.transaction() as tx:
        ow.retries.parked.succeed(tx, before[0])


def test_what_was_read_since_the_seek_has_an_outcome_of_its_own(ow: Onceward) -> None:
    """Done or parked again, it does not come back a second time."""
    park(ow, "1", "2", "3", key=None, failed=True)
    park(ow, "4", key=None, failed=True)
    seek(ow, "0")
    read(ow, "1")
    park(ow, "2", key=None)
    assert counted(undo(ow)) == (0, 2)
    assert waiting(ow) == {"2", "3", "4"}
    assert head(ow).message.position == "2"
    assert kept(ow) == 0


def test_what_comes_back_is_placed_after_what_was_read_since(ow: Onceward) -> None:
    """A key keeps the order of its messages, although the earlier one was parked later."""
    read(ow, "6")
    park(ow, "8", failed=True)
    park(ow, "9")
    seek(ow, "5")
    park(ow, "6")
    assert counted(undo(ow)) == (0, 2)
    assert line(ow) == ["6", "8", "9"]


def test_a_letter_that_was_redriven_in_between_keeps_its_place(ow: Onceward) -> None:
    """It stands after what comes back, if it did before, and before what it did not."""
    park(ow, "7")
    park(ow, "8")
    letter = bury(ow, "9")
    park(ow, "10")
    seek(ow, "5")
    read(ow, "6")
    ow.dead.redrive(letter, actor="ana")
    park(ow, "7")
    assert line(ow) == ["9", "7"]
    assert counted(undo(ow)) == (0, 2)
    assert line(ow) == ["7", "8", "9", "10"]


def test_a_letter_has_the_place_that_its_message_had_when_it_died(ow: Onceward) -> None:
    """Not the one it had when a worker read it, which an undo may have changed since."""
    park(ow, "8")
    letters = [bury(ow, "9")]
    read(ow, "10")
    seek(ow, "5")
    ow.dead.redrive(letters[0], actor="ana")
    ninth = head(ow)
    park(ow, "6")
    undo(ow)
    assert line(ow) == ["6", "8", "9"]
    with ow.transaction() as tx:
        ow.retries.parked.succeed(tx, head(ow))
    eighth = head(ow)
    for dying in (eighth, ninth):
        with ow.transaction() as tx:
            dead = ow.retries.parked.fail(tx, dying, BROKEN, schedule=FixedDelays(seconds=()))
        assert isinstance(dead, Dead)
        letters.append(dead.letter)
    ow.dead.redrive(letters, actor="ana")
    assert line(ow) == ["8", "9"]


def test_an_undo_is_a_move_and_forgets_too(ow: Onceward) -> None:
    """The cursor had gone further than where it returns to; it will read that again."""
    park(ow, "1", "2")
    seek(ow, "0")
    park(ow, "1", "2", "3", "4")
    hold(ow, "5")
    assert counted(undo(ow)) == (3, 0)
    assert (line(ow), kept(ow)) == (["1", "2"], 0)


def test_seeks_are_undone_one_after_the_other(ow: Onceward) -> None:
    """Each undo brings back what its own seek had forgotten."""
    park(ow, "1", "2", "3", "4")
    assert counted(seek(ow, "2")) == (2, 0)
    assert counted(seek(ow, "0")) == (2, 0)
    assert counted(undo(ow)) == (0, 2)
    assert line(ow) == ["1", "2"]
    assert counted(undo(ow)) == (0, 2)
    assert (line(ow), kept(ow)) == (["1", "2", "3", "4"], 0)


def test_what_an_undo_forgets_is_not_lost_to_the_undo_after_it(ow: Onceward) -> None:
    """It would have been read again, but the second undo passes over it."""
    letter = bury(ow, "8")
    read(ow, "10")
    seek(ow, "5")
    seek(ow, "4")
    ow.dead.redrive(letter, actor="ana")
    assert counted(undo(ow)) == (1, 0)
    assert waiting(ow) == set()
    assert counted(undo(ow)) == (0, 1)
    assert (line(ow), kept(ow)) == (["8"], 0)


def test_what_comes_back_before_its_time_is_kept_for_the_undo_after_it(ow: Onceward) -> None:
    """It lies ahead of where the first undo returns to, and after where the second does."""
    letter = bury(ow, "8")
    read(ow, "10")
    seek(ow, "5")
    ow.dead.redrive(letter, actor="ana")
    assert counted(seek(ow, "4")) == (1, 0)
    assert counted(undo(ow)) == (0, 0)
    assert waiting(ow) == set()
    assert counted(undo(ow)) == (0, 1)
    assert (line(ow), kept(ow)) == (["8"], 0)


def test_what_was_read_between_two_moves_that_are_undone_is_as_it_was_last(ow: Onceward) -> None:
    """What the latest reading came to counts; it is neither lost nor doubled in the line."""
    park(ow, "22", "24", failed=True)
    read(ow, "30")
    seek(ow, "5")
    seek(ow, "20")
    park(ow, "22", "24")
    assert counted(undo(ow)) == (2, 0)
    assert counted(undo(ow)) == (0, 2)
    assert (line(ow), kept(ow)) == (["22", "24"], 0)
    assert [each.message.position for each in ow.retries.parked.due_heads("leads")] == ["22"]


def test_what_was_done_between_two_moves_that_are_undone_stays_done(ow: Onceward) -> None:
    """The first undo passes over it, so the second does not bring it back."""
    park(ow, "8", failed=True)
    read(ow, "10")
    seek(ow, "5")
    seek(ow, "2")
    read(ow, "9")
    assert counted(undo(ow)) == (0, 0)
    assert counted(undo(ow)) == (0, 0)
    assert (waiting(ow), kept(ow)) == (set(), 0)


def test_a_message_that_the_source_no_longer_has_comes_back(ow: Onceward) -> None:
    """A count over it finds nothing; that it was read again is another matter."""
    park(ow, "6", failed=True)
    seek(ow, "5")
    present = {"1", "2", "3", "4", "5"}

    def count(start: str | None, end: str | None) -> int:
        return sum(int(start or 0) < int(each) <= int(end or 0) for each in present)

    assert counted(ow.cursors.undo("leads", "ana", count=count)) == (0, 1)
    assert line(ow) == ["6"]


def test_a_move_and_what_follows_it_happen_together_or_not_at_all(ow: Onceward) -> None:
    """A transaction of the user's that fails undoes both."""
    park(ow, "1", "2")
    with pytest.raises(ZeroDivisionError), ow.transaction():
        assert counted(seek(ow, "0")) == (2, 0)
        assert waiting(ow) == set()
        raise ZeroDivisionError
    assert (line(ow), kept(ow), ow.cursors.show("leads").position) == (["1", "2"], 0, "2")
    seek(ow, "0")
    with pytest.raises(ZeroDivisionError), ow.transaction():
        assert counted(undo(ow)) == (0, 2)
        raise ZeroDivisionError
    assert (line(ow), kept(ow), ow.cursors.show("leads").position) == ([], 2, "0")


def test_what_was_read_again_is_not_kept_for_ever(ow: Onceward) -> None:
    """Repeated seeks keep only what an undo could still bring back."""
    park(ow, "1", "2", "9")
    seek(ow, "0")
    assert kept(ow) == 3
    for _ in range(3):
        read(ow, "2")
        seek(ow, "0")
        assert kept(ow) == 1
