"""Campaign: a fault at the first operation, the second, and so on, until a life meets none.

Run as `python -m tests.proof.disk.sqlite_campaign DIRECTORY SCENARIO SYNCHRONOUS FAULT…`. A fault
is `operation:nth:kind:seed`; with `every=STRIDE=` in front, that one and those after it. Prints
what was seen as JSON.

Owns the verdict: before or after a step, never between, and nothing acknowledged is lost.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.proof.disk.faulty_disk import CUT, Fault
from tests.proof.disk.scenarios import SCENARIOS, Scenario
from tests.proof.disk.sqlite_lives import Life, live, look, prepare

#: No scenario has so many operations.
OPERATIONS_MAX = 20_000
#: So many broken promises are enough to stop.
BROKEN_MAX = 3


@dataclass(kw_only=True)
class Seen:
    """What a campaign saw."""

    lives: int = 0
    #: Steps that were acknowledged, and pieces of work that were finished afterwards.
    acknowledged: int = 0
    work: int = 0
    lost: int = 0
    doubled: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    #: Promises that did not hold, each with the command that shows it.
    broken: list[str] = field(default_factory=list)


class Campaign:
    """One scenario under many faults."""

    def __init__(self, name: str, directory: Path, synchronous: str = "full") -> None:
        """Find out what each step of the undisturbed work leaves."""
        self.name, self.directory, self.synchronous = name, directory, synchronous
        self.kind: type[Scenario] = SCENARIOS[name]
        self.seen = Seen()
        prepare(self.kind, directory)
        self.peace = live(self.kind, directory, None)
        assert self.peace.leak is None, self.peace.leak
        # The digest stands for the same content in every process.
        again = look(self.kind, directory)
        assert again.states == self.peace.states[-1:], "the same work left something else"

    def every(self, fault: Fault, stride: int) -> None:
        """Let it strike at the n-th operation, n = 1, 2, …, until it does not."""
        for nth in range(fault.nth, OPERATIONS_MAX, stride):
            one = Fault(operation=fault.operation, nth=nth, kind=fault.kind, seed=fault.seed + nth)
            if not self.once(one) or len(self.seen.broken) >= BROKEN_MAX:
                return
        message = f"{self.name} never ends"
        raise AssertionError(message)

    def once(self, fault: Fault) -> bool:
        """Live once, look at what is left, and say whether the fault struck."""
        life = live(self.kind, self.directory, fault, synchronous=self.synchronous)
        is_struck = life.hits > 0 or not life.is_over
        found = look(self.kind, self.directory)
        seen = self.seen
        seen.lives += 1
        seen.acknowledged += len(life.acks)
        seen.work += found.finished
        # The power is cut after the last operation, too, but there the loop ends.
        seen.faults[f"{fault.operation} {fault.kind}"] += is_struck or fault.kind == CUT
        for problem in self.problems(life, found):
            seen.broken.append(f"{problem}\n{self.repro(fault)}")
        return is_struck

    def problems(self, life: Life, found: Life) -> list[str]:
        """Return which promises did not hold."""
        problems = [each for each in (life.leak, found.leak) if each]
        if life.ending == "hung":
            problems.append("it hangs")
        if found.integrity != "ok":
            problems.append(f"the file is damaged: {found.integrity}")
        if life.error is not None:
            problems += self._problems_reported(life)
        elif found.states:
            problems += self._problems_of(found.states[0], life, "the next process")
        return problems

    def _problems_reported(self, life: Life) -> list[str]:
        """Return what is wrong with how an error was reported, and with what is left after it."""
        problems = []
        is_commit = life.struck_in == "commit"
        self.seen.reached["unknown" if life.is_unknown else "refused"] += 1
        # The last statements are run before the commit itself, and may have to read.
        if life.is_unknown != is_commit and not (is_commit and life.first.startswith("read")):
            where = "in the commit" if is_commit else "outside of the commit"
            problems.append(f"{life.error}, but it struck {where}")
        if life.inside is not None:
            problems += self._problems_of(life.inside, life, "the same process")
        self.seen.reached["went on"] += bool(life.finished)
        return problems

    def _problems_of(self, state: str, life: Life, who: str) -> list[str]:
        """Say whether a state is that before the step that was not acknowledged, or after it."""
        marks, states = self.peace.acks, self.peace.states
        before = marks[len(life.acks) - 1] if life.acks else 0
        after = marks[len(life.acks)] if len(life.acks) < len(marks) else before
        is_refused = life.error is not None and not life.is_unknown
        if is_refused and after == before + 1 and not life.first.startswith("read"):
            after = before  # Nothing happened; but a call may read again after its commit.
        if state in states[before : after + 1]:
            is_done = state == states[after] and after > before
            self.seen.reached["after" if is_done else "before"] += 1
            return []
        if state in states[:before]:
            lost = sum(mark > states.index(state) for mark in marks[: len(life.acks)])
            self.seen.lost += lost
            return [f"{who} misses {lost} of {len(life.acks)} acknowledged steps"]
        if state in states[after + 1 :]:
            self.seen.doubled += 1
            return [f"{who} finds more than was done"]
        return [f"{who} finds a state between two steps, after {len(life.acks)} steps"]

    def repro(self, fault: Fault) -> str:
        """Return the line that shows it again."""
        words = f"{self.name} {self.synchronous} {fault}"
        return f"REPRO: .venv/bin/python -m tests.proof.disk.sqlite_campaign /tmp/disk {words}"


def run(name: str, directory: Path, synchronous: str, faults: list[str]) -> Seen:
    """Run a campaign over these faults."""
    directory.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(name, Path(tempfile.mkdtemp(dir=directory)), synchronous)
    for text in faults:
        word, _, rest = text.partition("=")
        if word == "every":
            stride, _, fault = rest.partition("=")
            campaign.every(Fault.parse(fault), int(stride))
        else:
            campaign.once(Fault.parse(text))
        if len(campaign.seen.broken) >= BROKEN_MAX:
            break
    return campaign.seen


if __name__ == "__main__":
    seen = run(sys.argv[2], Path(sys.argv[1]), sys.argv[3], sys.argv[4:])
    json.dump(vars(seen), sys.stdout)
    sys.exit(bool(seen.broken))
