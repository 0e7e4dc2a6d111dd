"""Catalog: the runs and experiments of a root, in memory, caught up with the files on every look.

The files are the truth and others append to them; a file that was replaced is read anew. The last
valid line of an experiment is the current one. Writes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from onceward.errors import InvalidCursor, NotFound
from onceward.journal import Journal, Record
from onceward.journal.cursor import START, parse_cursor
from onceward.lab.models import Experiment, Run, is_feedback
from onceward.lab.paths import LabPaths
from onceward.seams import Clock, Files

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed(Generic[T]):
    """One page of something that grows at its other end."""

    items: list[T]
    #: Where the next page begins; None when this is the last one.
    next_cursor: str | None


class Tail:
    """What was appended to one file since the last look."""

    def __init__(self, journal: Journal) -> None:
        """Begin at the start."""
        self._journal = journal
        self._since, self._tag = START, START

    def new(self, forget: Callable[[], object]) -> Iterator[Record]:
        """Yield the records of since; call `forget` first when the file is another one now."""
        while True:
            try:
                page = self._journal.read(self._since, tag=self._tag)
            except InvalidCursor:
                forget()
                self._since, self._tag = START, START
                continue
            yield from page.items
            if page.next_cursor == self._since:
                return
            self._since, self._tag = page.next_cursor, page.tag


class Catalog:
    """Runs and experiments by id and in order; safe for threads."""

    def __init__(self, paths: LabPaths, *, files: Files, clock: Clock) -> None:
        """Know nothing yet."""
        self._lock = threading.Lock()
        # Nothing that is read here is given out as a cursor, so nothing has to be on disk first.
        options: dict[str, Any] = {"sync": False, "files": files, "clock": clock}
        self._run_lines = Tail(Journal(paths.runs, **options))
        self._experiment_lines = Tail(Journal(paths.experiments, **options))
        self._feedback = Journal(paths.feedback, valid=is_feedback, **options)
        self._feedback_lines = Tail(self._feedback)
        self._runs: dict[str, Run] = {}
        self._run_order: list[Run] = []
        self._by_place: dict[str, list[Run]] = {}
        self._experiments: dict[str, Experiment] = {}
        self._experiment_order: list[str] = []
        self._overall: dict[str, int] = {}

    def run(self, run_id: str) -> Run | None:
        """Return a run by its id."""
        with self._lock:
            self._refresh_runs()
            return self._runs.get(run_id)

    def need_run(self, run_id: str, field: str) -> Run:
        """Return a run by its id; NotFound, naming the field that asked for it."""
        found = self.run(run_id)
        if found is None:
            message = f"{field}: there is no run {run_id!r:.60}"
            raise NotFound(message, fix="import it first; see GET /api/runs", field=field)
        return found

    def runs(self, *, limit: int, cursor: str | None) -> Listed[Run]:
        """Return a page of runs, newest first."""
        with self._lock:
            self._refresh_runs()
            return _page(self._run_order, limit, cursor)

    def runs_at(self, realpath: str) -> list[Run]:
        """Return the runs that were imported from a place, oldest first."""
        with self._lock:
            self._refresh_runs()
            return list(self._by_place.get(realpath, ()))

    def experiment(self, experiment_id: str) -> Experiment | None:
        """Return an experiment by its id, as it is now."""
        with self._lock:
            self._refresh_experiments()
            return self._experiments.get(experiment_id)

    def need_experiment(self, experiment_id: str) -> Experiment:
        """Return an experiment as it is now; NotFound when there is none."""
        found = self.experiment(experiment_id)
        if found is None:
            message = f"experimentId: there is no experiment {experiment_id!r:.60}"
            raise NotFound(message, fix="see GET /api/experiments", field="experimentId")
        return found

    def experiments(self, *, limit: int, cursor: str | None) -> Listed[Experiment]:
        """Return a page of experiments as they are now, the last made first."""
        with self._lock:
            self._refresh_experiments()
            page = _page(self._experiment_order, limit, cursor)
            items = [self._experiments[each] for each in page.items]
            return Listed(items=items, next_cursor=page.next_cursor)

    def decided(self) -> list[tuple[Experiment, dict[str, Run]]]:
        """Return every experiment that is done, with those of its runs that are known."""
        with self._lock:
            self._refresh_runs()
            self._refresh_experiments()
            return [
                (each, {name: self._runs[name] for name in each.run_ids if name in self._runs})
                for each in self._experiments.values()
                if each.is_done
            ]

    def entry(self, feedback_id: str) -> Record | None:
        """Return an entry of the feedback file by its id; looks through the whole file."""
        since: str = START
        tag: str | None = None
        while True:
            try:
                page = self._feedback.read(since, 1, {"id": feedback_id}, tag)
            except InvalidCursor:
                since, tag = START, None  # Replaced or cut meanwhile.
                continue
            if page.items or page.next_cursor == since:
                return page.items[0] if page.items else None
            since, tag = page.next_cursor, page.tag

    def last_overall(self, run_ids: Iterable[str]) -> dict[str, int]:
        """Return the latest overall rating of each run that has one."""
        with self._lock:
            for record in self._feedback_lines.new(self._overall.clear):
                run_id, ratings = record.get("runId"), record.get("ratings")
                overall = ratings.get("overall") if isinstance(ratings, dict) else None
                if isinstance(run_id, str) and type(overall) is int:
                    self._overall[run_id] = overall
            return {each: self._overall[each] for each in run_ids if each in self._overall}

    def _refresh_runs(self) -> None:
        for record in self._run_lines.new(self._forget_runs):
            run = Run.from_record(record)
            if run is not None and run.run_id not in self._runs:
                self._runs[run.run_id] = run
                self._run_order.append(run)
                self._by_place.setdefault(run.artifacts_dir_realpath, []).append(run)

    def _forget_runs(self) -> None:
        self._runs.clear()
        self._run_order.clear()
        self._by_place.clear()

    def _refresh_experiments(self) -> None:
        for record in self._experiment_lines.new(self._forget_experiments):
            found = Experiment.from_record(record)
            if found is None:
                continue
            if found.experiment_id not in self._experiments:
                self._experiment_order.append(found.experiment_id)
            self._experiments[found.experiment_id] = found

    def _forget_experiments(self) -> None:
        self._experiments.clear()
        self._experiment_order.clear()


def _page(order: list[T], limit: int, cursor: str | None) -> Listed[T]:
    """Return the last ones before a cursor, which says how many are still to come."""
    end = len(order) if cursor is None else min(_parse(cursor), len(order))
    start = max(0, end - limit)
    return Listed(items=order[start:end][::-1], next_cursor=str(start) if start else None)


def _parse(cursor: str) -> int:
    try:
        return parse_cursor(cursor)
    except InvalidCursor as exc:
        fix = "send the nextCursor of the page before, or leave it out"
        raise InvalidCursor(exc.message, fix=fix, cursor=cursor[:60]) from None
