"""Handlers: what each tool does with its arguments, which were checked before.

Each takes a memory and the arguments and returns an answer. Knows neither names nor descriptions of
tools, nor who asks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from onceward.memory.client import Memory
from onceward.memory.mcp.answers import (
    ANSWER_BYTES_MAX,
    Answer,
    fitting,
    fitting_page,
    pretty,
)
from onceward.memory.shapes import Shape

Arguments = Mapping[str, Any]

_CAPITAL: Final = re.compile(r"[A-Z]")
#: A page of the whole graph, unless the caller asks for more: what a model's context takes.
PAGE_ENTITIES: Final = 100
PAGE_BYTES_MAX: Final = 64 * 1024
#: What says that something is there which was not there before.
_NEW: Final = frozenset({"created", "restored"})
_COUNTS: Final = ("entities", "observations", "relations")


# --- what the nine do ----------------------------------------------------------------------------


def create_entities(memory: Memory, arguments: Arguments) -> Answer:
    """Create entities, and add to those that exist."""
    data = memory.create_entities(arguments["entities"])
    known = data.pop("known")
    texts = [pretty(data["entities"])]
    texts += [f"Already known: {pretty(known)}"] if known else []
    is_change = bool(data["entities"]) or any(each["addedObservations"] for each in known)
    # Where all are new, the answer is what clients have always got.
    told = {**data, "known": known} if known else data
    return Answer(data=told, texts=tuple(texts), is_change=is_change)


def create_relations(memory: Memory, arguments: Arguments) -> Answer:
    """Relate entities that exist."""
    data = memory.create_relations(arguments["relations"])
    texts = (pretty(data["relations"]),)
    return Answer(data=data, texts=texts, is_change=bool(data["relations"]))


def add_observations(memory: Memory, arguments: Arguments) -> Answer:
    """Add facts to entities that exist."""
    data = memory.add_observations(arguments["observations"])
    is_change = any(each["addedObservations"] for each in data["results"])
    return Answer(data=data, texts=(pretty(data["results"]),), is_change=is_change)


def delete(method: str, items: str, memory: Memory, arguments: Arguments) -> Answer:
    """Delete, with the method of the memory that does it and the list that it takes."""
    data: Shape = getattr(memory, method)(arguments[items])
    is_change = any(data.get(each) for each in _COUNTS)
    return Answer(data=data, texts=(data["message"],), is_change=is_change)


def read_graph(memory: Memory, arguments: Arguments) -> Answer:
    """Return one page of everything; the first of several says how much there is in all."""
    cursor, limit = arguments.get("cursor"), arguments.get("limit")
    found = fitting_page(
        lambda count: memory.read_graph(limit=count, cursor=cursor),
        PAGE_ENTITIES if limit is None else limit,
        PAGE_BYTES_MAX if limit is None else ANSWER_BYTES_MAX,
    )
    if cursor is None and "nextCursor" in found:
        counts = memory.graph.counts()
        found["counts"] = {each: getattr(counts, each) for each in _COUNTS}
    return Answer(data=found, texts=(pretty(found),))


def search_nodes(memory: Memory, arguments: Arguments) -> Answer:
    """Return one page of what fits a query."""
    query, cursor = arguments["query"], arguments.get("cursor")
    found = fitting_page(
        lambda limit: memory.search_nodes(query, limit=limit, cursor=cursor),
        arguments.get("limit"),
    )
    return Answer(data=found, texts=(pretty(found),))


def open_nodes(memory: Memory, arguments: Arguments) -> Answer:
    """Return entities by name."""
    found = fitting(memory.open_nodes(arguments["names"]))
    return Answer(data=found, texts=(pretty(found),))


# --- what the tools of the policy do -------------------------------------------------------------


def record(method: str, memory: Memory, arguments: Arguments) -> Answer:
    """Record, with the method of the memory that does it."""
    return recorded(getattr(memory, method)(**facts_of(arguments)))


def facts_of(arguments: Arguments) -> dict[str, Any]:
    """Return the arguments of a record as the memory's methods name them."""
    return {_snake(name): value for name, value in arguments.items()}


def recorded(data: Shape) -> Answer:
    """Return the answer to a record."""
    fates = [data["entity"], data["observation"]]
    fates += [each["fate"] for each in (*data["relations"], *data["related"])]
    is_change = any(each in _NEW for each in fates)
    return Answer(data=data, texts=(pretty(data),), is_change=is_change)


def recall(memory: Memory, arguments: Arguments) -> Answer:
    """Return what is known about a text."""
    data = memory.recall(arguments["text"])
    return Answer(data=data, texts=(data["text"],))


def explain(memory: Memory, arguments: Arguments) -> Answer:
    """Return where facts came from."""
    data = memory.explain(arguments["name"])
    return Answer(data=data, texts=(pretty(data),))


def _snake(name: str) -> str:
    return _CAPITAL.sub(lambda found: f"_{found[0].lower()}", name)
