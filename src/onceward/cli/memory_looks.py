"""How the memory looks to people: entities, facts and times; no text can steer a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from onceward.memory import Entity, Relation

#: How much of one fact is shown in a list, and where it is shown alone.
SHORT_CHARACTERS: Final = 160
LONG_CHARACTERS: Final = 2_000

_COLOURS: Final = {"Error": "red", "Warning": "yellow", "Fix": "green", "Doc": "magenta"}


def console(*, is_error: bool = False) -> Console:
    """Return where to print; without a terminal nothing is coloured and no line is broken."""
    made = Console(stderr=is_error, highlight=False, soft_wrap=True)
    return made if made.is_terminal else Console(stderr=is_error, highlight=False, width=10_000)


def visible(text: str, characters: int = SHORT_CHARACTERS) -> str:
    """Return one line of text, not too long, that shows everything and does nothing."""
    line = " ".join(text.split())
    shown = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line)
    return shown if len(shown) <= characters else f"{shown[: characters - 1]}…"


def time(text: str) -> str:
    """Return a moment as people read it."""
    return text[:19].replace("T", " ")


def heading(entity: Entity) -> Text:
    """Return the name of an entity, and what it is."""
    style = f"bold {_COLOURS.get(entity.entity_type, '')}".strip()
    name = (visible(entity.name, LONG_CHARACTERS), style)
    return Text.assemble(name, (f"  {visible(entity.entity_type)}", "dim"))


def fact(content: str, characters: int = SHORT_CHARACTERS) -> str:
    """Return what was observed, in words."""
    from onceward.memory.envelope import parse

    envelope = parse(content)
    if envelope is None:
        return visible(content, characters)
    told = _TOLD[envelope.kind](envelope.data)
    return visible(told, characters)


def _issue(data: dict[str, Any]) -> str:
    where = f" in {data['context']}" if isinstance(data.get("context"), str) else ""
    return f"{data.get('message')} ({data.get('kind')}, found by {data.get('detector')}{where})"


def _command(data: dict[str, Any]) -> str:
    where = f" in {data['cwd']}" if data.get("cwd") else ""
    return f"exit code {data.get('exitCode')}{where}: {data.get('cmd')}"


def _fix(data: dict[str, Any]) -> str:
    changes = data.get("changes") or []
    told = "".join(f"; {each}" for each in changes) if isinstance(changes, list) else ""
    return f"{data.get('result')}: {data.get('strategy')}{told}"


def _outcome(data: dict[str, Any]) -> str:
    status = str(data.get("status")).replace("_", " ")
    return f"{status} by {data.get('verificationMethod')}"


def _doc(data: dict[str, Any]) -> str:
    parts = (data.get("title"), data.get("url"), data.get("excerpt"))
    return " · ".join(str(part) for part in parts if part)


def _run(data: dict[str, Any]) -> str:
    took = data.get("durationMs")
    seconds = f", {took / 1000:.1f} s" if isinstance(took, int | float) else ""
    return f"{data.get('summary')}{seconds}"


_TOLD: Final = {
    "command.exec": _command,
    "error.capture": _issue,
    "warning.capture": _issue,
    "fix.apply": _fix,
    "fix.outcome": _outcome,
    "doc.note": _doc,
    "run.summary": _run,
}


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
