"""Parked keys against a model: any order of reading, trying, redriving, seeking and undoing."""

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from onceward.client import Onceward
from onceward.cursors import Lease
from onceward.cursors.models import CountBetween
from onceward.errors import Superseded
from onceward.retries import Dead, FixedDelays, Parked
from tests.conformance.test_cursors_operators import between
from tests.conformance.test_retries import BROKEN, StandingTime, message
from tests.support.parked_model import Letter, Row, Seek
from tests.support.proof_length import examples_for, run_machine
from tests.support.trigger_counts import assert_counts

SCHEDULE = FixedDelays(seconds=(60,))
RARELY = st.sampled_from([False, False, False, True])
COUNTED = st.sampled_from([True, True, True, False])
_cursors = itertools.count(1)


class Undone(Exception):
    """The caller's transaction fails after all."""


def text(place: int) -> str | None:
    return str(place) if place else None


def counter(wanted: bool) -> CountBetween | None:
    return between if wanted else None


def fail_if(wanted: bool) -> None:
    if wanted:
        raise Undone


class ParkedKeys(RuleBasedStateMachine):
    """A cursor's parked messages and dead letters, and what they should be."""

    ow: Onceward
    time: StandingTime
    #: What happened in all examples; a machine that did hardly anything proves nothing.
    counts: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.cursor = f"machine-{next(_cursors)}"
        self.now = 0.0
        self.lease: Lease | None = None
        #: How far the cursor has come; every number is a message.
        self.at = 0
        #: Where the last move has put it.
        self.moved_to = 0
        #: Key and order of each message that was ever read.
        self.known: dict[str, tuple[str, str]] = {}
        self.done: set[int] = set()
        self.seeks: list[Seek] = []
        #: Whether every move was counted.
        self.is_counted = True
        self.sequences = itertools.count(1)
        self.rows: dict[str, Row] = {}
        self.letters: dict[str, Letter] = {}
        #: Every handle ever read, stale or not, and which row it stood for.
        self.handles: list[tuple[Parked, Row]] = []

    def line(self, key: str) -> list[Row]:
        rows = [row for row in self.rows.values() if row.order == "key" and row.key == key]
        return sorted(rows, key=lambda row: row.sequence)

    def heads(self) -> list[Row]:
        alone = [row for row in self.rows.values() if row.order == "none"]
        lined = [self.line(key)[0] for key in "abc" if self.line(key)]
        due = [row for row in alone + lined if row.due is None or row.due < self.now]
        return sorted(due, key=lambda row: row.sequence)

    def due(self) -> list[Parked]:
        return self.ow.retries.parked.due_heads(self.cursor)

    @initialize(fails=st.integers(1, 3))
    def begin(self, fails: int) -> None:
        """Some messages of one key wait in line, so that there is something to do."""
        for _ in range(fails):
            self.arrive_now("a", "key", fails=True, undone=False)
        self.advance_now(61)

    @rule(
        key=st.sampled_from("aab"),
        order=st.sampled_from(["key", "key", "none"]),
        fails=st.sampled_from([True, True, False]),
        undone=RARELY,
    )
    def arrive(self, key: str, order: str, fails: bool, undone: bool) -> None:
        """A message comes; it is parked when it fails or when its key is blocked."""
        self.arrive_now(key, order, fails=fails, undone=undone)

    def arrive_now(self, key: str, order: str, *, fails: bool, undone: bool) -> None:
        position = str(self.at + 1)
        key, order = self.known.setdefault(position, (key, order))
        blocked = key in self.ow.retries.parked.blocked_keys(self.cursor, ["a", "b", "c"])
        assert blocked == bool(self.line(key))
        is_queued = order == "key" and blocked
        self.lease = self.lease or self.ow.cursors.acquire(self.cursor, "w")
        assert self.lease is not None
        try:
            with self.ow.transaction() as tx:
                if is_queued or fails:
                    self.ow.retries.parked.park(
                        tx,
                        message(position, key=key, cursor=self.cursor),
                        failure=None if is_queued else BROKEN,
                        order="key" if order == "key" else "none",
                        schedule=SCHEDULE,
                    )
                self.lease.checkpoint(position, tx=tx)
                fail_if(undone)
        except Undone:
            return
        self.at += 1
        if not (is_queued or fails):
            self.done.add(self.at)
            return
        self.counts["parked"] += 1
        due = None if is_queued else self.now + 60
        attempt = 0 if is_queued else 1
        row = Row(position, key, order, next(self.sequences), attempt, due)
        self.rows.setdefault(position, row)

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), succeeds=st.sampled_from([False, False, True]), undone=RARELY)
    def work(self, data: st.DataObject, succeeds: bool, undone: bool) -> None:
        """A worker waits for what is due and ends one attempt; the others it may end much later."""
        if not self.heads():
            self.advance_now(61)
        found = self.due()
        read = [(each, self.rows[each.message.position]) for each in found]
        self.handles += read
        self.act(*data.draw(st.sampled_from(read)), succeeds, undone)

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), succeeds=st.booleans(), undone=RARELY)
    def wake_up_late(self, data: st.DataObject, succeeds: bool, undone: bool) -> None:
        """A worker with a handle of any age, stale or not, ends its attempt."""
        index = data.draw(st.integers(0, len(self.handles) - 1))
        self.act(*self.handles[index], succeeds, undone)

    def act(self, handle: Parked, row: Row, succeeds: bool, undone: bool) -> None:
        position = handle.message.position
        is_current = self.rows.get(position) is row and row.attempt == handle.attempt
        # A letter may have been put back in front of it since it was read.
        is_current = is_current and (row.order == "none" or self.line(row.key)[0] is row)
        dead = None
        try:
            with self.ow.transaction() as tx:
                if succeeds:
                    self.ow.retries.parked.succeed(tx, handle)
                else:
                    answer = self.ow.retries.parked.fail(tx, handle, BROKEN, schedule=SCHEDULE)
                    dead = answer if isinstance(answer, Dead) else None
                fail_if(undone)
        except Superseded:
            assert not is_current
            self.counts["stale"] += 1
            return
        except Undone:
            assert is_current
            return
        assert is_current
        self.counts["succeeded" if succeeds else "failed"] += 1
        self.follow(row, succeeds, dead)

    def follow(self, row: Row, succeeds: bool, dead: Dead | None) -> None:
        if succeeds:
            del self.rows[row.position]
            self.done.add(int(row.position))
            return
        row.attempt += 1
        seconds = SCHEDULE.seconds[row.attempt - 1] if row.attempt <= 1 else None
        assert (dead is not None) == (seconds is None)
        if dead is None:
            row.due = self.now + (seconds or 0)
            return
        del self.rows[row.position]
        self.counts["died"] += 1
        letter = self.letters.setdefault(row.position, Letter(dead.letter, row))
        assert letter.id == dead.letter
        letter.row, letter.state = row, "dead"

    @rule(seconds=st.sampled_from([1, 60, 61]))
    def advance(self, seconds: int) -> None:
        """Time passes."""
        self.advance_now(seconds)

    def advance_now(self, seconds: int) -> None:
        self.time.advance(seconds=seconds)
        self.now += seconds

    @precondition(lambda self: self.letters)
    @rule(data=st.data(), drops=st.sampled_from([False, False, True]))
    def decide(self, data: st.DataObject, drops: bool) -> None:
        """A person redrives or drops a letter, in whatever state it is."""
        letter = self.letters[data.draw(st.sampled_from(sorted(self.letters)))]
        was_dead = letter.state == "dead"
        if drops:
            assert self.ow.dead.drop(letter.id, reason="model", actor="me") == was_dead
            letter.state = "dropped" if was_dead else letter.state
            return
        redriven = self.ow.dead.redrive(letter.id, actor="me")
        assert redriven.ids == ((letter.id,) if was_dead else ())
        if was_dead:
            self.counts["redriven"] += 1
            letter.state, letter.redrives = "redriven", letter.redrives + 1
            row = letter.row
            again = Row(row.position, row.key, row.order, row.sequence, 0, None, is_redriven=True)
            self.rows.setdefault(row.position, again)

    @rule(step=st.sampled_from([-1, -2, -4, -99, 3]), counts=COUNTED, dry=RARELY)
    def seek(self, step: int, counts: bool, dry: bool) -> None:
        """The cursor is moved, mostly back; what it will read again is forgotten."""
        target = max(0, self.at + step)
        gone, forgotten = self.gone(target, counts, list(self.rows.values()))
        move = self.ow.cursors.seek(
            self.cursor, text(target), "model", "me", dry_run=dry, count=counter(counts)
        )
        assert (move.discarded, move.restored) == (forgotten, 0)
        if dry:
            return
        self.settle(counts)
        self.seeks.append(Seek(self.at, gone, set(range(self.at + 1, target + 1))))
        self.moved(target, gone, counts)
        self.counts["forgotten"] += len(gone)

    @precondition(lambda self: self.seeks)
    @rule(counts=COUNTED, dry=RARELY)
    def undo(self, counts: bool, dry: bool) -> None:
        """The last seek is undone; what it had forgotten comes back, unless it was read since."""
        seek = self.seeks[-1]
        back = self.unread(seek.kept, counts)
        present = list(self.rows.values())
        gone, forgotten = self.gone(seek.origin, counts, present)
        passing, _ = self.gone(seek.origin, counts, back)
        count = counter(counts)
        move = self.ow.cursors.undo(self.cursor, "me", dry_run=dry, count=count)
        assert (move.discarded, move.restored) == (forgotten, len(back) - len(passing))
        if dry:
            return
        self.seeks.pop()
        self.settle(counts)
        # Copies: a worker that read one of them before the seek has a stale handle.
        restored = [replace(row) for row in back]
        self.rows |= {row.position: row for row in restored}
        gone += [row for row in restored if row.position in {each.position for each in passing}]
        if self.seeks:
            self.seeks[-1].kept += gone
        at = self.at
        self.moved(seek.origin, gone, counts)
        self.line_up(at, [row for row in restored if row.position in self.rows], counts)
        self.counts["restored"] += move.restored

    def gone(self, target: int, counts: bool, rows: list[Row]) -> tuple[list[Row], int | None]:
        """What of these a move forgets, and what it says about it."""
        if target == 0:
            return rows, len(rows)
        if not counts:
            return [], None if rows else 0
        gone = [row for row in rows if int(row.position) > target]
        return gone, len(gone)

    def has_passed(self, row: Row, counts: bool) -> bool:
        place = int(row.position)
        return place <= self.at if counts else place == self.at

    def unread(self, kept: list[Row], counts: bool) -> list[Row]:
        """What was discarded and has had no outcome since, as far as is known."""
        found: dict[str, Row] = {}
        for row in kept:
            if not (row.position in self.rows or self.has_passed(row, counts)):
                found.setdefault(row.position, row)
        return list(found.values())

    def settle(self, counts: bool) -> None:
        """What was read since has an outcome of its own, whichever seek had forgotten it."""

        def has_read(row: Row) -> bool:
            place = int(row.position)
            if self.at == self.moved_to:
                return False
            return self.moved_to < place <= self.at if counts else self.has_passed(row, counts)

        for seek in self.seeks:
            seek.kept = [row for row in seek.kept if not has_read(row)]

    def moved(self, target: int, gone: list[Row], counts: bool) -> None:
        for row in gone:
            del self.rows[row.position]
        self.at, self.moved_to, self.lease = target, target, None
        self.is_counted = self.is_counted and counts

    def line_up(self, at: int, restored: list[Row], counts: bool) -> None:
        """Give what stands in the wrong place, and all after it, a new one at the end."""
        places = {row.position for row in restored}

        def place(row: Row) -> tuple[int, int]:
            if counts:
                return max(0, int(row.position) - at), row.sequence
            return int(row.position in places), row.sequence

        for key in sorted({row.key for row in restored if row.order == "key"}):
            line = sorted(self.line(key), key=place)
            is_late = False
            for before, row in zip([None, *line], line, strict=False):
                is_late = is_late or (before is not None and row.sequence < before.sequence)
                row.sequence = next(self.sequences) if is_late else row.sequence

    @invariant()
    def due_heads_are_those_of_the_model(self) -> None:
        found = [(each.message.position, each.attempt) for each in self.due()]
        assert found == [(row.position, row.attempt) for row in self.heads()]

    @invariant()
    def nothing_is_lost(self) -> None:
        found = [row[0] for row in self.ow.store.read("parked_list", cursor=self.cursor)]
        rows = sorted(self.rows.values(), key=lambda row: row.sequence)
        assert found == [row.position for row in rows]
        letters = {
            each.position: (each.state, each.redrive_count)
            for each in self.ow.dead.list(cursor=self.cursor, state=None)
        }
        assert letters == {
            position: (letter.state, letter.redrives) for position, letter in self.letters.items()
        }
        given_up = {int(at) for at, each in self.letters.items() if each.state != "redriven"}
        skipped = set().union(*(seek.skipped for seek in self.seeks))
        safe = self.done | {int(at) for at in self.rows} | given_up | skipped
        assert set(range(1, self.at + 1)) <= safe

    @invariant()
    def counts_are_kept_right(self) -> None:
        assert_counts(self.ow)

    @invariant()
    def a_key_keeps_the_order_of_its_messages(self) -> None:
        for key in "ab":
            line = self.line(key)
            if self.is_counted and not any(row.is_redriven for row in line):
                assert line == sorted(line, key=lambda row: int(row.position))


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_parked_keys_follow_the_model(ow: Onceward, prove: bool, soak: bool) -> None:
    """Whatever is called in whatever order, stale handles too, each key has one line."""
    examples = examples_for(ow, prove=prove, soak=soak, short=100)
    time = StandingTime(ow)
    counts: Counter[str] = Counter()
    machine = type("Machine", (ParkedKeys,), {"ow": ow, "time": time, "counts": counts})
    events = ("succeeded", "failed", "died", "redriven", "stale", "forgotten", "restored")
    run_machine(machine, examples=examples, steps=20, counts=counts, must_reach=events)
