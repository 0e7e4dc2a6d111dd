"""Recall: what is known about a text, as a summary short enough for a model.

Finds entities by exact names, then by names derived from the text, then by a search; the cost of
each step is independent of the size of the graph. Quotes recorded text as data, with the names of
the entities it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from onceward.errors import InvalidArgument
from onceward.errors.arguments import reject_field
from onceward.keys.stable import doc_key, normalize_message
from onceward.memory.entity_names import TYPES, command_line, issue_name, type_of
from onceward.memory.envelope import RESULTS, is_url, parse
from onceward.memory.fact_text import BudgetedText, quoted, relative_time
from onceward.memory.graph import Graph
from onceward.memory.graph.tokenizer import words_of
from onceward.memory.models import NAME_BYTES_MAX, Entity, Relation, Subgraph
from onceward.memory.related_entities import (
    KnownFix,
    RelatedEntities,
    find_related,
    observed_at,
    parse_time,
)
from onceward.system import Clock, SystemClock

#: How much of a text is used.
TEXT_CHARACTERS_MAX: Final = 16 * 1024
#: How many lines of a longer text are tried as messages.
LINES_MAX: Final = 20
#: How many results of one command are read.
COMMANDS_MAX: Final = 20
_HITS_MAX: Final = 5
#: Words of the first search, and of the next ones while nothing is found.
_WORDS: Final = (12, 5, 3)
_SINGLE_SEARCHES_MAX: Final = 6
_CHARACTERS_MIN: Final = 3
#: How many observations of a search result are compared with the text.
_COMPARED_OBSERVATIONS_MAX: Final = 5
_ISSUES_ONLY: Final = " type:Error type:Warning"
#: Placeholders of message normalisation, and words too common to search for.
_COMMON: Final = frozenset(
    words_of(
        "ts path pos ver redacted the and not for with from this that was has are you can cannot "
        "could who what when where why how does did about error errors warning warnings failed "
        "failure exception line file test tests assert assertionerror traceback most recent call "
        "last none true false null self"
    )
)
_DIGITS_8: Final = re.compile(r"[0-9a-f]{8}")


class MatchMethod(StrEnum):
    """How an entity was found."""

    EXACT_KEY = "exact key"  #: the text is a name
    DERIVED_KEY = "derived key"  #: a name was derived from the text or one of its lines
    SEARCH = "search"  #: full-text search
    NOTHING = "nothing"  #: no match


@dataclass(frozen=True, kw_only=True, slots=True)
class LookupResult:
    """The entities that match a text, and their relations."""

    how: MatchMethod
    #: The matched entity; several only if they are results of one command.
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    #: Names of further search results.
    others: tuple[str, ...] = ()


def find(graph: Graph, text: str) -> LookupResult:
    """Return the entities that match a text."""
    clean = graph.redactor.text(text[:TEXT_CHARACTERS_MAX]).replace("\0", " ").strip()
    if not clean:
        reject_field("text", "must not be empty", "pass a message, a name or some words")
    if exact := _open_in_order(graph, [clean]):
        return _lookup_result(MatchMethod.EXACT_KEY, exact)
    if derived := _open_in_order(graph, list(_derived_names(graph, clean))):
        return _lookup_result(MatchMethod.DERIVED_KEY, derived)
    if commands := _command_results(graph, clean):
        relations = graph.open([each.name for each in commands]).relations
        return LookupResult(how=MatchMethod.DERIVED_KEY, entities=commands, relations=relations)
    words = _significant_words(clean)
    hits = _search_all_words(graph, words) or _search_single_words(graph, words)
    return (
        _lookup_result(MatchMethod.SEARCH, hits) if hits else LookupResult(how=MatchMethod.NOTHING)
    )


def _lookup_result(how: MatchMethod, subgraph: Subgraph) -> LookupResult:
    first, *rest = subgraph.entities
    relations = [
        each for each in subgraph.relations if first.name in (each.from_name, each.to_name)
    ]
    others = tuple(each.name for each in rest)
    return LookupResult(how=how, entities=(first,), relations=tuple(relations), others=others)


def _open_in_order(graph: Graph, names: list[str]) -> Subgraph | None:
    """Return the entities with these names, in the order of the names."""
    possible = [each for each in names if len(each.encode(errors="replace")) <= NAME_BYTES_MAX]
    found = graph.open(possible) if possible else None
    if found is None or not found.entities:
        return None
    order = {name: place for place, name in enumerate(possible)}
    entities = sorted(found.entities, key=lambda each: order.get(each.name, len(order)))
    return Subgraph(entities=tuple(entities), relations=found.relations)


def _derived_names(graph: Graph, text: str) -> Iterator[str]:
    """Yield the names derived from the text as a URL or a message, and from its last lines."""
    if is_url(text):
        yield doc_key(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # In command output the message is usually last.
    parts = [text, *reversed(lines[-LINES_MAX:])] if len(lines) > 1 else [text]
    for part in parts:
        for is_warning in (False, True):
            try:
                yield issue_name(part, graph.redactor, is_warning=is_warning)
            except InvalidArgument:  # Only times and hashes.
                continue


def _command_results(graph: Graph, text: str) -> tuple[Entity, ...]:
    """Return the latest results of a command, whatever their output was."""
    line = command_line(text.removeprefix(f"{TYPES['Command']}#"), graph.redactor)
    prefix = f"{TYPES['Command']}#{line}#"
    named = graph.find_by_prefix(prefix, limit=COMMANDS_MAX)
    same = [each for each in named if _DIGITS_8.fullmatch(each.name[len(prefix) :])]
    return tuple(sorted(same, key=_last_seen, reverse=True))


def _last_seen(entity: Entity) -> datetime:
    return max(
        parse_time(each) for each in (entity.created_at, *map(observed_at, entity.observations))
    )


def _significant_words(text: str) -> list[str]:
    """Return the distinct words of a text without common and short ones."""
    words = list(dict.fromkeys(words_of(normalize_message(text))))
    telling = [each for each in words if len(each) >= _CHARACTERS_MIN and each not in _COMMON]
    return telling or words


def _search_all_words(graph: Graph, words: Sequence[str]) -> Subgraph | None:
    """Search for all words together, then for the rarest ones; issues before other entities."""
    done: set[tuple[str, ...]] = set()
    for count in _WORDS:
        rare = set(sorted(words, key=_rarity, reverse=True)[:count])
        chosen = tuple(word for word in words if word in rare)
        if not chosen or chosen in done:
            continue
        done.add(chosen)
        # Quoted, so that a word is not parsed as query syntax.
        query = " ".join(f'"{word}"' for word in chosen)
        for asked in (query + _ISSUES_ONLY, query):
            hits = graph.search(asked, limit=_HITS_MAX)
            if hits.entities:
                return hits
    return None


def _search_single_words(graph: Graph, words: Sequence[str]) -> Subgraph | None:
    """Search for the rarest words one by one, and return entities that share enough words."""
    found: dict[str, Entity] = {}
    relations: dict[int, Relation] = {}
    for word in sorted(words, key=_rarity, reverse=True)[:_SINGLE_SEARCHES_MAX]:
        for asked in (f'"{word}"{_ISSUES_ONLY}', f'"{word}"'):
            hits = graph.search(asked, limit=_HITS_MAX)
            found |= {each.name: each for each in hits.entities}
            relations |= {each.id: each for each in hits.relations}
    shared = {name: _shared(entity, words) for name, entity in found.items()}
    enough = [name for name, count in shared.items() if count >= 2 and 3 * count >= len(words)]
    # The sort is stable: with equal counts, issues stay first.
    best = sorted(enough, key=lambda name: shared[name], reverse=True)[:_HITS_MAX]
    if not best:
        return None
    entities = tuple(found[name] for name in best)
    return Subgraph(entities=entities, relations=tuple(relations.values()))


def _shared(entity: Entity, words: Sequence[str]) -> int:
    texts = (
        entity.name,
        *(each.content for each in entity.observations[-_COMPARED_OBSERVATIONS_MAX:]),
    )
    return len({word for text in texts for word in words_of(text)} & set(words))


def _rarity(word: str) -> tuple[bool, int]:
    return (not word.isdigit(), len(word))


# --- the summary ---------------------------------------------------------------------------------

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
