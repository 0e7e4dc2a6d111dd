"""Answers: what a tool gives back, as data and as text, and never too much of it.

Owns the size of an answer: a page that grows too large becomes a smaller page, and an entity that
alone is too large loses its oldest observations, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import orjson

from onceward.errors import InvalidArgument
from onceward.memory.shapes import Shape

#: As JSON without white space; what travels is the data and the same once more as text.
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
T = TypeVar("T")
#: What an entity or a relation takes besides its texts.
_FRAME_BYTES: Final = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a call came to."""

    data: Shape
    #: For models and people: first what clients of such servers read, then what is worth knowing.
    texts: tuple[str, ...]
    #: Whether the graph is, or may be, another one than before.
    is_change: bool = False


def pretty(value: object) -> str:
    """Return JSON for a model to read."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def fitting_page(
    ask: Callable[[int | None], Shape], limit: int | None, bytes_max: int = ANSWER_BYTES_MAX
) -> Shape:
    """Return the page that `ask` gives for a limit, or a smaller one if it would be too large.

    A page that was cut is too large as well: some of its entities would look as if they had no
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


def fitting(found: Shape) -> Shape:
    """Return a graph that fits: all its entities, with the newest of their observations.

    Leaving out an entity would say that it does not exist.
    """
    if _size(found) <= ANSWER_BYTES_MAX:
        return found
    frames = [_size([each["name"], each["entityType"]]) for each in found["entities"]]
    left = ANSWER_BYTES_MAX - sum(frames) - _FRAME_BYTES * len(frames)
    if left < 0:
        message = f"names: the answer would take more than {ANSWER_BYTES_MAX} bytes"
        raise InvalidArgument(message, fix="ask for fewer names", field="names")
    entities = []
    for index, each in enumerate(found["entities"]):
        # Each may have its part of what is left, and what it leaves goes to those behind it.
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
