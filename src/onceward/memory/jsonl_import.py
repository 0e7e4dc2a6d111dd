"""JSON Lines import: read a file of entities and relations into the graph.

The format is that of the reference memory server. The file is read twice, entities first, so line
order does not matter; a pipe is copied to disk. Each batch is one transaction, and the import is
idempotent, so an interrupted one can be run again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from onceward.errors import FileMissing, InvalidArgument, WrongPath
from onceward.memory.client import Memory
from onceward.memory.jsonl_format import EntityLine, InvalidLine, JsonlLine, parse, read_lines
from onceward.memory.models import (
    EntityResult,
    Link,
    NewEntity,
    ObservationResult,
    RelationResult,
    WriteBatch,
    WriteOrigin,
    WriteResult,
    WriteStatus,
)
from onceward.system import Files, OpenFile, SystemFiles, mapped_os_errors

#: The source of imported items.
SOURCE: Final = "import"
#: Limits of one transaction: lines, items and bytes.
BATCH_LINES_MAX: Final = 2_000
BATCH_ITEMS_MAX: Final = 10_000
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024

_CHUNK_BYTES: Final = 1024 * 1024
#: The position in the batch, in the field name of a validation error.
_FIELD: Final = re.compile(r"(?:entities|relations)\[(\d+)\](?:\.observations\[(\d+)\])?")


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportProblem:
    """A skipped part of the file."""

    line: int
    reason: str


@dataclass(kw_only=True, slots=True)
class ImportProgress:
    """Progress of an import, with the numbers of new and existing items."""

    bytes_total: int
    #: Bytes read so far, in both passes.
    bytes_done: int = 0
    #: Lines of the file.
    lines: int = 0
    #: Items created, and items that existed.
    entities_new: int = 0
    entities_known: int = 0
    observations_new: int = 0
    observations_known: int = 0
    relations_new: int = 0
    relations_known: int = 0
    #: Problems reported.
    problems: int = 0


#: The word index is merged after an import of this many new items.
MERGE_FROM: Final = 10_000
#: The number of a line, and what it holds.
_Item = tuple[int, NewEntity | Link]
OnImportProgress = Callable[[ImportProgress], None]
OnImportProblem = Callable[[ImportProblem], None]


def import_file(
    memory: Memory,
    path: Path,
    *,
    on_progress: OnImportProgress = lambda _: None,
    on_problem: OnImportProblem = lambda _: None,
    files: Files | None = None,
) -> ImportProgress:
    """Import a file; invalid lines and relations without their entities are reported and skipped.

    Idempotent: a second run adds only what is missing.
    """
    with _opened(path, files or SystemFiles()) as file:
        size = file.stat().size
        run = _Import(memory, ImportProgress(bytes_total=2 * size), on_progress, on_problem)
        run.entities(read_lines(file, size))
        run.relations(read_lines(file, size))
    if run.done.entities_new + run.done.observations_new >= MERGE_FROM:
        memory.graph.merge_words()
    run.done.bytes_done = run.done.bytes_total
    on_progress(run.done)
    return run.done


@contextmanager
def _opened(path: Path, files: Files) -> Iterator[OpenFile]:
    """Open the file, or a copy on disk of a stream that can be read only once."""
    if path.is_dir():
        message = f"{path} is a directory; nothing was imported"
        raise WrongPath(message, fix="pass a JSON Lines file", path=str(path))
    if files.stat(path) is not None and not path.is_file():
        with TemporaryDirectory(prefix="onceward-import-") as directory:
            copy = files.open_append(Path(directory) / "memory.jsonl")
            with closing(copy):
                _copy(path, copy)
                yield copy
        return
    try:
        file = files.open_read(path)
    except FileMissing as exc:
        raise FileMissing(exc.message, fix="pass an existing file", path=str(path)) from exc
    with closing(file):
        yield file


def _copy(path: Path, copy: OpenFile) -> None:
    with mapped_os_errors(path, "read"), path.open("rb", buffering=0) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            rest = chunk
            while rest:
                rest = rest[copy.write(rest) :]


class _Import:
    """One import run."""

    def __init__(
        self,
        memory: Memory,
        done: ImportProgress,
        on_progress: OnImportProgress,
        on_problem: OnImportProblem,
    ) -> None:
        self._memory = memory
        self.done = done
        self._on_progress, self._on_problem = on_progress, on_problem
        #: The last line whose ignored type was reported.
        self._retyped = 0

    def entities(self, lines: Iterable[JsonlLine]) -> None:
        """Import the entities, and report invalid lines."""
        batch: list[_Item] = []
        items = size = 0
        for line in lines:
            self.done.lines = line.number
            self.done.bytes_done += line.size
            size += line.size
            for entity in self._entities_of(line):
                batch.append((line.number, entity))
                items += 1 + len(entity.observations)
                if items >= BATCH_ITEMS_MAX or len(batch) >= BATCH_LINES_MAX:
                    self._write(batch)
                    batch, items, size = [], 0, 0
            if size >= BATCH_BYTES_MAX:
                self._write(batch)
                batch, items, size = [], 0, 0
        self._write(batch)

    def relations(self, lines: Iterable[JsonlLine]) -> None:
        """Import the relations; invalid lines were reported in the first pass."""
        batch: list[_Item] = []
        for line in lines:
            self.done.bytes_done += line.size
            # Skip lines that cannot be relations without parsing them.
            if line.content is None or b"elation" not in line.content:
                continue
            with suppress(InvalidLine):
                if isinstance(found := parse(line), Link):
                    batch.append((line.number, found))
            if len(batch) >= BATCH_LINES_MAX:
                self._write(batch)
                batch = []
        self._write(batch)

    def _entities_of(self, line: JsonlLine) -> Iterator[NewEntity]:
        """Yield the entity of a line, split if it is too large for one batch."""
        try:
            found = parse(line)
        except InvalidLine as exc:
            self._report(line.number, str(exc))
            return
        if not isinstance(found, EntityLine):
            return
        for problem in found.problems:
            self._report(line.number, problem)
        step = BATCH_ITEMS_MAX - 1
        for start in range(0, len(found.observations) or 1, step):
            yield NewEntity(
                name=found.name,
                entity_type=found.entity_type,
                observations=tuple(found.observations[start : start + step]),
            )

    def _write(self, batch: list[_Item]) -> None:
        """Write the entities or the relations of a batch; report what is left out of it."""
        while batch:
            try:
                written = self._write_once([each for _, each in batch])
            except InvalidArgument as exc:
                batch = self._without_rejected(batch, exc)
                continue
            self._count(written)
            self._report_left_out(batch, written)
            break
        self._on_progress(self.done)

    def _write_once(self, items: Sequence[NewEntity | Link]) -> WriteResult:
        batch = WriteBatch(
            entities=tuple(each for each in items if isinstance(each, NewEntity)),
            relations=tuple(each for each in items if isinstance(each, Link)),
            is_best_effort=True,
        )
        with self._memory.calls.begin("import") as call:
            return call.run(lambda: self._memory.graph.write(batch, WriteOrigin(source=SOURCE)))

    def _without_rejected(self, batch: list[_Item], exc: InvalidArgument) -> list[_Item]:
        """Report the item that the graph rejected, and return the batch without it."""
        at, place = _rejected_position(exc, len(batch))
        number, item = batch[at]
        self._report(number, _reason(exc))
        if place is None or isinstance(item, Link):
            return [*batch[:at], *batch[at + 1 :]]
        kept = (*item.observations[:place], *item.observations[place + 1 :])
        return [*batch[:at], (number, replace(item, observations=kept)), *batch[at + 1 :]]

    def _report_left_out(self, batch: list[_Item], written: WriteResult) -> None:
        """Report rejected relations, and entities that exist with another type, which they keep."""
        types = {each.name: each.entity_type for each in written.entities}
        reasons = {each.link: each.reason for each in written.relations if each.reason}
        clean, stored = self._memory.graph.redactor.text, self._memory.graph.stored_form
        for number, item in batch if types or reasons else ():
            if isinstance(item, Link):
                link = Link(
                    from_name=stored(item.from_name),
                    to_name=stored(item.to_name),
                    relation_type=clean(item.relation_type),
                )
                if link in reasons:
                    self._report(number, f"the relation was left out: {reasons[link]}")
                continue
            name, kind = stored(item.name), item.entity_type
            # A split entity is reported once.
            if types[name] not in (kind, clean(kind)) and number != self._retyped:
                self._report(number, f"its type was left out: {name!r} stays {types[name]!r}")
                self._retyped = number

    def _count(self, written: WriteResult) -> None:
        done = self.done
        new, known = _new_and_known(written.entities)
        done.entities_new += new
        done.entities_known += known
        new, known = _new_and_known(written.observations)
        done.observations_new += new
        done.observations_known += known
        new, known = _new_and_known(written.relations)
        done.relations_new += new
        done.relations_known += known

    def _report(self, line: int, reason: str) -> None:
        self.done.problems += 1
        self._on_problem(ImportProblem(line=line, reason=reason))


def _new_and_known(
    results: Sequence[EntityResult | ObservationResult | RelationResult],
) -> tuple[int, int]:
    known = sum(each.status is WriteStatus.KNOWN for each in results)
    refused = sum(each.status is WriteStatus.REFUSED for each in results)
    return len(results) - known - refused, known


def _rejected_position(exc: InvalidArgument, count: int) -> tuple[int, int | None]:
    """Return the batch index, and the observation index if any, of a validation error."""
    found = _FIELD.search(str(exc.context.get("field", "")))
    if found is None or int(found[1]) >= count:
        raise exc
    return int(found[1]), int(found[2]) if found[2] else None


def _reason(exc: InvalidArgument) -> str:
    """Return the message of an error without its batch position."""
    return _FIELD.sub("", exc.message).lstrip(".: ")
