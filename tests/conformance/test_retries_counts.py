"""Moves and their count: without one nothing is lost, and none is asked under a lock."""

import itertools

import pytest

from onceward.client import Onceward
from onceward.cursors import cursors
from onceward.errors import StoreBusy
from tests.conformance.test_cursors_operators import between
from tests.conformance.test_retries import message
from tests.conformance.test_retries_moves import counted, hold, kept, line, park, read, waiting


def test_a_move_to_the_start_needs_no_count(ow: Onceward) -> None:
    """Everything will be read again."""
    park(ow, "1", "2")
    hold(ow, "3")
    assert counted(ow.cursors.seek("leads", None, "why", "ana")) == (3, 0)
    assert waiting(ow) == set()


def test_without_a_count_what_is_parked_stays_and_the_move_says_so(ow: Onceward) -> None:
    """It is unknown what will be read again, and nothing may be lost."""
    read(ow, "1")
    assert counted(ow.cursors.seek("leads", "0", "why", "ana", dry_run=True)) == (0, 0)
    park(ow, "2", "3")
    assert counted(ow.cursors.seek("leads", "1", "why", "ana", dry_run=True)) == (None, 0)
    assert counted(ow.cursors.seek("leads", "1", "why", "ana")) == (None, 0)
    assert counted(ow.cursors.undo("leads", "ana")) == (None, 0)
    assert line(ow) == ["2", "3"]


def test_an_undo_that_goes_back_to_the_start_forgets_everything(ow: Onceward) -> None:
    """Also without a count."""
    lease = ow.cursors.acquire("leads", "w")
    assert lease is not None
    lease.release()
    ow.cursors.seek("leads", "10", "skip these", "ana")
    park(ow, "11")
    assert counted(ow.cursors.undo("leads", "ana")) == (1, 0)
    assert (waiting(ow), kept(ow)) == (set(), 0)


def test_without_a_count_an_undo_brings_back_all_when_nothing_was_read(ow: Onceward) -> None:
    """The cursor is still at the start."""
    park(ow, "1", failed=True)
    park(ow, "2")
    ow.cursors.seek("leads", None, "why", "ana")
    assert counted(ow.cursors.undo("leads", "ana", dry_run=True)) == (0, 2)
    assert counted(ow.cursors.undo("leads", "ana")) == (0, 2)
    assert line(ow) == ["1", "2"]


def test_without_a_count_an_undo_loses_nothing_and_may_repeat(ow: Onceward) -> None:
    """Messages parked again were read again; the rest is unknown, so it comes back at the end."""
    park(ow, "1", "2", "3", "4", key="a", failed=True)
    park(ow, "5", "6", key="b")
    read(ow, "7")
    ow.cursors.seek("leads", None, "why", "ana")
    read(ow, "1")
    park(ow, "2", key="a", failed=True)
    assert counted(ow.cursors.undo("leads", "ana")) == (None, 5)
    assert (line(ow, "a"), line(ow, "b")) == (["2", "1", "3", "4"], ["5", "6"])
    assert kept(ow) == 0


def test_without_a_count_what_is_parked_again_does_not_come_back(ow: Onceward) -> None:
    """Also where no key says what was read before it."""
    park(ow, "1", "2", key=None, failed=True)
    hold(ow, "3")
    ow.cursors.seek("leads", None, "why", "ana")
    park(ow, "1", key=None)
    read(ow, "2")
    hold(ow, "3")
    assert counted(ow.cursors.undo("leads", "ana")) == (None, 0)
    assert (waiting(ow), kept(ow)) == ({"1"}, 0)


def test_a_count_may_ask_the_store(ow: Onceward) -> None:
    """A source may keep its messages in the same database."""
    with ow.transaction() as tx:
        tx.execute("create table source (place bigint)")
        for place in range(1, 4):
            tx.execute("insert into source values (?)", [place])
    asked: list[tuple[str | None, str | None]] = []

    def count(start: str | None, end: str | None) -> int:
        asked.append((start, end))
        with ow.transaction() as tx:
            places = [int(start or 0), int(end or 0)]
            sql = "select count(*) from source where place > ? and place <= ?"
            return int(tx.execute(sql, places)[0][0])

    park(ow, "1", "2", "3")
    assert counted(ow.cursors.seek("leads", "1", "why", "ana", count=count)) == (2, 0)
    assert len(asked) == len(set(asked))
    assert counted(ow.cursors.undo("leads", "ana", count=count)) == (0, 2)
    assert line(ow) == ["1", "2", "3"]


def test_what_is_parked_while_a_move_is_thought_through_follows_it_too(ow: Onceward) -> None:
    """It is counted as well, and never under a lock: the function may be slow, or write."""
    park(ow, "1", "2")
    arriving = ["3", "4"]

    def count(start: str | None, end: str | None) -> int:
        if arriving:
            park(ow, arriving.pop(0))
        return between(start, end)

    assert counted(ow.cursors.seek("leads", "1", "why", "ana", count=count)) == (3, 0)
    assert line(ow) == ["1"]
    arriving += ["2", "3"]
    assert counted(ow.cursors.undo("leads", "ana", count=count)) == (0, 1)
    assert line(ow) == ["1", "2", "3", "4"]
    assert len(ow.cursors.history("leads")) == 2


def test_a_move_gives_up_on_a_worker_that_is_faster_than_its_count(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a pause the cursor can be moved; until then nothing is changed."""
    monkeypatch.setattr(cursors, "MOVE_TRIES_MAX", 5)
    park(ow, "1")
    arriving = itertools.count(2)

    def count(start: str | None, end: str | None) -> int:
        park(ow, str(next(arriving)))
        return between(start, end)

    with pytest.raises(StoreBusy, match="moved .* while its messages were counted") as refused:
        ow.cursors.seek("leads", "0", "why", "ana", count=count)
    assert "pause" in refused.value.fix
    assert ow.cursors.history("leads") == ()
    assert len(line(ow)) > 1


def test_a_move_in_a_transaction_of_the_users_changes_the_cursor_once(ow: Onceward) -> None:
    """Also where it has to be thought through again, in the same transaction."""
    park(ow, "1", "2")
    arriving = ["3"]

    def count(start: str | None, end: str | None) -> int:
        while arriving:
            with ow.transaction() as tx:
                ow.retries.parked.park(tx, message(arriving.pop(), key="k"))
        return between(start, end)

    with ow.transaction():
        assert counted(ow.cursors.seek("leads", "1", "why", "ana", count=count)) == (2, 0)
    (entry,) = ow.cursors.history("leads")
    assert (entry.kind, entry.epoch, ow.cursors.show("leads").epoch) == ("seek", 2, 2)
    assert line(ow) == ["1"]
