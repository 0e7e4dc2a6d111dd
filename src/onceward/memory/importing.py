"""Importing: a file of entities and relations, line by line, into the graph.

The file is that of the reference memory server: an entity or a relation as JSON in every line. Read
twice, entities first, so that their order does not matter; a pipe from a copy on disk. In batches,
each one transaction, so that memory stays small and whatever stops an import, it can be run again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from onceward.errors import FileMissing, InvalidArgument, WrongPath
from onceward.memory.client import Memory
from onceward.memory.jsonl import Broken, EntityLine, Line, parse, read_lines
from onceward.memory.models import Batch, Fate, Link, NewEntity, Origin, Written
from onceward.seams import Files, OpenFile, SystemFiles, translated

#: Who wrote it, in the origin of everything that is imported.
SOURCE: Final = "import"
#: What one transaction takes: so many lines, observations and bytes.
BATCH_LINES_MAX: Final = 2_000
BATCH_ITEMS_MAX: Final = 10_000
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024

_CHUNK_BYTES: Final = 1024 * 1024
#: How an error of the graph names the line of the batch that it is about.
_FIELD: Final = re.compile(r"(?:entities|relations)\[(\d+)\](?:\.observations\[(\d+)\])?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Something in the file that was left out."""

    line: int
    reason: str


@dataclass(kw_only=True, slots=True)
class Imported:
    """How far an import has come, and what became of what it read."""

    bytes_total: int
    #: Read so far; each pass counts.
    bytes_done: int = 0
    #: Lines of the file.
    lines: int = 0
    #: Those that were not there, and those that were.
    entities_new: int = 0
    entities_known: int = 0
    observations_new: int = 0
    observations_known: int = 0
    relations_new: int = 0
    relations_known: int = 0
    #: How many problems were told.
    problems: int = 0


#: So much that is new is worth an index of words that is merged whole.
MERGE_FROM: Final = 10_000
Progress = Callable[[Imported], None]
Report = Callable[[Problem], None]


def import_file(
    memory: Memory,
    path: Path,
    *,
    on_progress: Progress = lambda _: None,
    on_problem: Report = lambda _: None,
    files: Files | None = None,
) -> Imported:
    """Add what a file holds; broken lines, and relations to nowhere, are told and skipped.

    Idempotent: to run it again, after a crash or for good measure, adds only what is missing.
    """
    with _opened(path, files or SystemFiles()) as file:
        size = file.stat().size
        run = _Import(memory, Imported(bytes_total=2 * size), on_progress, on_problem)
        run.entities(read_lines(file, size))
        run.relations(read_lines(file, size))
    if run.done.entities_new + run.done.observations_new >= MERGE_FROM:
        memory.graph.merge_words()
    run.done.bytes_done = run.done.bytes_total
    on_progress(run.done)
    return run.done


@contextmanager
def _opened(path: Path, files: Files) -> Iterator[OpenFile]:
    """Give the file, or a copy of what can be read only once, such as a pipe."""
    if path.is_dir():
        message = f"{path} is a directory"
        raise WrongPath(message, fix="name a file", path=str(path))
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
        raise FileMissing(exc.message, fix="name a file that is there", path=str(path)) from exc
    with closing(file):
        yield file


def _copy(path: Path, copy: OpenFile) -> None:
    with translated(path, "read"), path.open("rb", buffering=0) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            rest = chunk
            while rest:
                rest = rest[copy.write(rest) :]


class _Import:
    """One import."""

    def __init__(
        self, memory: Memory, done: Imported, on_progress: Progress, on_problem: Report
    ) -> None:
        self._memory = memory
        self.done = done
        self._on_progress, self._on_problem = on_progress, on_problem
        #: The line of which it was told last that its type was left out.
        self._retyped = 0

    def entities(self, lines: Iterable[Line]) -> None:
        """Add the entities; what is broken is told here, once."""
        batch: list[tuple[int, NewEntity]] = []
        items = size = 0
        for line in lines:
            self.done.lines = line.number
            self.done.bytes_done += line.size
            size += line.size
            for entity in self._entities_of(line):
                batch.append((line.number, entity))
                items += 1 + len(entity.observations)
                if items >= BATCH_ITEMS_MAX or len(batch) >= BATCH_LINES_MAX:
                    self._write_entities(batch)
                    batch, items, size = [], 0, 0
            if size >= BATCH_BYTES_MAX:
                self._write_entities(batch)
                batch, items, size = [], 0, 0
        self._write_entities(batch)

    def relations(self, lines: Iterable[Line]) -> None:
        """Add the relations; what was broken was told before."""
        batch: list[tuple[int, Link]] = []
        for line in lines:
            self.done.bytes_done += line.size
            # Most lines are none, and need not be read again to see that.
            if line.content is None or b"elation" not in line.content:
                continue
            try:
                found = parse(line)
            except Broken:
                continue
            if isinstance(found, Link):
                batch.append((line.number, found))
            if len(batch) >= BATCH_LINES_MAX:
                self._write_relations(batch)
                batch = []
        self._write_relations(batch)

    def _entities_of(self, line: Line) -> Iterator[NewEntity]:
        """Yield the entity of a line, in pieces if it is too much for one batch."""
        try:
            found = parse(line)
        except Broken as exc:
            self._tell(line.number, str(exc))
            return
        if not isinstance(found, EntityLine):
            return
        for problem in found.problems:
            self._tell(line.number, problem)
        step = BATCH_ITEMS_MAX - 1
        for start in range(0, len(found.observations) or 1, step):
            yield NewEntity(
                name=found.name,
                entity_type=found.entity_type,
                observations=tuple(found.observations[start : start + step]),
            )

    def _write_entities(self, batch: list[tuple[int, NewEntity]]) -> None:
        while batch:
            try:
                written = self._write(Batch(entities=tuple(entity for _, entity in batch)))
            except InvalidArgument as exc:
                batch = self._without_refused(batch, exc)
            else:
                self._count(written)
                self._tell_types(batch, written)
                break
        self._on_progress(self.done)

    def _tell_types(self, batch: list[tuple[int, NewEntity]], written: Written) -> None:
        """Tell of entities that are there with another type, which they keep."""
        kept = {each.name: each.entity_type for each in written.entities}
        clean = self._memory.graph.redactor.text
        for number, entity in batch:
            name = self._stored(entity.name)
            kind = entity.entity_type
            # A long entity comes in pieces, and is told of once.
            if kept[name] != kind and kept[name] != clean(kind) and number != self._retyped:
                self._tell(number, f"its type was left out: {name!r} stays {kept[name]!r}")
                self._retyped = number

    def _without_refused(
        self, batch: list[tuple[int, NewEntity]], exc: InvalidArgument
    ) -> list[tuple[int, NewEntity]]:
        """Tell what the graph refused, and return the batch without it."""
        at, place = _refused_at(exc, len(batch))
        number, entity = batch[at]
        self._tell(number, _reason(exc))
        if place is None:
            return [*batch[:at], *batch[at + 1 :]]
        kept = (*entity.observations[:place], *entity.observations[place + 1 :])
        slim = NewEntity(name=entity.name, entity_type=entity.entity_type, observations=kept)
        return [*batch[:at], (number, slim), *batch[at + 1 :]]

    def _write_relations(self, batch: list[tuple[int, Link]]) -> None:
        while batch:
            links = tuple(link for _, link in batch)
            try:
                written = self._write(Batch(relations=links, is_best_effort=True))
            except InvalidArgument as exc:
                at, _ = _refused_at(exc, len(batch))
                self._tell(batch[at][0], _reason(exc))
                batch = [*batch[:at], *batch[at + 1 :]]
                continue
            self._count(written)
            self._tell_refused(batch, written)
            break
        self._on_progress(self.done)

    def _tell_refused(self, batch: list[tuple[int, Link]], written: Written) -> None:
        reasons = {each.link: each.reason for each in written.relations if each.reason}
        clean = self._memory.graph.redactor.text
        for number, link in batch if reasons else ():
            stored = Link(
                from_name=self._stored(link.from_name),
                to_name=self._stored(link.to_name),
                relation_type=clean(link.relation_type),
            )
            if stored in reasons:
                self._tell(number, f"the relation was left out: {reasons[stored]}")

    def _stored(self, name: str) -> str:
        return self._memory.graph.meant(name)[0]

    def _write(self, batch: Batch) -> Written:
        with self._memory.calls.begin("import") as call:
            return call.attempt(lambda: self._memory.graph.write(batch, Origin(source=SOURCE)))

    def _count(self, written: Written) -> None:
        done = self.done
        entities = [each.fate is not Fate.KNOWN for each in written.entities]
        observations = [each.fate is not Fate.KNOWN for each in written.observations]
        relations = [
            each.fate is not Fate.KNOWN
            for each in written.relations
            if each.fate is not Fate.REFUSED
        ]
        done.entities_new += sum(entities)
        done.entities_known += len(entities) - sum(entities)
        done.observations_new += sum(observations)
        done.observations_known += len(observations) - sum(observations)
        done.relations_new += sum(relations)
        done.relations_known += len(relations) - sum(relations)

    def _tell(self, line: int, reason: str) -> None:
        self.done.problems += 1
        self._on_problem(Problem(line=line, reason=reason))


def _refused_at(exc: InvalidArgument, count: int) -> tuple[int, int | None]:
    """Return which line of a batch, and which of its observations, the graph refused."""
    found = _FIELD.search(str(exc.context.get("field", "")))
    if found is None or int(found[1]) >= count:
        raise exc
    return int(found[1]), int(found[2]) if found[2] else None


def _reason(exc: InvalidArgument) -> str:
    """Return why, without the place in a batch that nobody knows of."""
    return _FIELD.sub("", exc.message).lstrip(".: ")
