"""Parked lines: what may change from one commit to the next, message by message.

A message lies ahead of its cursor, or was passed and is done, waits in a line, or has a letter. It
is done only while it lies ahead or waits, and only by that is it done with; so nothing is done
twice, and nothing is gone, at no moment.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from onceward.workers.models import POISON_DEATHS
from tests.proof.simulation.scheduler import Simulation
from tests.proof.simulation.simulated_stores import SimulatedStores

CURSOR: Final = "c"
#: What may be said of a message: what handlers raise here, and what they die of.
OWN_ERRORS: Final = frozenset({"Garbled", "PoisonMessage", "Reject", "ValueError", "WorkerDied"})
_ERROR: Final = re.compile(r'"error":\s*"(\w+)')
_LOOK: Final = """
select 'cursor', last_position, lease_owner, steal_count, null
  from cursor_positions where cursor_name = 'c'
union all select 'parked', position, attempt, due_seconds, failures
  from onceward_parked where cursor_name = 'c'
union all select 'held', position, attempt, due_seconds, failures
  from onceward_attempts where cursor_name = 'c'
union all select 'letter', position, state, attempt_count, error_type
  from onceward_dead where cursor_name = 'c'
union all select 'effect', id, number, attempt, null from effects where id > ?
union all select 'move', id, kind, to_position, null
  from cursor_history where id > ? and kind in ('seek', 'undo')
"""


class Waits(NamedTuple):
    """A message that failed, or waits for one that did."""

    attempt: int
    #: When it is tried next; None for at once.
    due: float | None
    #: What went wrong, as it is stored.
    failures: str


class Letter(NamedTuple):
    """A message that was given up."""

    state: str
    attempts: int
    error: str


@dataclass
class Look:
    """The store at one moment."""

    position: int = 0
    owner: str | None = None
    steals: int = 0
    parked: dict[int, Waits] = field(default_factory=dict)
    held: dict[int, Waits] = field(default_factory=dict)
    letters: dict[int, Letter] = field(default_factory=dict)
    #: What is new: numbers that were done, and moves by hand.
    done: list[int] = field(default_factory=list)
    moves: list[tuple[str, int]] = field(default_factory=list)


class Seek(NamedTuple):
    """What a seek that can be undone found."""

    parked: frozenset[int]
    skipped: frozenset[int]


class Lines:
    """The messages of one cursor, as the last commit left them."""

    def __init__(
        self,
        simulation: Simulation,
        stores: SimulatedStores,
        *,
        keys: list[str | None],
        order: str,
        retries: int,
    ) -> None:
        self._simulation, self._stores = simulation, stores
        self._keys, self._order, self._retries = keys, order, retries
        self.now = Look()
        #: How often each was done.
        self.effects: Counter[int] = Counter()
        self.lost = self.doubled = 0
        self._effect = self._move = 0
        self._rows: list[tuple[Any, ...]] = []
        self._seeks: list[Seek] = []
        #: Passed over by a seek, because an operator wanted it so.
        self._skipped: frozenset[int] = frozenset()
        #: Redriven while they lay ahead: a person asked for them twice.
        self._odd: set[int] = set()

    @property
    def is_drained(self) -> bool:
        """Say whether there is nothing left to do."""
        now = self.now
        return now.position == len(self._keys) and not now.parked and not now.held

    def look(self) -> None:
        """See what a commit has changed, and refuse what must not be."""
        rows = self._stores.rows(_LOOK, self._effect, self._move)
        if rows == self._rows:
            return  # It was about something else, such as a renewal.
        self._rows = rows
        before, self.now = self.now, self._read(rows)
        self._odd |= {each for each in self.now.parked if each > self.now.position}
        if self.now.moves:
            self._check_move(before, self.now)
        else:
            self._check_work(before, self.now)
        self.effects.update(self.now.done)
        self._check_letters(before, self.now)
        self._check_all(self.now)

    def _read(self, rows: list[tuple[Any, ...]]) -> Look:
        look = Look()
        for what, first, second, third, fourth in rows:
            if what == "cursor":
                look.position, look.owner, look.steals = int(first or 0), second, third
            elif what == "parked":
                look.parked[int(first)] = Waits(second, third, fourth)
            elif what == "held":
                look.held[int(first)] = Waits(second, third, fourth)
            elif what == "letter":
                look.letters[int(first)] = Letter(second, third, fourth)
            elif what == "effect":
                self._effect = first
                look.done.append(second)
            else:
                self._move = first
                look.moves.append((second, int(third or 0)))
        return look

    # --- moves by hand ------------------------------------------------------------------------

    def _check_move(self, before: Look, after: Look) -> None:
        ((kind, target),) = after.moves
        assert not after.done, f"{after.done} done by a {kind}"
        assert after.position == target, f"{kind} to {target} ended at {after.position}"
        gone = {each for each in before.parked if each not in after.parked}
        self._lose({each for each in gone if each <= target}, f"taken out of line by a {kind}")
        came = {each for each in after.parked if each not in before.parked}
        if gone:
            self._simulation.sometimes("a move forgot what was parked")
        if kind == "seek":
            assert not came, f"a seek parked {came}"
            self._seeks.append(Seek(frozenset(before.parked), self._skipped))
            self._skipped |= set(range(before.position + 1, target + 1))
        else:
            seek = self._seeks.pop()
            self._skipped = seek.skipped
            # What had waited and was not read since waits again.
            unread = {each for each in seek.parked if before.position < each <= target}
            self._lose(
                unread - set(after.parked) - self._odd, "forgotten by a seek and its undoing"
            )
            if came:
                self._simulation.sometimes("an undo brought back what a seek had forgotten")
        self._skipped = frozenset(each for each in self._skipped if each <= target)

    # --- work ---------------------------------------------------------------------------------

    def _check_work(self, before: Look, after: Look) -> None:
        assert after.position >= before.position, f"fell to {after.position} by itself"
        passed = set(range(before.position + 1, after.position + 1))
        left = {each for each in before.parked if each not in after.parked}
        came = {each for each in after.parked if each not in before.parked}
        done = Counter(after.done)
        dead = {each for each, letter in after.letters.items() if letter.state == "dead"}
        self._lose(passed - set(done) - came - dead - self._odd, "passed and nowhere")
        self._lose(left - set(done) - dead, "out of its line and nowhere")
        twice = {each for each in done if each not in passed | left or done[each] > 1}
        # Done and still in line, or in line without having been passed: it would be done again.
        twice |= passed & set(done) & set(after.parked)
        redriven = {each for each in came if self._state(after, each) == "redriven"}
        twice |= came - passed - redriven
        self.doubled += len(twice - self._odd)
        assert not twice - self._odd, f"{sorted(twice)} done twice, or about to be"
        for each in done:
            self._check_turn(before, each, is_parked=each in left)
        self._note_work(before, after, came)

    def _check_turn(self, before: Look, number: int, *, is_parked: bool) -> None:
        """See that it was due, and that no other of its key had to be done before it."""
        waits = before.parked.get(number) if is_parked else before.held.get(number)
        if waits is not None:
            is_due = waits.due is None or waits.due <= self._simulation.now
            assert is_due, f"{number} tried at {self._simulation.now}, due at {waits.due}"
            self._simulation.sometimes(
                "a parked message was done at last"
                if is_parked
                else "a message held its cursor, and was done at last"
            )
        is_back = self._state(before, number) == "redriven"
        if is_parked and is_back:
            self._simulation.sometimes("a redriven message was done")
        key = self._keys[number - 1]
        if self._order != "key" or key is None or is_back or number in self._odd:
            return
        for other in before.parked:
            if other == number or self._keys[other - 1] != key:
                continue
            is_free = self._state(before, other) == "redriven" or (is_parked and other > number)
            assert is_free, f"{number} of {key} was done before {other}"

    def _note_work(self, before: Look, after: Look, came: set[int]) -> None:
        see = self._simulation.sometimes
        for each in came:
            if self._state(after, each) == "redriven" and self._state(before, each) == "dead":
                if after.owner is not None:
                    see("a dead letter was redriven under a live worker")
            else:
                is_behind = not after.parked[each].attempt
                see("a message was queued after its key" if is_behind else "a message was parked")
        if after.steals > before.steals:
            see("a lease was taken over")

    # --- always -------------------------------------------------------------------------------

    def _check_letters(self, before: Look, after: Look) -> None:
        for number, letter in after.letters.items():
            old = before.letters.get(number)
            if old == letter:
                continue
            if letter.state == "dead":
                self._check_death(letter)
            else:
                assert old is not None, f"{number} is {letter.state} and was never dead"
                assert old.state == "dead", f"{number} went from {old.state} to {letter.state}"
            if letter.state == "redriven":
                self._lose({number} - set(after.parked), "redriven and not in line")
            if letter.state == "dropped":
                self._simulation.sometimes("a dead letter was dropped")
        self._lose(set(before.letters) - set(after.letters), "letters that are gone")

    def _check_death(self, letter: Letter) -> None:
        most = self._retries + 1
        assert letter.attempts <= most, f"{letter} after {most} attempts"
        if letter.error in ("ValueError", "WorkerDied"):
            assert letter.attempts == most, f"{letter} before its {most} attempts"
            self._simulation.sometimes("a message died after all its attempts")
        elif letter.error == "Garbled":
            self._simulation.sometimes("a message that cannot be read was buried")
        elif letter.error == "PoisonMessage":
            assert letter.attempts >= POISON_DEATHS, f"{letter} before {POISON_DEATHS} deaths"
            self._simulation.sometimes("a message that killed its workers was poison")
        assert letter.error in OWN_ERRORS, letter

    def _check_all(self, now: Look) -> None:
        """See that every message that was passed is somewhere."""
        for number in range(1, now.position + 1):
            is_kept = number in now.parked or self._state(now, number) in ("dead", "dropped")
            if not (is_kept or self.effects[number] or number in self._skipped):
                self._lose({number}, "passed and nowhere")
        for number, waits in {**now.parked, **now.held}.items():
            assert waits.attempt <= self._retries, f"{number}: {waits}"
            is_own = all(kind in OWN_ERRORS for kind in _ERROR.findall(waits.failures))
            assert is_own, f"{number} was blamed for what is not its fault: {waits}"
        for number in now.held:
            is_next = number == now.position + 1
            assert is_next, f"{number} holds a cursor that stands at {now.position}"

    def check_end(self, natures: list[str]) -> int:
        """See each message end as its nature wants, with its bytes; return how many have ended."""
        raws: dict[str, Any] = dict(self._stores.rows("select position, raw from onceward_dead"))
        assert all(raw == position.encode() for position, raw in raws.items()), raws
        for number, nature in enumerate(natures, start=1):
            letter = self.now.letters.get(number)
            is_given_up = letter is not None and letter.state in ("dead", "dropped")
            if number in self._skipped:
                continue
            if nature in ("good", "moody"):
                has_died = letter is not None and letter.error in ("PoisonMessage", "WorkerDied")
                is_excused = nature == "moody" or has_died
                is_fine = bool(self.effects[number]) or (is_given_up and is_excused)
            else:
                is_fine = is_given_up and not self.effects[number]
            assert is_fine, f"{number}, {nature}, ends with {self.effects[number]} and {letter}"
        return sum(self.effects.values()) + len(self.now.letters)

    def _lose(self, numbers: set[int], how: str) -> None:
        self.lost += len(numbers)
        assert not numbers, f"{sorted(numbers)}: {how}"

    @staticmethod
    def _state(look: Look, number: int) -> str | None:
        letter = look.letters.get(number)
        return letter.state if letter else None
