"""Catalog: the runs and experiments of a root in memory, refreshed from the files on each read.

The files are authoritative, and other processes append to them; a replaced file is read again from
its start. The last valid line of an experiment is the current one. Writes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from onceward.errors import InvalidCursor, NotFound
from onceward.journal import Journal, Record
from onceward.journal.byte_cursor import START, parse_cursor
from onceward.lab.lab_paths import LabPaths
from onceward.lab.models import Experiment, LabRun, is_feedback
from onceward.system import Clock, Files

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class CatalogPage(Generic[T]):
    """One page of a list, newest first."""

    items: list[T]
    #: Cursor of the next page; None on the last one.
    next_cursor: str | None


class JournalTail:
    """Reads the records that were appended to one file since the last read."""

    def __init__(self, journal: Journal) -> None:
        """Begin at the start of the file."""
        self._journal = journal
        self._since, self._tag = START, START

    def read_new(self, on_replaced: Callable[[], object]) -> Iterator[Record]:
        """Yield the new records; call `on_replaced` first if the file was replaced."""
        while True:
            try:
                page = self._journal.read(self._since, tag=self._tag)
            except InvalidCursor:
                on_replaced()
                self._since, self._tag = START, START
                continue
            yield from page.items
            if page.next_cursor == self._since:
                return
            self._since, self._tag = page.next_cursor, page.tag


class LabCatalog:
    """Runs and experiments by id and in order. Thread-safe."""

    def __init__(self, paths: LabPaths, *, files: Files, clock: Clock) -> None:
        """Start empty; the first read fills it."""
        self._lock = threading.Lock()
        # No position is returned to a client as a cursor, so reads need no sync.
        options: dict[str, Any] = {"sync": False, "files": files, "clock": clock}
        self._run_lines = JournalTail(Journal(paths.runs, **options))
        self._experiment_lines = JournalTail(Journal(paths.experiments, **options))
        self._feedback = Journal(paths.feedback, valid=is_feedback, **options)
        self._feedback_lines = JournalTail(self._feedback)
        self._runs: dict[str, LabRun] = {}
        self._run_order: list[LabRun] = []
        self._by_path: dict[str, list[LabRun]] = {}
        self._experiments: dict[str, Experiment] = {}
        self._experiment_order: list[str] = []
        self._overall: dict[str, int] = {}

    def run(self, run_id: str) -> LabRun | None:
        """Return a run by its id."""
        with self._lock:
            self._refresh_runs()
            return self._runs.get(run_id)

    def require_run(self, run_id: str, field: str) -> LabRun:
        """Return a run by its id; NotFound, naming the field that asked for it."""
        found = self.run(run_id)
        if found is None:
            message = f"{field}: there is no run {run_id!r:.60}"
            fix = "pass the id of an imported run, or import its directory first"
            raise NotFound(message, fix=fix, field=field)
        return found

    def runs(self, *, limit: int, cursor: str | None) -> CatalogPage[LabRun]:
        """Return a page of runs, newest first."""
        with self._lock:
            self._refresh_runs()
            return _page(self._run_order, limit, cursor)

    def runs_at(self, realpath: str) -> list[LabRun]:
        """Return the runs that were imported from a directory, oldest first."""
        with self._lock:
            self._refresh_runs()
            return list(self._by_path.get(realpath, ()))

    def experiment(self, experiment_id: str) -> Experiment | None:
        """Return the current state of an experiment, or None."""
        with self._lock:
            self._refresh_experiments()
            return self._experiments.get(experiment_id)

    def require_experiment(self, experiment_id: str) -> Experiment:
        """Return the current state of an experiment; NotFound if there is none."""
        found = self.experiment(experiment_id)
        if found is None:
            message = f"experimentId: there is no experiment {experiment_id!r:.60}"
            fix = "send the id of an experiment that GET /api/experiments lists"
            raise NotFound(message, fix=fix, field="experimentId")
        return found

    def experiments(self, *, limit: int, cursor: str | None) -> CatalogPage[Experiment]:
        """Return a page of experiments in their current state, newest first."""
        with self._lock:
            self._refresh_experiments()
            page = _page(self._experiment_order, limit, cursor)
            items = [self._experiments[each] for each in page.items]
            return CatalogPage(items=items, next_cursor=page.next_cursor)

    def decided(self) -> list[tuple[Experiment, dict[str, LabRun]]]:
        """Return every decided experiment, with its runs as far as they are known."""
        with self._lock:
            self._refresh_runs()
            self._refresh_experiments()
            return [
                (each, {name: self._runs[name] for name in each.run_ids if name in self._runs})
                for each in self._experiments.values()
                if each.is_done
            ]

    def entry(self, feedback_id: str) -> Record | None:
        """Return an entry of the feedback file by its id; scans the file."""
        since: str = START
        tag: str | None = None
        while True:
            try:
                page = self._feedback.read(since, 1, {"id": feedback_id}, tag)
            except InvalidCursor:
                since, tag = START, None  # Replaced or truncated since.
                continue
            if page.items or page.next_cursor == since:
                return page.items[0] if page.items else None
            since, tag = page.next_cursor, page.tag

    def last_overall(self, run_ids: Iterable[str]) -> dict[str, int]:
        """Return the latest overall rating of each run that has one."""
        with self._lock:
            for record in self._feedback_lines.read_new(self._overall.clear):
                run_id, ratings = record.get("runId"), record.get("ratings")
                overall = ratings.get("overall") if isinstance(ratings, dict) else None
                if isinstance(run_id, str) and type(overall) is int:
                    self._overall[run_id] = overall
            return {each: self._overall[each] for each in run_ids if each in self._overall}

    def _refresh_runs(self) -> None:
        for record in self._run_lines.read_new(self._forget_runs):
            run = LabRun.from_record(record)
            if run is not None and run.run_id not in self._runs:
                self._runs[run.run_id] = run
                self._run_order.append(run)
                self._by_path.setdefault(run.artifacts_dir_realpath, []).append(run)

    def _forget_runs(self) -> None:
        self._runs.clear()
        self._run_order.clear()
        self._by_path.clear()

    def _refresh_experiments(self) -> None:
        for record in self._experiment_lines.read_new(self._forget_experiments):
            found = Experiment.from_record(record)
            if found is None:
                continue
            if found.experiment_id not in self._experiments:
                self._experiment_order.append(found.experiment_id)
            self._experiments[found.experiment_id] = found

    def _forget_experiments(self) -> None:
        self._experiments.clear()
        self._experiment_order.clear()


def _page(order: list[T], limit: int, cursor: str | None) -> CatalogPage[T]:
    """Return one page; the cursor is the number of older items after it."""
    end = len(order) if cursor is None else min(_parse(cursor), len(order))
    start = max(0, end - limit)
    return CatalogPage(items=order[start:end][::-1], next_cursor=str(start) if start else None)


def _parse(cursor: str) -> int:
    try:
        return parse_cursor(cursor)
    except InvalidCursor as exc:
        fix = "send the nextCursor of the previous page, or omit the cursor"
        message = f"cursor: {exc.message}"
        raise InvalidCursor(message, fix=fix, field="cursor", cursor=cursor[:60]) from None
