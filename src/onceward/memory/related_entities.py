"""Related entities: the commands, runs, fixes and documents around an entity.

Follows relations of the vocabulary, newest first, with a limit for each step. Ranks fixes by how
often they were verified.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from onceward.memory.entity_names import type_of
from onceward.memory.envelope import Envelope, parse
from onceward.memory.graph import Graph
from onceward.memory.models import Entity, Observation, Relation, Subgraph

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownFix:
    """A recorded fix and its outcomes."""

    name: str
    node_id: int
    #: Issues that it resolves or mitigates.
    issues: tuple[str, ...]
    strategy: str
    #: `applied` or `proposed`; empty if unknown.
    result: str
    #: Numbers of outcomes: successful, partially effective, failed.
    verified: int
    partial: int
    failed: int
    #: When and how it was last verified as successful.
    last_verified_at: str | None
    verified_by: str | None
    #: The time of its newest observation.
    last_seen_at: str
    #: Names of the documents that it is derived from.
    docs: tuple[str, ...]

    @property
    def tried(self) -> int:
        """Return the number of recorded outcomes."""
        return self.verified + self.partial + self.failed


def known_fix(entity: Entity, issues: Sequence[str], docs: Sequence[str]) -> KnownFix:
    """Summarise the observations of a fix."""
    facts = [(each, found) for each in entity.observations if (found := parse(each.content))]
    applied = [found.data for _, found in facts if found.kind == "fix.apply"]
    outcomes = [(each, found) for each, found in facts if found.kind == "fix.outcome"]
    by_status: dict[str, list[tuple[Observation, Envelope]]] = {}
    for each, found in outcomes:
        by_status.setdefault(str(found.data.get("status")), []).append((each, found))
    successes = by_status.get("verified_successful", [])
    seen_at, last = max(
        ((observed_at(each), found) for each, found in successes),
        key=lambda pair: parse_time(pair[0]),
        default=(None, None),
    )
    results = [str(data.get("result", "")) for data in applied]
    return KnownFix(
        name=entity.name,
        node_id=entity.id,
        issues=tuple(issues),
        strategy=str(applied[-1].get("strategy", "")) if applied else _plain_text(entity),
        result="applied" if "applied" in results else "".join(results[-1:]),
        verified=len(successes),
        partial=len(by_status.get("partially_effective", [])),
        failed=len(by_status.get("failed", [])),
        last_verified_at=seen_at,
        verified_by=str(last.data.get("verificationMethod", "")) if last else None,
        last_seen_at=max(
            [entity.created_at, *map(observed_at, entity.observations)],
            key=parse_time,
        ),
        docs=tuple(docs),
    )


def ranked(fixes: Iterable[KnownFix]) -> tuple[KnownFix, ...]:
    """Return the fixes, best first.

    Ordered by successes, then success rate, then recency. Fixes that only failed come after
    untested ones.
    """
    return tuple(sorted(fixes, key=_ranking_key, reverse=True))


def _ranking_key(fix: KnownFix) -> tuple[object, ...]:
    return (
        fix.verified,
        fix.verified / fix.tried if fix.tried else 0.0,
        fix.partial - fix.failed,
        parse_time(fix.last_verified_at),
        fix.result == "applied",
        parse_time(fix.last_seen_at),
        fix.node_id,
    )


def observed_at(observation: Observation) -> str:
    """Return when something was observed, or else when it was stored."""
    observed = observation.ts
    return (
        observed
        if observed is not None and parse_time(observed) > _LONG_AGO
        else observation.created_at
    )


def parse_time(text: str | None) -> datetime:
    """Return a comparable time; the earliest possible one if the text is not a time."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return _LONG_AGO
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _plain_text(entity: Entity) -> str:
    """Return the last plain observation of a fix without an envelope."""
    plain = [each.content for each in entity.observations if each.kind is None]
    return plain[-1] if plain else ""


ISSUES_MAX: Final = 10
COMMANDS_MAX: Final = 15
FIXES_MAX: Final = 20
DOCS_MAX: Final = 5

_FIX_RELATIONS: Final = ("RESOLVES", "MITIGATES")


@dataclass(frozen=True, kw_only=True, slots=True)
class RelatedEntities:
    """The entities related to one entity."""

    #: Errors and warnings, including the entity itself.
    issues: tuple[Entity, ...]
    #: Fixes of these issues, best first.
    fixes: tuple[KnownFix, ...]
    #: Documents that the fixes are derived from, those of the best fix first.
    docs: tuple[Entity, ...]
    #: How many command results emitted it, and in how many runs.
    commands: int
    runs: int
    #: When it was first and last observed, as far as known.
    first_seen: datetime
    last_seen: datetime


def find_related(graph: Graph, found: Subgraph) -> RelatedEntities:
    """Return the entities related to the given ones: one entity, or the results of one command."""
    known = _LoadedSubgraph(graph, found)
    subjects = [each.name for each in found.entities]
    kind = type_of(subjects[0])
    commands = known.commands(kind, subjects)
    issues = known.issues(kind, subjects, commands)
    if kind in ("Error", "Warning"):
        commands = known.sources(("EMITS",), subjects)
        known.fetch(commands[:COMMANDS_MAX])
    runs = subjects if kind == "Run" else known.sources(("EXECUTES",), commands[:COMMANDS_MAX])
    fixes = known.fixes(kind, subjects, issues)
    docs = list(dict.fromkeys(name for fix in fixes for name in fix.docs))[:DOCS_MAX]
    known.fetch(docs)
    times = known.times([*subjects, *commands[:COMMANDS_MAX]], runs)
    return RelatedEntities(
        issues=known.entities(issues),
        fixes=fixes,
        docs=known.entities(docs),
        commands=len(commands),
        runs=len(runs),
        first_seen=min(times),
        last_seen=max(times),
    )


class _LoadedSubgraph:
    """The part of the graph that was read so far."""

    def __init__(self, graph: Graph, found: Subgraph) -> None:
        self._graph = graph
        self._entities = {each.name: each for each in found.entities}
        self._relations = {each.id: each for each in found.relations}

    def commands(self, kind: str | None, subjects: Sequence[str]) -> list[str]:
        if kind != "Run":
            return list(subjects) if kind == "Command" else []
        commands = self.targets(("EXECUTES",), subjects)[:COMMANDS_MAX]
        self.fetch(commands)
        return commands

    def issues(
        self, kind: str | None, subjects: Sequence[str], commands: Sequence[str]
    ) -> list[str]:
        if kind in ("Error", "Warning"):
            return list(subjects)
        if kind in ("Command", "Run"):
            issues = self.targets(("EMITS",), commands)
        elif kind == "Fix":
            issues = self.targets(_FIX_RELATIONS, subjects)
        else:
            issues = self.sources(("CAUSED_BY", "ABOUT"), subjects)
        self.fetch(issues[:ISSUES_MAX])
        return issues[:ISSUES_MAX]

    def fixes(
        self, kind: str | None, subjects: Sequence[str], issues: Sequence[str]
    ) -> tuple[KnownFix, ...]:
        if kind == "Fix":
            names = list(subjects)
        elif kind == "Doc":
            names = self.sources(("DERIVED_FROM",), subjects)
        else:
            names = self.sources(_FIX_RELATIONS, issues)
        self.fetch(names[:FIXES_MAX])
        return ranked(
            known_fix(
                each,
                issues=self.targets(_FIX_RELATIONS, [each.name]),
                docs=self.targets(("DERIVED_FROM",), [each.name]),
            )
            for each in self.entities(names[:FIXES_MAX])
        )

    def times(self, names: Iterable[str], runs: Iterable[str]) -> list[datetime]:
        """Return when these entities were observed and the runs began, from the runs' names."""
        entities = self.entities(names)
        observed = [observed_at(o) for each in entities for o in each.observations]
        begun = [run.removeprefix("run#").partition("#")[0] for run in runs]
        times = [parse_time(each) for each in observed + begun]
        # Other names of runs contain no start time.
        known = [each for each in times if each > parse_time(None)]
        return known or [parse_time(each.created_at) for each in entities]

    def fetch(self, names: Iterable[str]) -> None:
        wanted = [name for name in dict.fromkeys(names) if name not in self._entities]
        if wanted:
            found = self._graph.open(wanted)
            self._entities |= {each.name: each for each in found.entities}
            self._relations |= {each.id: each for each in found.relations}

    def entities(self, names: Iterable[str]) -> tuple[Entity, ...]:
        return tuple(self._entities[name] for name in names if name in self._entities)

    def sources(self, relation_types: Sequence[str], names: Iterable[str]) -> list[str]:
        """Return the sources of relations to these entities, newest first."""
        ends = set(names)
        found = (r.from_name for r in self._newest(relation_types) if r.to_name in ends)
        return list(dict.fromkeys(found))

    def targets(self, relation_types: Sequence[str], names: Iterable[str]) -> list[str]:
        """Return the targets of relations from these entities, newest first."""
        ends = set(names)
        found = (r.to_name for r in self._newest(relation_types) if r.from_name in ends)
        return list(dict.fromkeys(found))

    def _newest(self, relation_types: Sequence[str]) -> list[Relation]:
        found = [each for each in self._relations.values() if each.relation_type in relation_types]
        return sorted(found, key=lambda each: each.id, reverse=True)
