"""Related entities: the commands, runs, fixes and documents around an entity.

Follows relations of the vocabulary, newest first, with a limit for each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from onceward.memory.entity_lookup import LookupResult
from onceward.memory.entity_types import type_of
from onceward.memory.fix_evidence import KnownFix, known_fix, observed_at, parse_time, ranked
from onceward.memory.graph import Graph
from onceward.memory.models import Entity, Relation

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


def find_related(graph: Graph, found: LookupResult) -> RelatedEntities:
    """Return the entities related to a lookup result."""
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

    def __init__(self, graph: Graph, found: LookupResult) -> None:
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
