"""Kill one process after another at one crash point of memory, and look at what is left.

Run as `python -m tests.system.memory_matrix POINT TIMES SEED URL`. Forks from a parent that has
everything imported. Prints a JSON summary; a broken promise is an AssertionError and exit code 1.
"""

import json
import random
import sys
from collections.abc import Callable

from onceward.memory import Memory
from onceward.memory.models import Batch, Link, NewEntity, NewObservations, Removal
from tests.conformance.memory.graph_model import Seen, seen
from tests.system.lives import Ack, live_and_die, scenario_for

#: How many passes of the point a child may make before it dies.
PASSES_MAX = 6
ROUNDS_MAX = 1000
HUB = {"name": "hub", "entityType": "place", "observations": []}


def names(call: str) -> tuple[str, str]:
    return f"{call} a", f"{call} b"


def batch(call: str) -> Batch:
    start, end = names(call)
    links = [(start, "knows", end), (end, "is in", "hub"), (start, "is", start)]
    return Batch(
        entities=(
            NewEntity(name=start, entity_type="x", observations=("one", "two")),
            NewEntity(name=end, entity_type="y"),
        ),
        observations=(NewObservations(entity_name=end, contents=("three",)),),
        relations=tuple(Link(from_name=f, relation_type=r, to_name=t) for f, r, t in links),
    )


#: What a reader sees of a call: before it wrote, when it has written, when it has removed.
NOTHING: Seen = ({}, frozenset())


def whole(call: str) -> Seen:
    start, end = names(call)
    entities = {start: ("x", ("one", "two")), end: ("y", ("three",))}
    return entities, frozenset(batch(call).relations)


def left(call: str) -> Seen:
    _, end = names(call)
    entities, links = whole(call)
    return {end: entities[end]}, frozenset(each for each in links if each.from_name == end)


class Writing:
    """A batch is there with all its parts or not at all, and stays once it was told."""

    #: What may be found of a call that was not told, the last is what it comes to.
    states: tuple[Callable[[str], Seen], ...] = (lambda _: NOTHING, whole)

    def __init__(self, url: str) -> None:
        self.url = url
        self.told: set[str] = set()
        with Memory.open(url) as memory:
            memory.create_entities([HUB])

    def do(self, memory: Memory, call: str) -> None:
        memory.graph.write(batch(call))

    def work(self, life: int, ack: Ack) -> None:
        with Memory.open(self.url) as memory:
            for number in range(ROUNDS_MAX):
                call = f"{life}-{number}"
                self.do(memory, call)
                ack(call)

    def check(self, life: int, acks: list[str]) -> None:
        self.told |= set(acks)
        cut_off = f"{life}-{len(acks)}"
        with Memory.open(self.url) as memory:
            assert self.seen(memory, cut_off) in [each(cut_off) for each in self.states]
            # It is made again, and so is one that was told.
            for call in (cut_off, *acks[-1:]):
                self.do(memory, call)
                self.told.add(call)
            for call in self.told:
                assert self.seen(memory, call) == self.states[-1](call), call
            assert memory.graph.problems() == []

    def seen(self, memory: Memory, call: str) -> Seen:
        return seen(memory.graph.open(names(call)))


class Removing(Writing):
    """A removal takes everything along or nothing, and stays once it was told."""

    states = (*Writing.states, left)

    def do(self, memory: Memory, call: str) -> None:
        super().do(memory, call)
        memory.graph.remove(Removal(entities=names(call)[:1]))


class Restoring(Removing):
    """A restoration brings everything back or nothing, and stays once it was told."""

    states = (*Removing.states, whole)

    def do(self, memory: Memory, call: str) -> None:
        super().do(memory, call)
        memory.graph.restore(name=names(call)[0])


SCENARIOS: dict[str, type[Writing]] = {
    "memory.write.": Writing,
    "memory.remove.": Removing,
    "memory.restore.": Restoring,
}


def main(point: str, times: int, seed: int, url: str) -> None:
    source = random.Random(seed)
    acknowledged = 0
    scenario = scenario_for(point, SCENARIOS)(url)
    for life in range(times):
        passes = source.randint(1, PASSES_MAX)
        acks = live_and_die(scenario.work, f"{point}:{passes}:kill", life)
        acknowledged += len(acks)
        scenario.check(life, acks)
    json.dump({"point": point, "kills": times, "acknowledged": acknowledged}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
