"""Exporting: everything in the graph as JSON lines: entities as they came, then relations.

A page at a time, so that memory stays small; the same graph gives the same bytes. What `importing`
reads, and the reference memory server too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onceward.errors import Conflict, InvalidArgument
from onceward.journal.locked import give_back, open_locked
from onceward.memory.graph import Graph
from onceward.memory.jsonl import entity_line, relation_line
from onceward.memory.models import Subgraph
from onceward.seams import Files, SystemFiles

PAGE_ENTITIES: Final = 1_000
_BLOCK_BYTES: Final = 1024 * 1024

Sink = Callable[[bytes], None]


@dataclass(kw_only=True, slots=True)
class Exported:
    """How far an export has come."""

    entities: int = 0
    observations: int = 0
    relations: int = 0
    #: Names of entities that hold more than one answer does; only the newest of it was written.
    cut: list[str] = field(default_factory=list)


Progress = Callable[[Exported], None]


def export(graph: Graph, write: Sink, *, on_progress: Progress = lambda _: None) -> Exported:
    """Write everything, in blocks of whole lines.

    What others write meanwhile may be part of it or not.
    """
    done = Exported()
    for page in _pages(graph):
        done.entities += len(page.entities)
        done.observations += sum(len(each.observations) for each in page.entities)
        if page.is_cut:
            done.cut += [each.name for each in page.entities]
        _write(write, map(entity_line, page.entities))
        on_progress(done)
    for page in _pages(graph):
        done.relations += len(page.relations)
        # By where they begin: that does not depend on how the pages fall.
        place = {each.name: number for number, each in enumerate(page.entities)}
        ordered = sorted(page.relations, key=lambda each: (place[each.from_name], each.id))
        _write(write, map(relation_line, ordered))
        on_progress(done)
    return done


def _pages(graph: Graph) -> Iterator[Subgraph]:
    """Yield all pages; smaller ones where entities hold so much that a page would be cut."""
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
    """Make a file that has its name once it is complete and durable, and not before."""
    disk = files or SystemFiles()
    if disk.stat(path) is not None:
        if not path.is_file():  # Our file would take the place of a pipe or a device.
            message = f"path: {path} is not a regular file"
            fix = "name another file, or none to write to standard output"
            raise InvalidArgument(message, fix=fix, field="path")
        if not replace:
            message = f"{path} exists"
            raise Conflict(message, fix="name another file, or pass --force", path=str(path))
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
        give_back(file)
