"""JSON Lines format: the file of the reference memory server, one entity or relation per line.

Parses and writes lines in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from onceward.memory.models import (
    NAME_BYTES_MAX,
    OBSERVATION_BYTES_MAX,
    TYPE_BYTES_MAX,
    Entity,
    Link,
    Relation,
)
from onceward.system import OpenFile

#: A longer line is not read.
LINE_BYTES_MAX: Final = 64 * 1024 * 1024

_CHUNK_BYTES: Final = 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"
_SHOWN_CHARACTERS: Final = 60


class InvalidLine(Exception):
    """A line that is neither an entity nor a relation; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class JsonlLine:
    """One line with its number."""

    number: int
    #: None if the line is too long.
    content: bytes | None
    #: Its length in bytes, with the newline.
    size: int


@dataclass(frozen=True, slots=True)
class EntityLine:
    """An entity as parsed from a line."""

    name: str
    entity_type: str
    observations: list[str]
    #: Why parts of it were skipped.
    problems: list[str]


def read_lines(file: OpenFile, size: int) -> Iterator[JsonlLine]:
    """Yield the lines of the first `size` bytes; later appends are not read."""
    number = offset = length = 0
    held: list[bytes] = []
    while offset < size:
        chunk = file.read(offset, min(_CHUNK_BYTES, size - offset))
        if not chunk:
            break
        offset += len(chunk)
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            number += 1
            yield _line(number, [*held, part], length + len(part), 1)
            held, length = [], 0
        length += len(rest)
        # The rest of a line that is too long is only counted.
        held = [*held, rest] if length <= LINE_BYTES_MAX else []
    if length:
        yield _line(number + 1, held, length, 0)


def _line(number: int, parts: list[bytes], length: int, newline: int) -> JsonlLine:
    content = b"".join(parts) if length <= LINE_BYTES_MAX else None
    return JsonlLine(number, content, length + newline)


def parse(line: JsonlLine) -> EntityLine | Link | None:
    """Return the item on a line; None for an empty line. Raises InvalidLine."""
    if line.content is None:
        message = f"is longer than {LINE_BYTES_MAX} bytes"
        raise InvalidLine(message)
    content = line.content.removeprefix(_BOM).strip() if line.number == 1 else line.content.strip()
    if not content:
        return None
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError as exc:
        message = f"is not JSON: {exc.msg} at column {exc.colno}"
        raise InvalidLine(message) from exc
    if not isinstance(found, dict):
        message = "is JSON, but not an object"
        raise InvalidLine(message)
    match found.get("type", _guessed(found)):
        case "entity":
            return _entity(found)
        case "relation":
            return Link(
                from_name=_text(found, "from", NAME_BYTES_MAX),
                to_name=_text(found, "to", NAME_BYTES_MAX),
                relation_type=_text(found, "relationType", TYPE_BYTES_MAX),
            )
        case None:
            message = "has no type"
            raise InvalidLine(message)
        case other:
            message = f"has the type {_shown(other)}, which is neither entity nor relation"
            raise InvalidLine(message)


def _guessed(found: dict[str, Any]) -> str | None:
    """Return the kind of a line without `type`, from its fields."""
    known = {"entityType": "entity", "relationType": "relation"}
    return next((kind for field, kind in known.items() if field in found), None)


def _entity(found: dict[str, Any]) -> EntityLine:
    given = found.get("observations", [])
    problems: list[str] = []
    observations: list[str] = []
    if not isinstance(given, list):
        problems.append("observations are not a list and were left out")
        given = []
    for place, each in enumerate(given):
        problem = _problem(each, OBSERVATION_BYTES_MAX)
        if problem is None:
            observations.append(each)
        else:
            problems.append(f"observations[{place}] {problem} and was left out")
    return EntityLine(
        name=_text(found, "name", NAME_BYTES_MAX),
        entity_type=_text(found, "entityType", TYPE_BYTES_MAX),
        observations=observations,
        problems=problems,
    )


def _text(found: dict[str, Any], field: str, bytes_max: int) -> str:
    value = found.get(field)
    if value is None:
        problem: str | None = "is missing"
    else:
        problem = _problem(value, bytes_max)
        problem = "is empty" if problem is None and not value.strip() else problem
    if problem is not None:
        message = f"{field} {problem}"
        raise InvalidLine(message)
    assert isinstance(value, str), field
    return value


def _problem(value: object, bytes_max: int) -> str | None:
    """Return why a string cannot be stored; the graph would reject its whole batch."""
    if not isinstance(value, str):
        return "is not a string"
    if "\0" in value:
        return "contains a NUL character"
    # At most four bytes per character: most texts need not be encoded for this check.
    if 4 * len(value) > bytes_max and len(value.encode()) > bytes_max:
        return f"is longer than {bytes_max} bytes"
    return None


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return repr(text[:_SHOWN_CHARACTERS])


def entity_line(entity: Entity) -> bytes:
    """Return an entity as a line."""
    return orjson.dumps(
        {
            "type": "entity",
            "name": entity.name,
            "entityType": entity.entity_type,
            "observations": [each.content for each in entity.observations],
        },
        option=orjson.OPT_APPEND_NEWLINE,
    )


def relation_line(relation: Relation) -> bytes:
    """Return a relation as a line."""
    return orjson.dumps(
        {
            "type": "relation",
            "from": relation.from_name,
            "to": relation.to_name,
            "relationType": relation.relation_type,
        },
        option=orjson.OPT_APPEND_NEWLINE,
    )
