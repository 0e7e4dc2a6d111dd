"""`onceward memory import` and `export`: the whole memory as a file of JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from onceward.cli.db import StoreUrl
from onceward.cli.memory_opening import open_memory
from onceward.cli.output import JsonFlag, print_json, warn
from onceward.errors import FileMissing, InvalidArgument
from onceward.seams import Clock, SystemClock

if TYPE_CHECKING:
    from onceward.memory.exporting import Exported
    from onceward.memory.importing import Imported, Problem

#: How many problems are told one by one; the others are counted.
PROBLEMS_SHOWN: Final = 20
PROBLEMS_LISTED: Final = 1_000
#: How often it is said how far it has come, where no bar can be drawn.
TELL_SECONDS: Final = 5.0


def import_(
    path: Annotated[Path, typer.Argument(help="A file such as the reference server's.")],
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Add what a memory file holds; harmless to repeat, and to go on with after a crash.

    Broken lines are named and skipped, as are relations whose ends do not exist. Exit 1 when that
    leaves nothing.

    Example: `onceward memory import memory.jsonl`
    """
    from onceward.memory.importing import import_file

    _refuse_directory(path)
    told: list[Problem] = []

    def tell(problem: Problem) -> None:
        if len(told) < PROBLEMS_LISTED:
            told.append(problem)
        if not json_output and len(told) <= PROBLEMS_SHOWN:
            bar.say(f"line {problem.line}: {problem.reason}")

    # Another memory's contents were checked there, or not; both are kept.
    opened = open_memory(store, source="import", validation="lenient")
    with opened as memory, _bar("importing", json_output) as bar:
        done = import_file(memory, path, on_progress=bar.imported, on_problem=tell)
    if json_output:
        problems = [{"line": each.line, "reason": each.reason} for each in told]
        print_json({**_counts(done), "problemCount": done.problems, "problems": problems})
    else:
        if done.problems > PROBLEMS_SHOWN:
            warn(f"… and {done.problems - PROBLEMS_SHOWN} more problems")
        print(_summary(done))
    if done.problems and not (done.entities_new or done.entities_known):
        raise typer.Exit(1)


def export(
    path: Annotated[
        Path | None, typer.Argument(help="The file; standard output if left out.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Write the whole memory as JSON lines, in the form that the reference server reads.

    A file appears once it is complete. Without one, the summary goes to stderr.

    Example: `onceward memory export memory.jsonl`
    """
    from onceward.memory.exporting import export as write_all
    from onceward.memory.exporting import new_file

    _refuse_directory(path)
    if path is not None and not path.parent.is_dir():
        message = f"path: {path.parent} does not exist"
        raise FileMissing(message, fix="make the directory first", path=str(path))
    with open_memory(store) as memory:
        total = memory.graph.counts()
        with _bar("exporting", json_output, total.entities + total.relations) as bar:
            if path is None:
                done = write_all(memory.graph, _to_stdout, on_progress=bar.exported)
            else:
                with new_file(path, replace=force) as write:
                    done = write_all(memory.graph, write, on_progress=bar.exported)
    counts = {
        "entities": done.entities,
        "observations": done.observations,
        "relations": done.relations,
        "cut": done.cut,
    }
    _end_export(path, counts, json_output=json_output)


def _refuse_directory(path: Path | None) -> None:
    if path is not None and path.is_dir():
        message = f"path: {path} is a directory"
        raise InvalidArgument(message, fix="name a file", field="path")


def _end_export(path: Path | None, counts: dict[str, Any], *, json_output: bool) -> None:
    """Say what was written, where it does not get between the lines."""
    told = {"path": None if path is None else str(path), **counts}
    where = f" in {path}" if path else ""
    if json_output and path is None:
        import orjson

        print(orjson.dumps(told).decode(), file=sys.stderr)
    elif json_output:
        print_json(told)
    else:
        print(f"{_numbers(counts)}{where}", file=sys.stderr if path is None else sys.stdout)
    for name in counts["cut"]:
        warn(f"only the newest of what {name[:80]!r} holds was written: it is too much")
    if counts["cut"]:
        raise typer.Exit(1)


def _to_stdout(data: bytes) -> None:
    sys.stdout.buffer.write(data)


def _counts(done: Imported) -> dict[str, int]:
    return {
        "lines": done.lines,
        "entities": done.entities_new,
        "observations": done.observations_new,
        "relations": done.relations_new,
        "knownEntities": done.entities_known,
        "knownObservations": done.observations_known,
        "knownRelations": done.relations_known,
    }


def _summary(done: Imported) -> str:
    new = {
        "entities": done.entities_new,
        "observations": done.observations_new,
        "relations": done.relations_new,
    }
    known = done.entities_known + done.observations_known + done.relations_known
    parts = [f"{_numbers(new)} added", f"{known} known already" if known else ""]
    parts.append(f"{done.problems} left out" if done.problems else "")
    return "; ".join(filter(None, parts))


def _numbers(counts: Mapping[str, Any]) -> str:
    ones = {"entities": "entity", "observations": "observation", "relations": "relation"}
    return ", ".join(
        f"{counts[name]} {one if counts[name] == 1 else name}" for name, one in ones.items()
    )


# --- how far it has come -------------------------------------------------------------------------


class _Bar:
    """Says on stderr how far something has come: a bar on a terminal, else a line now and then."""

    def __init__(self, title: str, total: int, clock: Clock, bar: Any) -> None:  # noqa: ANN401 - rich's, or None
        self._title, self._total, self._clock, self._bar = title, total, clock, bar
        self._task = None if bar is None else bar.add_task(title, total=total or None, said="")
        self._told_at = clock.monotonic()
        self.is_quiet = False

    def imported(self, done: Imported) -> None:
        self._total = done.bytes_total
        self._show(done.bytes_done, f"{done.entities_new + done.entities_known:,} entities")

    def exported(self, done: Exported) -> None:
        self._show(done.entities + done.relations, f"{done.entities:,} entities")

    def say(self, text: str) -> None:
        """Say something between."""
        from onceward.cli.memory_looks import visible

        line = f"warning: {visible(text, 500)}"
        if self._bar is None:
            print(line, file=sys.stderr)
        else:
            self._bar.console.print(line, markup=False, highlight=False)

    def _show(self, done: int, said: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=self._total or None, said=said)
            return
        now = self._clock.monotonic()
        if self.is_quiet or now - self._told_at < TELL_SECONDS:
            return
        self._told_at = now
        share = f"{100 * done // self._total} %, " if self._total else ""
        print(f"{self._title}: {share}{said}", file=sys.stderr, flush=True)


@contextmanager
def _bar(title: str, json_output: bool, total: int = 0) -> Iterator[_Bar]:
    clock = SystemClock()
    if json_output or not sys.stderr.isatty():
        quiet = _Bar(title, total, clock, None)
        quiet.is_quiet = json_output
        yield quiet
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(title, total, clock, bar)
