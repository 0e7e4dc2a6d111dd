"""Recalling: what is known about a text, short enough for a model: what it is, and what helped.

Tells as data what others recorded, with the names of where it stands. Decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from onceward.memory.envelope import parse
from onceward.memory.evidence import KnownFix, moment
from onceward.memory.facts import RESULTS
from onceward.memory.finding import Found, How, find
from onceward.memory.graph import Graph
from onceward.memory.models import Entity
from onceward.memory.surroundings import Surroundings, look
from onceward.memory.telling import Told, ago, quoted
from onceward.memory.vocabulary import type_of
from onceward.seams import Clock, SystemClock

_FIXES_TOLD: Final = 3
_ISSUES_TOLD: Final = 3
_FACTS_TOLD: Final = 3
#: How many characters of a name or a text are told, with room and without.
_LONG: Final = 110
_SHORT: Final = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Recall:
    """What is known."""

    #: For a model to read, at most 200 tokens; what is quoted in it is data.
    text: str
    how: How
    #: What it is taken from, what was asked for first, and the ids of these nodes.
    names: tuple[str, ...]
    node_ids: tuple[int, ...]
    #: What helped, the best first.
    fixes: tuple[KnownFix, ...]


def recall(graph: Graph, text: str, *, clock: Clock | None = None) -> Recall:
    """Return what is known about a name, a message, a URL, a command or any words."""
    found = find(graph, text)
    if not found.entities:
        told = "Memory: nothing is recorded about this."
        return Recall(text=told, how=found.how, names=(), node_ids=(), fixes=())
    around = look(graph, found)
    nodes: dict[str, int] = {each.name: each.id for each in (*found.entities, *around.issues)}
    nodes |= {each.name: each.node_id for each in around.fixes}
    nodes |= {each.name: each.id for each in around.docs}
    return Recall(
        text=_tell(found, around, (clock or SystemClock()).now()),
        how=found.how,
        names=tuple(nodes),
        node_ids=tuple(nodes.values()),
        fixes=around.fixes,
    )


def _tell(found: Found, around: Surroundings, now: datetime) -> str:
    told = Told()
    subject = found.entities[0]
    is_near = found.how is How.SEARCH
    told.add(f"Memory, recorded data{', closest match, not the same text' if is_near else ''}:")
    told.add(*(_subject(found, around, now, size) for size in (_LONG, _SHORT)))
    kind = type_of(subject.name)
    for text in _details(subject, kind):
        told.add(quoted(text, 2 * _LONG), quoted(text, _SHORT))
    for issue in around.issues[:_ISSUES_TOLD] if subject not in around.issues else ():
        told.add(f"Issue {quoted(issue.name, _LONG)} (node {issue.id}).")
    for place, fix in enumerate(around.fixes[:_FIXES_TOLD], start=1):
        lines = _fix_lines(f"Fix {place}", fix, now)
        told.add(*(lines if place == 1 and kind != "Fix" else lines[1:]))
    if not around.fixes and around.issues:
        told.add("No fix is recorded yet.")
    for doc in around.docs[:1] if subject not in around.docs else ():
        told.add(f"Doc: {quoted(str(_newest(doc, 'doc.note').get('url', doc.name)), _LONG)}")
    if found.others:
        told.add(f"Also found: {', '.join(quoted(each, _SHORT) for each in found.others)}")
    return told.text


def _subject(found: Found, around: Surroundings, now: datetime, size: int) -> str:
    """Say what it is, how often and when it was seen."""
    subject = found.entities[0]
    kind = type_of(subject.name) or quoted(subject.entity_type, _SHORT)
    first, last = ago(around.first_seen, now), ago(around.last_seen, now)
    times = f"last {last}" if first == last else f"first {first}, last {last}"
    runs = _count(around.runs, "run")
    said = {
        "Error": f"emitted by {_count(around.commands, 'command result')} in {runs}, ",
        "Warning": f"emitted by {_count(around.commands, 'command result')} in {runs}, ",
        "Command": f"{_count(len(found.entities), 'result')} in {runs}, {_exit(subject)}",
        "Run": f"{_success(subject)}, ",
    }.get(kind, "")
    return f"{kind} {quoted(subject.name, size)} (node {subject.id}): {said}{times}."


def _details(subject: Entity, kind: str | None) -> list[str]:
    """Return what stands on it, if that is not told by its fixes."""
    if kind == "Run":
        return [str(_newest(subject, "run.summary").get("summary", ""))]
    if kind == "Doc":
        note = _newest(subject, "doc.note")
        return [str(note[each]) for each in ("title", "url", "excerpt") if note.get(each)]
    if kind in ("Error", "Warning", "Fix", "Command"):
        return []
    return [each.content for each in subject.observations[: -_FACTS_TOLD - 1 : -1]]


def _exit(command: Entity) -> str:
    code = _newest(command, "command.exec").get("exitCode")
    return f"last exit {code}, " if isinstance(code, int) else ""


def _success(run: Entity) -> str:
    success = _newest(run, "run.summary").get("success")
    return "success" if success is True else "no success" if success is False else "no summary"


def _fix_lines(title: str, fix: KnownFix, now: datetime) -> tuple[str, ...]:
    """Say what was done and how it turned out; first with the name of the fix, then without."""
    outcome = f"{fix.result if fix.result in RESULTS else 'recorded'}, not verified"
    if fix.verified:
        outcome = f"verified {fix.verified} of {fix.tried}"
    elif fix.tried:
        outcome = f"partly effective {fix.partial}, failed {fix.failed} of {fix.tried}"
    if fix.last_verified_at is not None:
        how = quoted(fix.verified_by or "", _SHORT)
        outcome += f", last {ago(moment(fix.last_verified_at), now)} by {how}"
    node = f"node {fix.node_id}"
    return (
        f"{title} ({node}, {quoted(fix.name, _LONG)}): {quoted(fix.strategy, _LONG)}; {outcome}.",
        f"{title} ({node}): {quoted(fix.strategy, _LONG)}; {outcome}.",
        f"{title} ({node}): {quoted(fix.strategy, _SHORT)}; {outcome}.",
    )


def _newest(entity: Entity, kind: str) -> dict[str, Any]:
    """Return the newest fact of a kind that stands on an entity; nothing if there is none."""
    for each in reversed(entity.observations):
        if each.kind == kind and (found := parse(each.content)):
            return found.data
    return {}


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
