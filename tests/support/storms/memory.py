"""A storm: processes write into one graph, and are killed at points and at moments of chance.

Run as `python -m tests.support.storms.memory URL DIRECTORY SEED PROCESSES CALLS KILLS`. Each call
is acknowledged in a file before the next. A process that starts again resumes after the last
acknowledged call, so that the interrupted call is made again. Prints a JSON summary; anything
acknowledged that is not there, or there twice, is an AssertionError.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from onceward.memory import Memory
from onceward.memory.models import Link, NewEntity, NewObservations, Removal, WriteBatch
from onceward.system import crash_points
from tests.support.graph_model import GraphModel, Seen, everything, seen

SHARED = [f"shared {number}" for number in range(5)]
#: How long a life may last that is ended at a moment of chance.
LIFE_SECONDS_MAX = 0.5
PASSES_MAX = 20
POINTS = [
    *(point for point in crash_points.POINTS if point.startswith("memory.")),
    "transaction.before_commit",
    "transaction.after_commit",
]
DAY = "2026-02-06T12:00"
Answer = dict[str, Any]


class Life:
    """One process's plan: the same steps in every life, chosen by chance."""

    def __init__(self, number: int, seed: int) -> None:
        self.number = number
        self.source = random.Random(seed * 1000 + number)
        self.model = GraphModel()
        self.model.write(shared())
        #: What was recorded so far, by what it was called for.
        self.names: dict[str, str] = {}
        self._made = 0

    def steps(self, count: int) -> Iterator[Callable[[Memory], Answer]]:
        """Yield calls; the model is ahead of the graph by the one that is yielded."""
        makers = [
            *[self.create] * 4, *[self.observe] * 4, *[self.relate] * 3, self.delete, self.forget,
            self.part, *[self.restore] * 2, *[self.record] * 5, self.look,
        ]  # fmt: skip
        for at in range(count):
            yield self.source.choice(makers)(at)

    # --- whom to choose -------------------------------------------------------------------------

    def own(self, *, gone: bool = False) -> list[str]:
        nodes = self.model.nodes.items()
        return [name for name, node in nodes if name not in SHARED and bool(node.gone) == gone]

    def some_name(self) -> str:
        return self.source.choice([*self.own(), *SHARED])

    def text(self, at: int) -> str:
        """Choose what is observed: something of one's own, or what all clients see."""
        return self.source.choice([f"w{self.number} saw {at}", f"all see {at % 7}"])

    # --- what to do -----------------------------------------------------------------------------

    def write(self, verb: str, batch: WriteBatch) -> Callable[[Memory], Answer]:
        self.model.write(batch)
        items = batch.entities or batch.observations or batch.relations
        return lambda memory: getattr(memory, verb)(list(items))

    def remove(self, verb: str, removal: Removal) -> Callable[[Memory], Answer]:
        self.model.remove(removal)
        items = removal.entities or removal.observations or removal.relations
        return lambda memory: getattr(memory, verb)(list(items))

    def create(self, at: int) -> Callable[[Memory], Answer]:
        self._made += 1
        name = self.source.choice([f"w{self.number} n{self._made}", self.some_name()])
        kind = self.source.choice(["x", "y"])
        texts = (self.text(at), self.text(at))
        entities = [NewEntity(name=name, entity_type=kind, observations=texts)]
        entities.append(NewEntity(name=f"w{self.number} m{at % 9}", entity_type=kind))
        return self.write("create_entities", WriteBatch(entities=tuple(entities)))

    def observe(self, at: int) -> Callable[[Memory], Answer]:
        groups = [
            NewObservations(entity_name=self.some_name(), contents=(self.text(at),))
            for _ in range(2)
        ]
        return self.write("add_observations", WriteBatch(observations=tuple(groups)))

    def relate(self, at: int) -> Callable[[Memory], Answer]:
        links = [
            Link(from_name=self.some_name(), to_name=self.some_name(), relation_type=f"r{at % 3}")
            for _ in range(2)
        ]
        return self.write("create_relations", WriteBatch(relations=tuple(links)))

    def delete(self, at: int) -> Callable[[Memory], Answer]:
        if not self.own():
            return self.create(at)
        return self.remove("delete_entities", Removal(entities=(self.source.choice(self.own()),)))

    def forget(self, at: int) -> Callable[[Memory], Answer]:
        known = [key for key, fact in self.model.facts.items() if key[0] in self.own()]
        if not known:
            return self.create(at)
        name, text = self.source.choice(known)
        group = NewObservations(entity_name=name, contents=(text,))
        return self.remove("delete_observations", Removal(observations=(group,)))

    def part(self, at: int) -> Callable[[Memory], Answer]:
        mine = set(self.own())
        known = [each for each in self.model.links if {each.from_name, each.to_name} & mine]
        if not known:
            return self.relate(at)
        link = self.source.choice(known)
        return self.remove("delete_relations", Removal(relations=(link,)))

    def restore(self, at: int) -> Callable[[Memory], Answer]:
        if not self.own(gone=True):
            return self.create(at)
        name = self.source.choice(self.own(gone=True))
        self.model.restore(self.model.nodes[name].gone)
        return lambda memory: memory.restore(name=name)

    def look(self, _: int) -> Callable[[Memory], Answer]:
        """Compare what is there with what was acknowledged: neither more nor less."""
        names = set(self.own())
        expected = unordered(self.model.seen(names))

        def call(memory: Memory) -> Answer:
            assert unordered(seen(memory.graph.open(sorted(names)))) == expected
            return {}

        return call

    def record(self, at: int) -> Callable[[Memory], Answer]:
        """Record the next part of a story, or something that others record as well."""
        about: dict[str, Any] = {"ts": f"{DAY}:{at % 60:02}Z"}
        mark = f"w{self.number}-{at}"
        names = self.names
        calls: dict[str, Callable[[Memory], Answer]] = {
            "run": lambda memory: memory.record_run(
                started_at=f"{DAY}:00Z", cmd=f"make {mark}", exit_code=1, summary=mark,
                success=False, duration_ms=1, tools=["make"], **about,
            ),
            "command": lambda memory: memory.record_command(
                f"make {at % 5}", exit_code=1, run=names.get("run"), cwd=mark, **about
            ),
            "error": lambda memory: memory.record_error(
                f"KeyError: {'abcdefg'[at % 7] * 3}", kind="KeyError", detector="storm",
                command=names.get("command"), context=mark, **about,
            ),
            "fix": lambda memory: memory.record_fix(
                names["error"], strategy=f"try {at % 3}", changes=[mark], **about
            ),
            "outcome": lambda memory: memory.record_outcome(
                names["fix"], status="failed", verification_method=mark, duration_to_verify=1,
                **about,
            ),
            "doc": lambda memory: memory.record_doc(
                f"https://example.org/{at % 5}", title=mark, accessed_at="2026-02-06", **about
            ),
        }  # fmt: skip
        possible = ["run", "command", "error", "doc"]
        possible += ["fix"] if "error" in names else []
        possible += ["outcome"] if "fix" in names else []
        kind = self.source.choice(possible)

        def call(memory: Memory) -> Answer:
            return {**calls[kind](memory), "kind": kind, "mark": mark}

        return call


def shared() -> WriteBatch:
    return WriteBatch(entities=tuple(NewEntity(name=each, entity_type="place") for each in SHARED))


def unordered(found: Seen) -> Seen:
    entities, links = found
    return {name: (kind, tuple(sorted(texts))) for name, (kind, texts) in entities.items()}, links


class Storm:
    def __init__(self, url: str, directory: Path, seed: int, calls: int) -> None:
        self.url, self.directory, self.seed, self.calls = url, directory, seed, calls
        self.source = random.Random(seed)

    def acks(self, number: int) -> list[Answer]:
        path = self.directory / f"acks-{number}"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def live(self, number: int, death: tuple[str, float] | None) -> None:
        """Make the calls that were not acknowledged so far, until the end or death."""
        if death is not None:
            crash_points.arm(death[0])
            threading.Thread(target=_die_after, args=[death[1]], daemon=True).start()
        done = self.acks(number)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        acknowledged = os.open(self.directory / f"acks-{number}", flags, 0o600)
        life = Life(number, self.seed)
        try:
            with Memory.open(self.url, source=f"w{number}") as memory:
                for at, call in enumerate(life.steps(self.calls)):
                    answer = done[at] if at < len(done) else call(memory)
                    if at >= len(done):
                        os.write(acknowledged, json.dumps(answer).encode() + b"\n")
                    if "kind" in answer:
                        life.names[answer["kind"]] = answer["name"]
        except BaseException:  # noqa: BLE001 - reported, then the child ends whatever it was
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)

    def death(self) -> tuple[str, float]:
        """Choose how a life ends: at a pass of a crash point, or at a moment before that."""
        point = f"{self.source.choice(POINTS)}:{self.source.randint(1, PASSES_MAX)}:kill"
        return point, self.source.uniform(0, LIFE_SECONDS_MAX)

    def run(self, processes: int, kills: int) -> int:
        """Keep the processes alive until each has made its calls; return how many were killed."""
        killed = 0
        living: dict[int, int] = {}
        waiting = list(range(processes))
        while living or waiting:
            while waiting:
                number = waiting.pop()
                death = self.death() if killed < kills else None
                child = os.fork()
                if child == 0:
                    self.live(number, death)
                living[child] = number
            child, status = os.waitpid(-1, 0)
            number = living.pop(child)
            if os.WIFSIGNALED(status):
                assert os.WTERMSIG(status) == signal.SIGKILL, status
                killed += 1
                waiting.append(number)
            else:
                assert status == 0, (number, status)
        return killed

    def check(self, processes: int) -> dict[str, int]:
        expected = GraphModel()
        expected.write(shared())
        records: list[Answer] = []
        for number in range(processes):
            acks = self.acks(number)
            assert len(acks) == self.calls, (number, len(acks))
            life = Life(number, self.seed)
            for _, answer in zip(life.steps(self.calls), acks, strict=True):
                if "kind" in answer:
                    records.append(answer)
                    life.names[answer["kind"]] = answer["name"]
            _merge(expected, life.model)
        with Memory.open(self.url) as memory:
            assert memory.graph.problems() == []
            entities, links = unordered(seen(everything(memory.graph)))
        recorded = {name: found for name, found in entities.items() if "#" in name}
        stories = {link for link in links if "#" in link.from_name}
        plain = {name: found for name, found in entities.items() if name not in recorded}
        assert (plain, links - stories) == unordered(expected.seen())
        _check_records(records, recorded, stories)
        return {
            "calls": processes * self.calls,
            "entities": len(entities),
            "relations": len(links),
            "records": len(records),
            "deleted": expected.deleted(),
        }


def _die_after(seconds: float) -> None:
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


def _merge(all_of_them: GraphModel, one: GraphModel) -> None:
    """Add what one process did; names that it shares with others are never deleted."""
    all_of_them.nodes |= one.nodes
    all_of_them.facts |= one.facts
    all_of_them.links |= one.links


def _check_records(
    records: list[Answer], entities: dict[str, tuple[str, tuple[str, ...]]], links: set[Link]
) -> None:
    """What was recorded is there once, related as it was answered; nothing else is."""
    known: set[str] = set()
    for answer in records:
        _, contents = entities[answer["name"]]
        found = [content for content in contents if f'"{answer["mark"]}"' in content]
        assert len(found) == 1, (answer, found)
        for each in answer["relations"]:
            assert each["status"] != "refused", answer
            ends = {"from_name": each["from"], "to_name": each["to"]}
            assert Link(**ends, relation_type=each["relationType"]) in links
        known |= {answer["name"], *(each["to"] for each in answer["relations"])}
    assert known == set(entities), known ^ set(entities)


def main(url: str, directory: Path, *numbers: int) -> None:
    seed, processes, calls, kills = numbers
    with Memory.open(url) as memory:
        memory.graph.write(shared())
    storm = Storm(url, directory, seed, calls)
    killed = storm.run(processes, kills)
    json.dump({"kills": killed, **storm.check(processes)}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:7]))
