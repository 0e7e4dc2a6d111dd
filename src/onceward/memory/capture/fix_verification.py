"""Fix verification: which fixes a command's run confirms, and which it refutes.

A fix is verified if the command that emitted the issue succeeds without it. It has failed if the
issue recurs before any verification. Only the same command in the same directory counts. Each
attempt of a fix is judged once; a fix that a person reports again may be a new attempt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from onceward.memory.client import Memory
from onceward.memory.entity_names import command_line
from onceward.memory.envelope import Envelope, parse
from onceward.memory.graph import Graph
from onceward.memory.models import Entity, Observation, Relation
from onceward.memory.related_entities import find_related, observed_at, parse_time
from onceward.memory.serialization import JsonObject

#: Limits for earlier results of a command, their issues and their fixes.
COMMANDS_MAX: Final = 50
ISSUES_MAX: Final = 50
FIXES_MAX: Final = 200

VERIFIED: Final = "verified_successful"
FAILED: Final = "failed"
_FIX_RELATIONS: Final = frozenset({"RESOLVES", "MITIGATES"})


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservedRun:
    """One run of a command, and its issues."""

    #: Its name: outcomes that this run recorded before are ignored, so a retry is equal.
    run: str
    cmd: str
    cwd: str
    repo: str
    started_at: str
    ended_at: str
    is_success: bool
    #: The names of the issues.
    issues: Collection[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class FixVerdict:
    """The outcome of a fix, according to a run."""

    fix: str
    issue: str
    status: str
    #: From its application to this run.
    duration_ms: int
    #: Number of the attempt.
    attempt: int


def verify_fixes(graph: Graph, run: ObservedRun) -> tuple[FixVerdict, ...]:
    """Return the outcomes of fixes that have none since their last attempt."""
    emitted = _emitted(graph, run)
    again = [name for name in emitted if name in run.issues]
    gone = [name for name in emitted if name not in run.issues] if run.is_success else []
    looked_at = [*again, *gone][:ISSUES_MAX]
    if not looked_at:
        return ()
    mended = [
        each
        for each in graph.open(looked_at).relations
        if each.relation_type in _FIX_RELATIONS and each.to_name in looked_at
    ][-FIXES_MAX:]
    fixes = {each.name: each for each in graph.open([each.from_name for each in mended]).entities}
    found = [_verdict(fixes.get(each.from_name), each, run) for each in mended]
    # A fix of several issues has failed if one of them recurs.
    ordered = sorted(filter(None, found), key=lambda verdict: verdict.status != FAILED)
    return tuple({each.fix: each for each in reversed(ordered)}.values())


def _emitted(graph: Graph, run: ObservedRun) -> list[str]:
    """Return the issues of the command's last runs in this directory, newest first."""
    stem = f"cmd#{command_line(run.cmd, graph.redactor)}"
    cwd = graph.redactor.text(run.cwd)
    commands = [
        each.name
        for each in graph.find_by_prefix(f"{stem}#", limit=COMMANDS_MAX)
        if each.name.rpartition("#")[0] == stem and _ran_in(each, cwd)
    ]
    if not commands:
        return []
    places = {name: place for place, name in enumerate(commands)}
    emitted = [
        each
        for each in graph.open(commands).relations
        if each.relation_type == "EMITS" and each.from_name in places
    ]
    emitted.sort(key=lambda each: places[each.from_name])
    return list(dict.fromkeys(each.to_name for each in emitted))


def next_attempt(graph: Graph, fix: str) -> int | None:
    """Return the number of a new attempt, if the issue recurred after the last outcome.

    None otherwise: the report then belongs to the last attempt.
    """
    found = graph.open([fix])
    applied = [attempt for entity in found.entities for attempt in _applied(entity)]
    if not applied:
        return None
    (entity,), (last, number) = found.entities, max(applied)
    judged = [
        at for each, _ in _facts(entity, "fix.outcome") if (at := _observation_time(each)) >= last
    ]
    issues = [each.to_name for each in found.relations if each.relation_type in _FIX_RELATIONS]
    seen_at = [_last_seen(graph, issue) for issue in issues] if judged else []
    return number + 1 if seen_at and max(seen_at) > max(judged) else None


def _last_seen(graph: Graph, issue: str) -> datetime:
    found = graph.open([issue])
    if not found.entities:
        return parse_time(None)
    return find_related(graph, found).last_seen


def _applied(fix: Entity, repo: str = "") -> list[tuple[datetime, int]]:
    """Return when a fix was applied in a repository, with the numbers of its attempts."""
    return [
        (_observation_time(each), _attempt_number(fact))
        for each, fact in _facts(fix, "fix.apply")
        if fact.data.get("result") == "applied" and _is_same_repo(fact.repo or "", repo)
    ]


def _attempt_number(applied: Envelope) -> int:
    number = applied.data.get("attempt", 1)
    return number if isinstance(number, int) else 1


def _ran_in(command: Entity, cwd: str) -> bool:
    return any(fact.data.get("cwd", "") == cwd for _, fact in _facts(command, "command.exec"))


def _verdict(fix: Entity | None, mends: Relation, run: ObservedRun) -> FixVerdict | None:
    if fix is None:
        return None
    applied = _applied(fix, run.repo)
    began = parse_time(run.started_at)
    # A fix applied while the command ran cannot be judged.
    if not applied or (last := max(applied))[0] > began:
        return None
    judged = [
        _observation_time(each)
        for each, fact in _facts(fix, "fix.outcome")
        if each.run != run.run and _is_same_repo(fact.repo or "", run.repo)
    ]
    if any(at >= last[0] for at in judged):
        return None
    took = (parse_time(run.ended_at) - last[0]).total_seconds()
    return FixVerdict(
        fix=fix.name,
        issue=mends.to_name,
        status=FAILED if mends.to_name in run.issues else VERIFIED,
        duration_ms=max(0, round(took * 1000)),
        attempt=last[1],
    )


def _facts(entity: Entity, kind: str) -> Iterable[tuple[Observation, Envelope]]:
    for each in entity.observations:
        if each.kind == kind and (fact := parse(each.content)):
            yield each, fact


def _observation_time(observation: Observation) -> datetime:
    return parse_time(observed_at(observation))


def _is_same_repo(repo: str, other: str) -> bool:
    """Return whether two repositories may be equal; an unknown one matches any."""
    return not repo or not other or repo == other


def apply_fix(memory: Memory, **facts: Any) -> JsonObject:  # noqa: ANN401 - those of record_fix
    """Record a fix, as a new attempt if its issue recurred since the last outcome.

    Idempotent for the same `ts`.
    """
    recorded = memory.record_fix(**facts)
    is_applied = facts.get("result", "applied") == "applied"
    attempt = next_attempt(memory.graph, recorded["name"]) if is_applied else None
    return recorded if attempt is None else memory.record_fix(**facts, attempt=attempt)
