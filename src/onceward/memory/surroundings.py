"""Surroundings: what stands around an entity: what emitted it, what helps, and where that is from.

Follows relations of the vocabulary, a bounded number of neighbours at each step, the newest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from onceward.memory.evidence import KnownFix, known_fix, moment, ranked, seen
from onceward.memory.finding import Found
from onceward.memory.graph import Graph
from onceward.memory.models import Entity, Relation
from onceward.memory.vocabulary import type_of

ISSUES_MAX: Final = 10
COMMANDS_MAX: Final = 15
FIXES_MAX: Final = 20
DOCS_MAX: Final = 5

_HEALS: Final = ("RESOLVES", "MITIGATES")


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What stands around."""

    #: Errors and warnings; the entity itself if it is one.
    issues: tuple[Entity, ...]
    #: What helps against them, the best first.
    fixes: tuple[KnownFix, ...]
    #: What the fixes are derived from, those of the best first.
    docs: tuple[Entity, ...]
    #: How many different results of commands emitted it, and how many runs these were seen in.
    commands: int
    runs: int
    #: When it was first and last seen, as far as anybody said.
    first_seen: datetime
    last_seen: datetime


def look(graph: Graph, found: Found) -> Surroundings:
    """Return what stands around what was found."""
    known = _Known(graph, found)
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
    return Surroundings(
        issues=known.entities(issues),
        fixes=fixes,
        docs=known.entities(docs),
        commands=len(commands),
        runs=len(runs),
        first_seen=min(times),
        last_seen=max(times),
    )


class _Known:
    """The part of the graph that was read so far."""

    def __init__(self, graph: Graph, found: Found) -> None:
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
            issues = self.targets(_HEALS, subjects)
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
            names = self.sources(_HEALS, issues)
        self.fetch(names[:FIXES_MAX])
        return ranked(
            known_fix(
                each,
                issues=self.targets(_HEALS, [each.name]),
                docs=self.targets(("DERIVED_FROM",), [each.name]),
            )
            for each in self.entities(names[:FIXES_MAX])
        )

    def times(self, names: Iterable[str], runs: Iterable[str]) -> list[datetime]:
        """Return when these were seen, and when the runs began, which stands in their names."""
        entities = self.entities(names)
        observed = [seen(o) for each in entities for o in each.observations]
        begun = [run.removeprefix("run#").partition("#")[0] for run in runs]
        times = [moment(each) for each in observed + begun]
        # A run of any other name says nothing about when it began.
        said = [each for each in times if each > moment(None)]
        return said or [moment(each.created_at) for each in entities]

    def fetch(self, names: Iterable[str]) -> None:
        wanted = [name for name in dict.fromkeys(names) if name not in self._entities]
        if wanted:
            found = self._graph.open(wanted)
            self._entities |= {each.name: each for each in found.entities}
            self._relations |= {each.id: each for each in found.relations}

    def entities(self, names: Iterable[str]) -> tuple[Entity, ...]:
        return tuple(self._entities[name] for name in names if name in self._entities)

    def sources(self, relation_types: Sequence[str], names: Iterable[str]) -> list[str]:
        """Return what does this to one of them, the newest first."""
        ends = set(names)
        found = (r.from_name for r in self._newest(relation_types) if r.to_name in ends)
        return list(dict.fromkeys(found))

    def targets(self, relation_types: Sequence[str], names: Iterable[str]) -> list[str]:
        """Return what one of them does this to, the newest first."""
        ends = set(names)
        found = (r.to_name for r in self._newest(relation_types) if r.from_name in ends)
        return list(dict.fromkeys(found))

    def _newest(self, relation_types: Sequence[str]) -> list[Relation]:
        found = [each for each in self._relations.values() if each.relation_type in relation_types]
        return sorted(found, key=lambda each: each.id, reverse=True)
