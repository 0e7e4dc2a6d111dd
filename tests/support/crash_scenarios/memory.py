"""Crash scenarios of the memory: writes, removals and restorations under SIGKILL."""

from collections.abc import Callable, Sequence

from onceward.memory import Memory
from onceward.memory.models import Link, NewEntity, NewObservations, Removal, WriteBatch
from tests.support.graph_model import Seen, seen
from tests.support.killed_processes import Ack, Life, Place, Scenario

ROUNDS_MAX = 1000
HUB = {"name": "hub", "entityType": "place", "observations": []}


def names(call: str) -> tuple[str, str]:
    return f"{call} a", f"{call} b"


def batch(call: str) -> WriteBatch:
    start, end = names(call)
    links = [(start, "knows", end), (end, "is in", "hub"), (start, "is", start)]
    return WriteBatch(
        entities=(
            NewEntity(name=start, entity_type="x", observations=("one", "two")),
            NewEntity(name=end, entity_type="y"),
        ),
        observations=(NewObservations(entity_name=end, contents=("three",)),),
        relations=tuple(Link(from_name=f, relation_type=r, to_name=t) for f, r, t in links),
    )


#: What a reader sees of a call: before it wrote, when it has written, when it has removed.
NOTHING: Seen = ({}, frozenset())


def all_written(call: str) -> Seen:
    start, end = names(call)
    entities = {start: ("x", ("one", "two")), end: ("y", ("three",))}
    return entities, frozenset(batch(call).relations)


def left(call: str) -> Seen:
    _, end = names(call)
    entities, links = all_written(call)
    return {end: entities[end]}, frozenset(each for each in links if each.from_name == end)


class Writing(Scenario):
    """A batch is there with all its parts or not at all, and stays once acknowledged."""

    #: The states allowed after an unacknowledged call; the last one is its final state.
    states: tuple[Callable[[str], Seen], ...] = (lambda _: NOTHING, all_written)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        with Memory.open(self.url) as memory:
            memory.create_entities([HUB])

    def do(self, memory: Memory, call: str) -> None:
        memory.graph.write(batch(call))

    def work(self, life: int, ack: Ack) -> None:
        with Memory.open(self.url) as memory:
            for number in range(ROUNDS_MAX):
                call = f"{life}-{number}"
                self.do(memory, call)
                ack(call)

    def check(self, lives: Sequence[Life]) -> None:
        acknowledged = {ack for life in lives for ack in life.acks}
        cut_off = {f"{life.number}-{len(life.acks)}" for life in lives}
        with Memory.open(self.url) as memory:
            for call in cut_off:
                assert self.seen(memory, call) in [each(call) for each in self.states]
            for call in acknowledged:
                assert self.seen(memory, call) == self.states[-1](call), call
            assert memory.graph.problems() == []

    def settle(self, lives: Sequence[Life]) -> None:
        """Repeat the calls that were cut off, and the last acknowledged ones."""
        calls = [f"{life.number}-{len(life.acks)}" for life in lives]
        calls += [ack for life in lives for ack in life.acks[-1:]]
        with Memory.open(self.url) as memory:
            for call in calls:
                self.do(memory, call)
            for call in calls:
                assert self.seen(memory, call) == self.states[-1](call), call
            assert memory.graph.problems() == []

    def seen(self, memory: Memory, call: str) -> Seen:
        return seen(memory.graph.open(names(call)))


class Removing(Writing):
    """A removal takes everything along or nothing, and stays once acknowledged."""

    states = (*Writing.states, left)

    def do(self, memory: Memory, call: str) -> None:
        super().do(memory, call)
        memory.graph.remove(Removal(entities=names(call)[:1]))


class Restoring(Removing):
    """A restoration brings everything back or nothing, and stays once acknowledged."""

    states = (*Removing.states, all_written)

    def do(self, memory: Memory, call: str) -> None:
        super().do(memory, call)
        memory.graph.restore(name=names(call)[0])


SCENARIOS: dict[str, type[Scenario]] = {
    "memory.write.": Writing,
    "memory.remove.": Removing,
    "memory.restore.": Restoring,
}
