"""How the memory looks to people: entities, facts and times; no text can steer a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from onceward.memory.sentences import LONG_CHARACTERS, fact, visible

if TYPE_CHECKING:
    from onceward.memory import Entity, Relation

__all__ = [
    "LONG_CHARACTERS",
    "console",
    "fact",
    "found_lines",
    "heading",
    "relation",
    "time",
    "visible",
]

_COLOURS: Final = {"Error": "red", "Warning": "yellow", "Fix": "green", "Doc": "magenta"}


def console(*, is_error: bool = False) -> Console:
    """Return where to print; without a terminal nothing is coloured and no line is broken."""
    made = Console(stderr=is_error, highlight=False, soft_wrap=True)
    return made if made.is_terminal else Console(stderr=is_error, highlight=False, width=10_000)


def time(text: str) -> str:
    """Return a moment as people read it."""
    return text[:19].replace("T", " ")


def heading(entity: Entity) -> Text:
    """Return the name of an entity, and what it is."""
    style = f"bold {_COLOURS.get(entity.entity_type, '')}".strip()
    name = (visible(entity.name, LONG_CHARACTERS), style)
    return Text.assemble(name, (f"  {visible(entity.entity_type)}", "dim"))


def relation(one: Relation, of: str) -> str:
    """Return a relation as seen from one of its ends."""
    if one.from_name == of:
        return f"→ {visible(one.relation_type)} {visible(one.to_name)}"
    return f"← {visible(one.relation_type)} {visible(one.from_name)}"


def found_lines(entity: Entity) -> Iterator[Text]:
    """Yield an entity as a list has it: its name, and the newest that is known of it."""
    yield heading(entity)
    if entity.observations:
        count = len(entity.observations)
        more = f" (+{count - 1})" if count > 1 else ""
        yield Text(f"  {fact(entity.observations[-1].content)}{more}")
