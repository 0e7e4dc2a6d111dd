"""`onceward memory import` and `export`: the memory as a JSON Lines file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from onceward.cli.change_plan import Yes, print_change
from onceward.cli.memory_loader import open_memory
from onceward.cli.output import JsonFlag, print_json, warn
from onceward.cli.store_option import StoreUrl
from onceward.errors import FileMissing, InvalidArgument
from onceward.system import Clock, SystemClock
from onceward.system.os_errors import mapped_os_errors

if TYPE_CHECKING:
    from onceward.memory.jsonl_format import ExportProgress
    from onceward.memory.jsonl_import import ImportProblem, ImportProgress
    from onceward.memory.models import GraphCounts

#: How many problems are printed; the others are counted.
PROBLEMS_SHOWN: Final = 20
PROBLEMS_LISTED: Final = 1_000
#: Interval of progress lines without a terminal.
PROGRESS_SECONDS: Final = 5.0
_CHUNK_BYTES: Final = 1024 * 1024


def import_(
    path: Annotated[
        Path,
        typer.Argument(
            help="JSON Lines file of `onceward memory export` or the MCP reference memory server."
        ),
    ],
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Import a memory file; idempotent, so a failed import can be run again.

    What is in the memory stays. Invalid lines, and relations whose entities do not exist, are
    reported and skipped. Exit 1 if there were such lines and no valid entity; 0 if there was one.

    Example: `onceward memory import memory.jsonl`
    """
    from onceward.memory.jsonl_import import import_file

    _reject_directory(path)
    reported: list[ImportProblem] = []

    def report(problem: ImportProblem) -> None:
        if len(reported) < PROBLEMS_LISTED:
            reported.append(problem)
        if not json_output and len(reported) <= PROBLEMS_SHOWN:
            bar.warn(f"line {problem.line}: {problem.reason}")

    # Lenient: the contents of another memory need not follow the policy.
    opened = open_memory(store, source="import", validation="lenient")
    with opened as memory, _bar("importing", json_output) as bar:
        done = import_file(memory, path, on_progress=bar.imported, on_problem=report)
    if json_output:
        problems = [{"line": each.line, "reason": each.reason} for each in reported]
        print_json({**_counts(done), "problemCount": done.problems, "problems": problems})
    else:
        if done.problems > PROBLEMS_SHOWN:
            warn(f"… and {done.problems - PROBLEMS_SHOWN} more problems")
        print(_summary(done))
    if done.problems and not (done.entities_new or done.entities_known):
        raise typer.Exit(1)


def export(
    path: Annotated[
        Path | None, typer.Argument(help="Output file. Default: standard output.")
    ] = None,
    yes: Yes = False,
    store: StoreUrl = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON; without PATH, on stderr.")
    ] = False,
) -> None:
    """Write the memory as JSON Lines, in the format of the MCP reference memory server.

    A new file needs no --yes. An existing one is replaced only with --yes; without it, the plan
    says what would be replaced; exit 0. A file is written atomically. Without PATH, the summary
    goes to stderr. Exit 1 if an entity was too large, so that only its newest observations or
    relations were written.

    Example: `onceward memory export memory.jsonl`
    """
    from onceward.memory.jsonl_format import export as write_all
    from onceward.memory.jsonl_format import new_file

    _reject_directory(path)
    if path is not None and not path.parent.is_dir():
        message = f"path: {path.parent} does not exist; nothing was written"
        raise FileMissing(message, fix="create the directory first", path=str(path))
    with open_memory(store) as memory:
        total = memory.graph.counts()
        replaced = None if path is None or not path.is_file() else _size(path)
        if path is not None and replaced is not None and not yes:
            _print_replace_plan(path, replaced, total, json_output=json_output)
            return
        with _bar("exporting", json_output, total.entities + total.relations) as bar:
            if path is None:
                done = write_all(memory.graph, _to_stdout, on_progress=bar.exported)
            else:
                with new_file(path, replace=yes) as write:
                    done = write_all(memory.graph, write, on_progress=bar.exported)
    counts = {
        "entities": done.entities,
        "observations": done.observations,
        "relations": done.relations,
        "cut": done.cut,
    }
    _print_export_summary(path, replaced, counts, json_output=json_output)


def _size(path: Path) -> dict[str, int]:
    size, lines = 0, 0
    with mapped_os_errors(path, "reading"), path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            size, lines = size + len(chunk), lines + chunk.count(b"\n")
    return {"lines": lines, "bytes": size}


def _print_replace_plan(
    path: Path, replaced: dict[str, int], total: GraphCounts, *, json_output: bool
) -> None:
    counts = {
        "entities": total.entities,
        "observations": total.observations,
        "relations": total.relations,
    }
    lines = [
        f"would replace {path}: {replaced['lines']} lines, {replaced['bytes']} bytes",
        f"would write {_numbers(counts)}",
    ]
    values = {"path": str(path), "replaced": replaced, **counts}
    print_change(lines, applied=False, json_output=json_output, **values)


def _reject_directory(path: Path | None) -> None:
    if path is not None and path.is_dir():
        message = f"path: {path} is a directory; nothing was read or written"
        raise InvalidArgument(message, fix="pass a file", field="path")


def _print_export_summary(
    path: Path | None, replaced: dict[str, int] | None, counts: dict[str, Any], *, json_output: bool
) -> None:
    """Print what was written, without mixing it into the exported lines."""
    written = {"applied": True, "path": None if path is None else str(path), "replaced": replaced}
    summary = {**written, **counts}
    where = f" in {path}" if path else ""
    if json_output and path is None:
        import orjson

        print(orjson.dumps(summary).decode(), file=sys.stderr)
    elif json_output:
        print_json(summary)
    else:
        print(f"{_numbers(counts)}{where}", file=sys.stderr if path is None else sys.stdout)
    for name in counts["cut"]:
        shown = f"{name[:80]!r}"
        warn(f"{shown} is too large: only its newest observations or relations were written")
    if counts["cut"]:
        raise typer.Exit(1)


def _to_stdout(data: bytes) -> None:
    sys.stdout.buffer.write(data)


def _counts(done: ImportProgress) -> dict[str, int]:
    return {
        "lines": done.lines,
        "entities": done.entities_new,
        "observations": done.observations_new,
        "relations": done.relations_new,
        "knownEntities": done.entities_known,
        "knownObservations": done.observations_known,
        "knownRelations": done.relations_known,
    }


def _summary(done: ImportProgress) -> str:
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


# --- progress ------------------------------------------------------------------------------------


class _ProgressBar:
    """Shows progress on stderr: a bar on a terminal, else a line at intervals."""

    def __init__(self, title: str, total: int, clock: Clock, bar: Any) -> None:  # noqa: ANN401 - rich's, or None
        self._title, self._total, self._clock, self._bar = title, total, clock, bar
        self._task = None if bar is None else bar.add_task(title, total=total or None, detail="")
        self._printed_at = clock.monotonic()
        self.is_quiet = False

    def imported(self, done: ImportProgress) -> None:
        self._total = done.bytes_total
        self._show(done.bytes_done, f"{done.entities_new + done.entities_known:,} entities")

    def exported(self, done: ExportProgress) -> None:
        self._show(done.entities + done.relations, f"{done.entities:,} entities")

    def warn(self, text: str) -> None:
        """Print a warning above the bar."""
        from onceward.cli.memory_format import printable_line

        line = f"warning: {printable_line(text, 500)}"
        if self._bar is None:
            print(line, file=sys.stderr)
        else:
            self._bar.console.print(line, markup=False, highlight=False)

    def _show(self, done: int, detail: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=self._total or None, detail=detail)
            return
        now = self._clock.monotonic()
        if self.is_quiet or now - self._printed_at < PROGRESS_SECONDS:
            return
        self._printed_at = now
        share = f"{100 * done // self._total} %, " if self._total else ""
        print(f"{self._title}: {share}{detail}", file=sys.stderr, flush=True)


@contextmanager
def _bar(title: str, json_output: bool, total: int = 0) -> Iterator[_ProgressBar]:
    clock = SystemClock()
    if json_output or not sys.stderr.isatty():
        quiet = _ProgressBar(title, total, clock, None)
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
        TextColumn("{task.fields[detail]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _ProgressBar(title, total, clock, bar)
