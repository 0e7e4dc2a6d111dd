"""Tool results: structured content and text, bounded in size.

A page that is too large becomes a smaller page. An entity that is too large alone loses its oldest
observations, and the result has `isCut` set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import orjson

from onceward.errors import InvalidArgument
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
        message = f"names: the result has more than {RESULT_BYTES_MAX} bytes; nothing was returned"
        raise InvalidArgument(message, fix="request fewer names", field="names")
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
