"""JSON Lines export: write the graph as a file, entities in order, then relations.

Reads page by page in bounded memory; the same graph gives the same bytes. `jsonl_import` and the
reference memory server read the format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onceward.errors import Conflict, InvalidArgument
from onceward.journal.file_lock import open_locked, unlock_and_close
from onceward.memory.graph import Graph
from onceward.memory.jsonl_format import entity_line, relation_line
from onceward.memory.models import Subgraph
from onceward.system import Files, SystemFiles

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
            message = f"path: {path} is not a regular file; nothing was written"
            fix = "pass another file, or leave it out to write to standard output"
            raise InvalidArgument(message, fix=fix, field="path")
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
