"""Memory call log: random calls of an agent, each made from the answers to those before.

The calls are made on a memory and logged; the log can be replayed, and changed as networks and
clients do it: calls arrive twice, or again hours later.
"""

import random
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

from onceward.memory import Graph, Memory
from onceward.memory.models import GraphCounts, Link
from onceward.system import ManualClock
from tests.support.graph_model import everything

COMMANDS: Final = (
    "pytest -q",
    "make lint",
    "npm test",
    "cargo build",
    "python -m shop",
    "git push",
)
MESSAGES: Final = (
    "KeyError: 'port' in /home/ann/shop/config.py:{n}",
    "ModuleNotFoundError: No module named 'shop{m}'",
    "AssertionError: expected {m}, got {n}",
    "error[E0308]: mismatched types at src/main.rs:{n}:{m}",
    "connection refused by 10.0.0.{m} at 2026-02-06T12:{m:02}:00Z",
    "TypeError: Cannot read properties of undefined (reading 'x{m}')",
)
WARNINGS: Final = (
    "DeprecationWarning: f{m}() is deprecated since v1.{m}.0",
    "unused variable `a{m}`",
)
STRATEGIES: Final = ("give it a default", "pin the version", "wait and retry", "rename it")
PEOPLE: Final = ("Ann", "Bob", "Cid", "Dee")
#: How much clients repeat: whether a call is retried at once, or comes again some time later.
RETRIED, AGAIN = 0.5, 0.3
SECONDS_A_CALL: Final = 4.0


@dataclass(frozen=True)
class Call:
    """One call, as a log holds it."""

    verb: str
    arguments: dict[str, Any]
    #: The names that it is about; only of those that are ever deleted.
    names: frozenset[str] = frozenset()

    @property
    def removes(self) -> bool:
        return self.verb.startswith(("delete", "restore"))

    def play(self, memory: Memory) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(memory, self.verb)(**self.arguments)
        return answer


def memory_at_hour(graph_store: Any, *, hour: int) -> tuple[Memory, ManualClock]:
    """Return a memory whose clock stands at an hour of that day."""
    clock = ManualClock()
    clock.advance(seconds=3600.0 * hour)
    place: dict[str, Any] = {"mode": "coder@2", "repo": "ann/shop", "branch": "main"}
    return Memory(graph_store, clock=clock, source="day", **place), clock


class CallSequence:
    """Makes random calls, and logs them."""

    def __init__(self, memory: Memory, clock: ManualClock, seed: int) -> None:
        self.memory, self.clock = memory, clock
        self.chance = random.Random(seed)
        self.log: list[Call] = []
        #: The latest of each kind, and notes that are there, or were.
        self.latest: dict[str, str] = {}
        self.notes: dict[str, list[str]] = {}
        self.links: list[dict[str, str]] = []
        self.gone: list[str] = []

    def play(self, calls: int) -> None:
        kinds = {
            self.run: 10, self.command: 14, self.error: 14, self.fix: 7, self.outcome: 6,
            self.doc: 5, self.create: 12, self.observe: 12, self.relate: 8, self.look: 8,
            self.delete: 2, self.forget: 1, self.part: 1, self.restore: 1,
        }  # fmt: skip
        while len(self.log) < calls:
            (kind,) = self.chance.choices(list(kinds), list(kinds.values()))
            kind()

    def call(self, verb: str, *names: str, **arguments: Any) -> dict[str, Any]:
        self.clock.advance(seconds=SECONDS_A_CALL)
        self.log.append(Call(verb, arguments, frozenset(names)))
        return self.log[-1].play(self.memory)

    def record(self, what: str, /, **arguments: Any) -> None:
        answer = self.call(f"record_{what}", **arguments)
        assert not [each for each in answer["relations"] if each["status"] == "refused"], answer
        self.latest[what] = answer["name"]

    def number(self, most: int = 40) -> int:
        return self.chance.randrange(most)

    # --- what is recorded -----------------------------------------------------------------------

    def run(self) -> None:
        started = f"2026-01-01T{self.number(24):02}:{self.number(60):02}:{self.number(60):02}Z"
        self.record(
            "run", started_at=started, cmd=self.chance.choice(COMMANDS), exit_code=self.number(2),
            summary=f"run of {started}", success=self.chance.random() < 0.5,
            duration_ms=self.number(), tools=[f"tool{self.number(5)}"],
            files=[f"src/file{self.number()}.py"], key_events=[f"step {self.number()}"],
        )  # fmt: skip

    def command(self) -> None:
        self.record(
            "command", cmd=self.chance.choice(COMMANDS), exit_code=self.number(3),
            cwd=f"/home/ann/shop{self.number(3)}", stdout_head=f"{self.number()} passed",
            run=self.latest.get("run"),
        )  # fmt: skip

    def error(self) -> None:
        is_warning = self.chance.random() < 0.2
        message = self.chance.choice(WARNINGS if is_warning else MESSAGES)
        self.record(
            "error", message=message.format(n=self.number(500), m=self.number(30)),
            kind="warning" if is_warning else "error", detector="day", is_warning=is_warning,
            command=self.latest.get("command"),
            **({} if is_warning else {"concepts": [f"topic{self.number(6)}"]}),
        )  # fmt: skip

    def fix(self) -> None:
        if "error" in self.latest:
            url = f"https://docs.example.org/{self.number(9)}"
            self.record(
                "fix", issue=self.latest["error"], strategy=self.chance.choice(STRATEGIES),
                changes=[f"src/file{self.number(5)}.py"], docs=[url] * self.number(2),
            )  # fmt: skip

    def outcome(self) -> None:
        if "fix" in self.latest:
            statuses = ("verified_successful", "failed", "partially_effective")
            self.record(
                "outcome", fix=self.latest["fix"], status=self.chance.choice(statuses),
                verification_method="pytest -q", duration_to_verify=self.number(),
            )  # fmt: skip

    def doc(self) -> None:
        at = self.number()
        url, title = f"https://docs.example.org/{at}", f"Chapter {at}"
        self.record("doc", url=url, title=title, concepts=[f"topic{self.number(6)}"])

    # --- what is noted in any words -------------------------------------------------------------

    def there(self) -> list[str]:
        return [name for name in self.notes if name not in self.gone]

    def create(self) -> None:
        name = f"note {self.number(300)}"
        texts = [f"fact {self.number(90)}" for _ in range(self.number(3))]
        person = {"name": self.chance.choice(PEOPLE), "entityType": "person", "observations": texts}
        note = {"name": name, "entityType": f"kind {self.number(3)}", "observations": texts}
        self.call("create_entities", name, entities=[note, person])
        if name in self.gone:
            self.gone.remove(name)
            self.notes[name] = []
        self.notes.setdefault(name, []).extend(texts)

    def observe(self) -> None:
        if self.there():
            name, text = self.chance.choice(self.there()), f"fact {self.number(900)}"
            observations = [{"entityName": name, "contents": [text, "seen"]}]
            self.call("add_observations", name, observations=observations)
            self.notes[name] += [text, "seen"]

    def relate(self) -> None:
        if self.there():
            start, end = self.chance.choice(self.there()), self.chance.choice(self.there())
            link = {"from": start, "to": end, "relationType": f"leads to {self.number(3)}"}
            self.call("create_relations", start, end, relations=[link])
            self.links.append(link)

    def look(self) -> None:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("search_nodes", {"query": f"fact {self.number(90)}", "limit": 10}),
            ("open_nodes", {"names": [f"note {self.number(300)}"]}),
            ("read_graph", {"limit": 20}),
            ("recall", {"text": self.chance.choice(MESSAGES).format(n=1, m=1)}),
        ]
        verb, arguments = self.chance.choice(calls)
        self.call(verb, **arguments)

    # --- what is taken back ---------------------------------------------------------------------

    def delete(self) -> None:
        if self.there():
            name = self.chance.choice(self.there())
            self.call("delete_entities", name, names=[name])
            self.gone.append(name)

    def forget(self) -> None:
        known = [name for name in self.there() if self.notes[name]]
        if known:
            name = self.chance.choice(known)
            group = {"entityName": name, "observations": [self.chance.choice(self.notes[name])]}
            self.call("delete_observations", name, deletions=[group])

    def part(self) -> None:
        if self.links:
            link = self.chance.choice(self.links)
            self.call("delete_relations", link["from"], link["to"], relations=[link])

    def restore(self) -> None:
        if self.gone:
            name = self.gone.pop()
            self.call("restore", name, name=name)


def with_retries(log: list[Call], seed: int) -> list[Call]:
    """Return the log with half of its calls retried, and many that come again later.

    None comes again after a call that takes back what it said, or says what it took back.
    """
    chance = random.Random(seed)
    ends = _ends(log)
    later: defaultdict[int, list[Call]] = defaultdict(list)
    for at, call in enumerate(log):
        if chance.random() < RETRIED:
            later[at] += [call] * chance.randint(1, 2)
        if chance.random() < AGAIN:
            later[chance.randrange(at, ends[at])].append(call)
    played: list[Call] = []
    for at, call in enumerate(log):
        again = later[at]
        # Those of one moment in any order, but each after its own first time.
        chance.shuffle(again)
        played += [call, *again]
    return played


def _ends(log: list[Call]) -> list[int]:
    """Return before which place each call may come again."""
    ends = [len(log)] * len(log)
    # From the end: the next call about a name, and the next that takes something of it back.
    any_next: dict[str, int] = {}
    removal_next: dict[str, int] = {}
    for at in range(len(log) - 1, -1, -1):
        call = log[at]
        nexts = any_next if call.removes else removal_next
        ends[at] = min((nexts.get(name, len(log)) for name in call.names), default=len(log))
        for name in call.names:
            any_next[name] = at
            if call.removes:
                removal_next[name] = at
    return ends


def graph_contents(
    graph: Graph,
) -> tuple[dict[str, tuple[str, frozenset[str]]], frozenset[Link], GraphCounts]:
    """Return what a graph holds: names, types, fingerprints of observations, relations."""
    found = everything(graph)
    entities = {
        each.name: (each.entity_type, frozenset(fact.fingerprint for fact in each.observations))
        for each in found.entities
    }
    links = frozenset(
        Link(from_name=each.from_name, to_name=each.to_name, relation_type=each.relation_type)
        for each in found.relations
    )
    return entities, links, graph.counts()
