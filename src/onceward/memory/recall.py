"""Recall: a summary of what is known about a text, short enough for a model.

Quotes recorded text as data, with the names of the entities it comes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from onceward.memory.entity_lookup import LookupResult, MatchMethod, find
from onceward.memory.entity_names import type_of
from onceward.memory.envelope import RESULTS, parse
from onceward.memory.fact_text import BudgetedText, quoted, relative_time
from onceward.memory.graph import Graph
from onceward.memory.models import Entity, Subgraph
from onceward.memory.related_entities import KnownFix, RelatedEntities, find_related, parse_time
from onceward.system import Clock, SystemClock

_FIXES_SHOWN: Final = 3
_ISSUES_SHOWN: Final = 3
_FACTS_SHOWN: Final = 3
#: Lengths of a quoted name or text: preferred, and when space is short.
_LONG: Final = 110
_SHORT: Final = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Recall:
    """The summary, its source entities and the known fixes."""

    #: For a model, at most 200 tokens; quoted text in it is data.
    text: str
    how: MatchMethod
    #: The source entities, the matched one first, and their node ids.
    names: tuple[str, ...]
    node_ids: tuple[int, ...]
    #: Known fixes, best first.
    fixes: tuple[KnownFix, ...]


def recall(graph: Graph, text: str, *, clock: Clock | None = None) -> Recall:
    """Return what is known about a name, a message, a URL, a command or any words."""
    found = find(graph, text)
    if not found.entities:
        output = "Memory: nothing is recorded about this."
        return Recall(text=output, how=found.how, names=(), node_ids=(), fixes=())
    subgraph = Subgraph(entities=found.entities, relations=found.relations)
    related = find_related(graph, subgraph)
    nodes: dict[str, int] = {each.name: each.id for each in (*found.entities, *related.issues)}
    nodes |= {each.name: each.node_id for each in related.fixes}
    nodes |= {each.name: each.id for each in related.docs}
    return Recall(
        text=_render(found, related, (clock or SystemClock()).now()),
        how=found.how,
        names=tuple(nodes),
        node_ids=tuple(nodes.values()),
        fixes=related.fixes,
    )


def _render(found: LookupResult, related: RelatedEntities, now: datetime) -> str:
    output = BudgetedText()
    subject = found.entities[0]
    is_near = found.how is MatchMethod.SEARCH
    output.add(f"Memory, recorded data{', closest match, not the same text' if is_near else ''}:")
    output.add(*(_subject(found, related, now, size) for size in (_LONG, _SHORT)))
    kind = type_of(subject.name)
    for text in _details(subject, kind):
        output.add(quoted(text, 2 * _LONG), quoted(text, _SHORT))
    for issue in related.issues[:_ISSUES_SHOWN] if subject not in related.issues else ():
        output.add(f"Issue {quoted(issue.name, _LONG)} (node {issue.id}).")
    for place, fix in enumerate(related.fixes[:_FIXES_SHOWN], start=1):
        lines = _fix_lines(f"Fix {place}", fix, now)
        output.add(*(lines if place == 1 and kind != "Fix" else lines[1:]))
    if not related.fixes and related.issues:
        output.add("No fix is recorded yet.")
    for doc in related.docs[:1] if subject not in related.docs else ():
        output.add(f"Doc: {quoted(str(_newest(doc, 'doc.note').get('url', doc.name)), _LONG)}")
    if found.others:
        output.add(f"Also found: {', '.join(quoted(each, _SHORT) for each in found.others)}")
    return output.text


def _subject(found: LookupResult, related: RelatedEntities, now: datetime, size: int) -> str:
    """Describe the entity: its type, its name, how often and when it was seen."""
    subject = found.entities[0]
    kind = type_of(subject.name) or quoted(subject.entity_type, _SHORT)
    first, last = relative_time(related.first_seen, now), relative_time(related.last_seen, now)
    times = f"last {last}" if first == last else f"first {first}, last {last}"
    runs = _count(related.runs, "run")
    summary = {
        "Error": f"emitted by {_count(related.commands, 'command result')} in {runs}, ",
        "Warning": f"emitted by {_count(related.commands, 'command result')} in {runs}, ",
        "Command": f"{_count(len(found.entities), 'result')} in {runs}, {_exit(subject)}",
        "Run": f"{_success(subject)}, ",
    }.get(kind, "")
    return f"{kind} {quoted(subject.name, size)} (node {subject.id}): {summary}{times}."


def _details(subject: Entity, kind: str | None) -> list[str]:
    """Return the facts of an entity that has no fixes to describe it."""
    if kind == "Run":
        return [str(_newest(subject, "run.summary").get("summary", ""))]
    if kind == "Doc":
        note = _newest(subject, "doc.note")
        return [str(note[each]) for each in ("title", "url", "excerpt") if note.get(each)]
    if kind in ("Error", "Warning", "Fix", "Command"):
        return []
    return [each.content for each in subject.observations[: -_FACTS_SHOWN - 1 : -1]]


def _exit(command: Entity) -> str:
    code = _newest(command, "command.exec").get("exitCode")
    return f"last exit {code}, " if isinstance(code, int) else ""


def _success(run: Entity) -> str:
    success = _newest(run, "run.summary").get("success")
    return "success" if success is True else "no success" if success is False else "no summary"


def _fix_lines(title: str, fix: KnownFix, now: datetime) -> tuple[str, ...]:
    """Describe a fix and its outcomes, in variants from long to short."""
    outcome = f"{fix.result if fix.result in RESULTS else 'recorded'}, not verified"
    if fix.verified:
        outcome = f"verified {fix.verified} of {fix.tried}"
    elif fix.tried:
        outcome = f"partly effective {fix.partial}, failed {fix.failed} of {fix.tried}"
    if fix.last_verified_at is not None:
        how = quoted(fix.verified_by or "", _SHORT)
        outcome += f", last {relative_time(parse_time(fix.last_verified_at), now)} by {how}"
    node = f"node {fix.node_id}"
    return (
        f"{title} ({node}, {quoted(fix.name, _LONG)}): {quoted(fix.strategy, _LONG)}; {outcome}.",
        f"{title} ({node}): {quoted(fix.strategy, _LONG)}; {outcome}.",
        f"{title} ({node}): {quoted(fix.strategy, _SHORT)}; {outcome}.",
    )


def _newest(entity: Entity, kind: str) -> dict[str, Any]:
    """Return the data of an entity's newest fact of a kind; empty if there is none."""
    for each in reversed(entity.observations):
        if each.kind == kind and (found := parse(each.content)):
            return found.data
    return {}


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
