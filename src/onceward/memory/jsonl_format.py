"""JSON Lines format: the file of the reference memory server, one entity or relation per line.

Parses lines, and writes the whole graph, entities in order, then relations. Both take bounded
memory; the same graph gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from onceward.errors import Conflict
from onceward.errors.arguments import reject_field
from onceward.journal.file_lock import open_locked, unlock_and_close
from onceward.memory.graph import Graph
from onceward.memory.models import (
    NAME_BYTES_MAX,
    OBSERVATION_BYTES_MAX,
    TYPE_BYTES_MAX,
    Entity,
    Link,
    Relation,
    Subgraph,
)
from onceward.system import Files, OpenFile, SystemFiles

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


# --- the whole graph ------------------------------------------------------------------------------

PAGE_ENTITIES: Final = 1_000
_BLOCK_BYTES: Final = 1024 * 1024

Sink = Callable[[bytes], None]


@dataclass(kw_only=True, slots=True)
class ExportProgress:
    """Progress of an export."""

    entities: int = 0
    observations: int = 0
    relations: int = 0
    #: Entities that exceed the limits of an answer; only their newest parts were written.
    cut: list[str] = field(default_factory=list)


OnExportProgress = Callable[[ExportProgress], None]


def export(
    graph: Graph, write: Sink, *, on_progress: OnExportProgress = lambda _: None
) -> ExportProgress:
    """Write the graph in blocks of complete lines.

    Concurrent writes may or may not be included.
    """
    done = ExportProgress()
    for page in _pages(graph):
        done.entities += len(page.entities)
        done.observations += sum(len(each.observations) for each in page.entities)
        if page.is_cut:
            done.cut += [each.name for each in page.entities]
        _write(write, map(entity_line, page.entities))
        on_progress(done)
    for page in _pages(graph):
        done.relations += len(page.relations)
        # Ordered by source entity, which does not depend on the page size.
        place = {each.name: number for number, each in enumerate(page.entities)}
        ordered = sorted(page.relations, key=lambda each: (place[each.from_name], each.id))
        _write(write, map(relation_line, ordered))
        on_progress(done)
    return done


def _pages(graph: Graph) -> Iterator[Subgraph]:
    """Yield all pages, with smaller pages where one would exceed the limits of an answer."""
    cursor, limit = None, PAGE_ENTITIES
    while True:
        page = graph.read(limit=limit, cursor=cursor)
        if page.is_cut and limit > 1:
            limit //= 2
            continue
        yield page
        if page.next_cursor is None:
            return
        cursor, limit = page.next_cursor, min(2 * limit, PAGE_ENTITIES)


def _write(write: Sink, lines: Iterator[bytes]) -> None:
    block = bytearray()
    for line in lines:
        block += line
        if len(block) >= _BLOCK_BYTES:
            write(bytes(block))
            block.clear()
    if block:
        write(bytes(block))


@contextmanager
def new_file(path: Path, *, replace: bool = False, files: Files | None = None) -> Iterator[Sink]:
    """Write a file atomically: it gets its name only when it is complete and durable."""
    disk = files or SystemFiles()
    if disk.stat(path) is not None:
        if not path.is_file():  # Never replace a pipe or a device.
            fix = "pass another file, or leave it out to write to standard output"
            reject_field("path", f"{path} is not a regular file; nothing was written", fix)
        if not replace:
            message = f"{path} exists; nothing was written"
            fix = "pass another file, or --yes to replace it"
            raise Conflict(message, fix=fix, path=str(path))
    temporary = path.with_name(f".{path.name}.tmp")
    file, _ = open_locked(temporary, disk, follow_links=False)
    try:
        file.truncate(0)

        def write(data: bytes) -> None:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(bytes(rest)) :]

        yield write
        file.sync()
        disk.replace(temporary, path)
        disk.sync_directory(path.parent)
    except BaseException:
        disk.remove(temporary)
        raise
    finally:
        unlock_and_close(file)
