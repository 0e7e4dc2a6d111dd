"""Proving: which fixes a run of a command speaks for, and which against.

A fix that was applied is proven when the command that showed the problem succeeds without it, and
has failed when the problem is back before anybody saw the fix work. Only the same command in the
same directory counts: elsewhere the same words may be about something else. Each time that a fix is
applied, it is judged once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from onceward.memory.envelope import Envelope, parse
from onceward.memory.evidence import moment, seen
from onceward.memory.finding import Found, How
from onceward.memory.graph import Graph
from onceward.memory.models import Entity, Observation, Relation
from onceward.memory.naming import command_line
from onceward.memory.surroundings import look

#: How many earlier results of a command, and how many of their issues, are looked at.
COMMANDS_MAX: Final = 50
ISSUES_MAX: Final = 50
FIXES_MAX: Final = 200

VERIFIED: Final = "verified_successful"
FAILED: Final = "failed"
_MENDING: Final = frozenset({"RESOLVES", "MITIGATES"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One run of a command, and the issues that it showed."""

    #: Its name: what it has said itself when it was recorded before, it says again.
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
class Verdict:
    """What a run says about a fix."""

    fix: str
    issue: str
    status: str
    #: From when it was applied to when this was known.
    duration_ms: int
    #: Which time it was applied.
    attempt: int


def verdicts(graph: Graph, run: Seen) -> tuple[Verdict, ...]:
    """Return what this run says about fixes of which nothing is known since they were applied."""
    emitted = _emitted(graph, run)
    again = [name for name in emitted if name in run.issues]
    gone = [name for name in emitted if name not in run.issues] if run.is_success else []
    looked_at = [*again, *gone][:ISSUES_MAX]
    if not looked_at:
        return ()
    mended = [
        each
        for each in graph.open(looked_at).relations
        if each.relation_type in _MENDING and each.to_name in looked_at
    ][-FIXES_MAX:]
    fixes = {each.name: each for each in graph.open([each.from_name for each in mended]).entities}
    found = [_verdict(fixes.get(each.from_name), each, run) for each in mended]
    # One that mends several issues has failed if one of them is back.
    ordered = sorted(filter(None, found), key=lambda verdict: verdict.status != FAILED)
    return tuple({each.fix: each for each in reversed(ordered)}.values())


def _emitted(graph: Graph, run: Seen) -> list[str]:
    """Return the issues that the last runs of this command showed here, the newest first."""
    stem = f"cmd#{command_line(run.cmd, graph.redactor)}"
    cwd = graph.redactor.text(run.cwd)
    commands = [
        each.name
        for each in graph.named(f"{stem}#", limit=COMMANDS_MAX)
        if each.name.rpartition("#")[0] == stem and _was_here(each, cwd)
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
    """Return which time it is that a fix is applied, if what was known of it is judged by now.

    That is so when its issue was seen after the outcome of the last time. None if it was not: who
    tells of the fix now, tells of that time.
    """
    found = graph.open([fix])
    applied = [
        (_at(each), _number(fact))
        for entity in found.entities
        for each, fact in _facts(entity, "fix.apply")
        if fact.data.get("result") == "applied"
    ]
    if not applied:
        return None
    (entity,), (last, number) = found.entities, max(applied)
    judged = [at for each, _ in _facts(entity, "fix.outcome") if (at := _at(each)) >= last]
    issues = [each.to_name for each in found.relations if each.relation_type in _MENDING]
    seen_at = [_last_seen(graph, issue) for issue in issues] if judged else []
    return number + 1 if seen_at and max(seen_at) > max(judged) else None


def _last_seen(graph: Graph, issue: str) -> datetime:
    found = graph.open([issue])
    if not found.entities:
        return moment(None)
    subject = Found(how=How.EXACT_KEY, entities=found.entities, relations=found.relations)
    return look(graph, subject).last_seen


def _number(applied: Envelope) -> int:
    said = applied.data.get("attempt", 1)
    return said if isinstance(said, int) else 1


def _was_here(command: Entity, cwd: str) -> bool:
    return any(fact.data.get("cwd", "") == cwd for _, fact in _facts(command, "command.exec"))


def _verdict(fix: Entity | None, mends: Relation, run: Seen) -> Verdict | None:
    if fix is None:
        return None
    applied = [
        (_at(each), _number(fact))
        for each, fact in _facts(fix, "fix.apply")
        if fact.data.get("result") == "applied" and _is_same(fact.repo or "", run.repo)
    ]
    began = moment(run.started_at)
    # One that was applied while the command ran says nothing, either way.
    if not applied or (last := max(applied))[0] > began:
        return None
    judged = [
        _at(each)
        for each, fact in _facts(fix, "fix.outcome")
        if each.run != run.run and _is_same(fact.repo or "", run.repo)
    ]
    if any(at >= last[0] for at in judged):
        return None
    took = (moment(run.ended_at) - last[0]).total_seconds()
    return Verdict(
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


def _at(observation: Observation) -> datetime:
    return moment(seen(observation))


def _is_same(repo: str, other: str) -> bool:
    """Say whether these may be one repository; who does not say which may mean this one."""
    return not repo or not other or repo == other
