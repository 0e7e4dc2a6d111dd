"""Parked keys against a model: any order of parking, trying, failing, redriving and forgetting."""

import itertools
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.conformance.test_retries import BROKEN, StandingTime, message

from onceward.errors import Superseded
from onceward.handle import Onceward
from onceward.retries import Dead, Parked, Steps

SCHEDULE = Steps(seconds=(60,))
RARELY = st.sampled_from([False, False, False, True])
_cursors = itertools.count(1)


@dataclass
class Row:
    """What the model knows of a parked message."""

    position: str
    key: str
    order: str
    sequence: int
    attempt: int
    due: float | None


@dataclass
class Letter:
    """What the model knows of a dead letter."""

    id: int
    row: Row
    state: str = "dead"
    redrives: int = 0


class Undone(Exception):
    """The caller's transaction fails after all."""


def undo(wanted: bool) -> None:
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
        self.positions = itertools.count(1)
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
        blocked = key in self.ow.retries.parked.blocked_keys(self.cursor, ["a", "b", "c"])
        assert blocked == bool(self.line(key))
        behind = order == "key" and blocked
        if not (behind or fails):
            return
        position = str(next(self.positions))
        try:
            with self.ow.transaction() as tx:
                self.ow.retries.parked.park(
                    tx,
                    message(position, key=key, cursor=self.cursor),
                    failure=None if behind else BROKEN,
                    order="key" if order == "key" else "none",
                    schedule=SCHEDULE,
                )
                undo(undone)
        except Undone:
            return
        self.counts["parked"] += 1
        due = None if behind else self.now + 60
        attempt = 0 if behind else 1
        self.rows[position] = Row(position, key, order, next(self.sequences), attempt, due)

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
        """Whoever holds a handle of any age, stale or not, ends its attempt."""
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
                undo(undone)
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
            again = Row(row.position, row.key, row.order, row.sequence, 0, None)
            self.rows[row.position] = again

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def seek_back(self, data: st.DataObject) -> None:
        """The cursor is moved back; what waits at or after the target is forgotten."""
        newest = max(map(int, self.rows))
        place = data.draw(st.integers(max(1, newest - 2), newest + 1))
        with self.ow.transaction() as tx:
            count = self.ow.retries.forget_from(tx, self.cursor, lambda at: int(at) >= place)
        gone = [position for position in self.rows if int(position) >= place]
        assert count == len(gone)
        for position in gone:
            del self.rows[position]

    @invariant()
    def due_heads_are_those_of_the_model(self) -> None:
        found = [(each.message.position, each.attempt) for each in self.due()]
        assert found == [(row.position, row.attempt) for row in self.heads()]

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.ow.retries.parked.waiting(self.cursor).messages == len(self.rows)
        letters = {
            each.position: (each.state, each.redrive_count)
            for each in self.ow.dead.list(cursor=self.cursor, state=None)
        }
        assert letters == {
            position: (letter.state, letter.redrives) for position, letter in self.letters.items()
        }


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_parked_keys_follow_the_model(ow: Onceward, prove: bool) -> None:
    """Whatever is called in whatever order, stale handles too, each key has one line."""
    examples = (20_000 if ow.store.engine == "sqlite" else 1_000) if prove else 300
    time = StandingTime(ow)
    counts: Counter[str] = Counter()
    machine = type("Machine", (ParkedKeys,), {"ow": ow, "time": time, "counts": counts})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    for what in ("succeeded", "failed", "died", "redriven", "stale"):
        assert counts[what] >= examples // 30, counts
