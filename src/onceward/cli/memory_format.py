"""Memory format: entities, facts and times as terminal text, without control characters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from onceward.memory.fact_text import DETAIL_CHARACTERS_MAX, fact_text, printable_line

if TYPE_CHECKING:
    from onceward.memory import Entity, Relation

__all__ = [
    "DETAIL_CHARACTERS_MAX",
    "console",
    "fact_text",
    "found_lines",
    "heading",
    "printable_line",
    "relation",
    "time",
]

_COLOURS: Final = {"Error": "red", "Warning": "yellow", "Fix": "green", "Doc": "magenta"}


def console(*, is_error: bool = False) -> Console:
    """Return a console; without a terminal it neither colours nor wraps lines."""
    made = Console(stderr=is_error, highlight=False, soft_wrap=True)
    return made if made.is_terminal else Console(stderr=is_error, highlight=False, width=10_000)


def time(text: str) -> str:
    """Return a time in a readable form."""
    return text[:19].replace("T", " ")


def heading(entity: Entity) -> Text:
    """Return the name and the type of an entity."""
    style = f"bold {_COLOURS.get(entity.entity_type, '')}".strip()
    name = (printable_line(entity.name, DETAIL_CHARACTERS_MAX), style)
    return Text.assemble(name, (f"  {printable_line(entity.entity_type)}", "dim"))


def relation(one: Relation, of: str) -> str:
    """Return a relation as seen from one of its entities."""
    if one.from_name == of:
        return f"→ {printable_line(one.relation_type)} {printable_line(one.to_name)}"
    return f"← {printable_line(one.relation_type)} {printable_line(one.from_name)}"


def found_lines(entity: Entity) -> Iterator[Text]:
    """Yield an entity as a list item: its name, and its newest observation."""
    yield heading(entity)
    if entity.observations:
        count = len(entity.observations)
        more = f" (+{count - 1})" if count > 1 else ""
        yield Text(f"  {fact_text(entity.observations[-1].content)}{more}")
