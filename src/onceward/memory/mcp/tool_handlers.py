"""Tool handlers: run each tool with its validated arguments, and return a result of bounded size.

A page that is too large becomes a smaller page. An entity that is too large alone loses its oldest
observations, and the result has `isCut` set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import orjson

from onceward.errors.arguments import reject_field
from onceward.memory.client import Memory
from onceward.memory.serialization import JsonObject

#: Of compact JSON; a response contains the data twice, structured and as text.
RESULT_BYTES_MAX: Final = 4 * 1024 * 1024
T = TypeVar("T")
#: JSON overhead of an entity or a relation.
_FRAME_BYTES: Final = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolResult:
    """The result of a tool call."""

    data: JsonObject
    #: Text content: first what clients of the reference server expect, then additions.
    texts: tuple[str, ...]
    #: Whether the call changed, or may have changed, the graph.
    is_change: bool = False


def pretty(value: object) -> str:
    """Return indented JSON."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def fitting_page(
    ask: Callable[[int | None], JsonObject], limit: int | None, bytes_max: int = RESULT_BYTES_MAX
) -> JsonObject:
    """Return the page that `ask` returns for a limit, or a smaller one that fits.

    A truncated page is replaced as well, because some of its entities would appear to have no
    observations.
    """
    found = ask(limit)
    while (count := len(found["entities"])) > 1:
        size = _size(found)
        if size <= bytes_max and not found.get("isCut"):
            break
        wanted = count * bytes_max // size if size > bytes_max else count // 2
        found = ask(max(1, min(count - 1, wanted)))
    return fitting(found)


def fitting(found: JsonObject) -> JsonObject:
    """Return all entities of a graph, with as many of their newest observations as fit.

    Leaving out an entity would imply that it does not exist.
    """
    if _size(found) <= RESULT_BYTES_MAX:
        return found
    frames = [_size([each["name"], each["entityType"]]) for each in found["entities"]]
    left = RESULT_BYTES_MAX - sum(frames) - _FRAME_BYTES * len(frames)
    if left < 0:
        problem = f"the result has more than {RESULT_BYTES_MAX} bytes; nothing was returned"
        reject_field("names", problem, "request fewer names")
    entities = []
    for index, each in enumerate(found["entities"]):
        # Each entity gets an equal share of the remaining bytes; unused bytes go to later ones.
        kept = _newest(each["observations"], left // (len(frames) - index))
        left -= _size(kept)
        entities.append({**each, "observations": kept})
    relations = _newest(found["relations"], left)
    return {**found, "entities": entities, "relations": relations, "isCut": True}


def _newest(items: list[T], size: int) -> list[T]:
    """Return as many of the last items as fit."""
    start = len(items)
    while start and (size := size - _size(items[start - 1]) - 1) >= 2:
        start -= 1
    return items[start:]


def _size(value: object) -> int:
    return len(orjson.dumps(value))


Arguments = Mapping[str, Any]

_CAPITAL: Final = re.compile(r"[A-Z]")
#: Default page of read_graph, small enough for a model's context.
PAGE_ENTITIES: Final = 100
PAGE_BYTES_MAX: Final = 64 * 1024
#: Statuses of items that the call added.
_NEW: Final = frozenset({"created", "restored"})
_COUNTS: Final = ("entities", "observations", "relations")


# --- general tools -------------------------------------------------------------------------------


def create_entities(memory: Memory, arguments: Arguments) -> ToolResult:
    """Create entities, and add observations to existing ones."""
    data = memory.create_entities(arguments["entities"])
    known = data.pop("known")
    texts = [pretty(data["entities"])]
    texts += [f"Already known: {pretty(known)}"] if known else []
    is_change = bool(data["entities"]) or any(each["addedObservations"] for each in known)
    # Without existing entities the result is that of the reference server.
    structured = {**data, "known": known} if known else data
    return ToolResult(data=structured, texts=tuple(texts), is_change=is_change)


def create_relations(memory: Memory, arguments: Arguments) -> ToolResult:
    """Create relations between existing entities."""
    data = memory.create_relations(arguments["relations"])
    texts = (pretty(data["relations"]),)
    return ToolResult(data=data, texts=texts, is_change=bool(data["relations"]))


def add_observations(memory: Memory, arguments: Arguments) -> ToolResult:
    """Add observations to existing entities."""
    data = memory.add_observations(arguments["observations"])
    is_change = any(each["addedObservations"] for each in data["results"])
    return ToolResult(data=data, texts=(pretty(data["results"]),), is_change=is_change)


def delete(method: str, items: str, memory: Memory, arguments: Arguments) -> ToolResult:
    """Delete with this method of the client and this list argument."""
    data: JsonObject = getattr(memory, method)(arguments[items])
    is_change = any(data.get(each) for each in _COUNTS)
    return ToolResult(data=data, texts=(data["message"],), is_change=is_change)


def read_graph(memory: Memory, arguments: Arguments) -> ToolResult:
    """Return one page of the graph; the first of several pages includes the counts."""
    cursor, limit = arguments.get("cursor"), arguments.get("limit")
    found = fitting_page(
        lambda count: memory.read_graph(limit=count, cursor=cursor),
        PAGE_ENTITIES if limit is None else limit,
        PAGE_BYTES_MAX if limit is None else RESULT_BYTES_MAX,
    )
    if cursor is None and "nextCursor" in found:
        counts = memory.graph.counts()
        found["counts"] = {each: getattr(counts, each) for each in _COUNTS}
    return ToolResult(data=found, texts=(pretty(found),))


def search_nodes(memory: Memory, arguments: Arguments) -> ToolResult:
    """Return one page of search results."""
    query, cursor = arguments["query"], arguments.get("cursor")
    found = fitting_page(
        lambda limit: memory.search_nodes(query, limit=limit, cursor=cursor),
        arguments.get("limit"),
    )
    return ToolResult(data=found, texts=(pretty(found),))


def open_nodes(memory: Memory, arguments: Arguments) -> ToolResult:
    """Return entities by name."""
    found = fitting(memory.open_nodes(arguments["names"]))
    return ToolResult(data=found, texts=(pretty(found),))


# --- policy tools --------------------------------------------------------------------------------


def record(method: str, memory: Memory, arguments: Arguments) -> ToolResult:
    """Record with this method of the client."""
    return record_result(getattr(memory, method)(**facts_of(arguments)))


def facts_of(arguments: Arguments) -> dict[str, Any]:
    """Return tool arguments under the parameter names of the client's methods."""
    return {_snake(name): value for name, value in arguments.items()}


def record_result(data: JsonObject) -> ToolResult:
    """Return the tool result of a record."""
    statuses = [data["entity"], data["observation"]]
    statuses += [each["status"] for each in (*data["relations"], *data["related"])]
    is_change = any(each in _NEW for each in statuses)
    return ToolResult(data=data, texts=(pretty(data),), is_change=is_change)


def recall(memory: Memory, arguments: Arguments) -> ToolResult:
    """Return what is known about a text."""
    data = memory.recall(arguments["text"])
    return ToolResult(data=data, texts=(data["text"],))


def explain(memory: Memory, arguments: Arguments) -> ToolResult:
    """Return the provenance of an entity."""
    data = memory.explain(arguments["name"])
    return ToolResult(data=data, texts=(pretty(data),))


def _snake(name: str) -> str:
    return _CAPITAL.sub(lambda found: f"_{found[0].lower()}", name)
