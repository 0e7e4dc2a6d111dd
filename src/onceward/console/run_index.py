"""Run index: the runs of all workspaces, each ledger read once and then incrementally.

Opens files below a workspace without following links, because agents write there. Changes nothing,
takes no lock, and caches a bounded amount of data.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

from onceward.console.run_history import RunHistory
from onceward.console.workspaces import Workspaces
from onceward.errors import FileMissing, InvalidCursor, OncewardError, RunMissing
from onceward.journal.process_lock import is_process_lock_held
from onceward.orchestrator.ledger import ledger_lines
from onceward.orchestrator.models import TaskRunSummary
from onceward.orchestrator.workspace import Workspace, check_run_id, is_run_id
from onceward.orchestrator.workspace_registry import workspace_id
from onceward.system import SystemFiles
from onceward.system.safe_paths import RootedDirectory, RootedFile

#: How many list items are cached.
ITEMS_KEPT_MAX: Final = 10_000
#: How many whole histories are cached, and the total size of their ledgers.
HISTORIES_KEPT_MAX: Final = 32
HISTORIES_BYTES_MAX: Final = 128 * 1024 * 1024
#: How many runs, and how many bytes of changed ledgers, one page reads.
SCAN_RUNS_MAX: Final = 2_000
SCAN_BYTES_MAX: Final = 64 * 1024 * 1024
#: How many bytes before an offset are compared, to detect a replaced ledger.
_BEFORE_BYTES: Final = 128
_SUFFIX: Final = ".ndjson"


class RunPosition(NamedTuple):
    """Identifies a run and orders the list, latest first."""

    run_id: str
    workspace: str


class LedgerStamp(NamedTuple):
    """File fingerprint of a ledger, which changes with its content."""

    size: int
    mtime_ns: int
    inode: int


#: `crashed`: no end, and no process holds the lock.
RunStateName = Literal["running", "crashed", "done", "failed", "stopped"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunItem:
    """A run in a list."""

    summary: TaskRunSummary
    workspace: Path
    workspace_id: str
    #: The goal of the run's first task.
    goal: str | None
    #: Whether an orchestrator process holds the run's lock.
    is_held: bool = False

    @property
    def state(self) -> RunStateName:
        """Return the state; a run without an end whose lock is free has crashed."""
        is_dead = self.summary.status == "running" and not self.is_held
        return "crashed" if is_dead else self.summary.status

    def with_lock_state(self) -> RunItem:
        """Return a copy with the current state of the run's lock."""
        if self.summary.status != "running":
            return self
        lock = Workspace(root=self.workspace).lock(self.summary.run_id)
        return replace(self, is_held=is_process_lock_held(lock))


#: None for a run without records.
_Entry = tuple[LedgerStamp, RunItem | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFilter:
    """Selects the runs of a list."""

    #: A status of the ledger, or `crashed`.
    status: str | None = None
    #: Part of an id, a task, a goal or a path, ignoring case.
    text: str = ""

    def fits(self, item: RunItem) -> bool:
        """Return whether a run matches."""
        run = item.summary
        if self.status is not None and self.status not in (run.status, item.state):
            return False
        searched = (run.run_id, *run.tasks, item.goal, item.workspace)
        return self.text.casefold() in "\n".join(map(str, searched)).casefold()


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPage:
    """One page of runs, latest first."""

    items: list[RunItem]
    #: The next page begins after this position; None at the end.
    following: str | None


class FollowedLedger:
    """A ledger that is read incrementally, by one thread at a time."""

    def __init__(self, run_id: str) -> None:
        """Start at the beginning of the ledger."""
        self._lock = threading.Lock()
        self._inode, self._position, self._before = 0, 0, b""
        self._story = RunHistory(run_id=run_id)

    @property
    def size(self) -> int:
        """Return how many bytes were read."""
        return self._position

    @contextmanager
    def read(self, file: RootedFile) -> Iterator[RunHistory]:
        """Read to the ledger's current end; the history does not change inside the block."""
        with self._lock:
            if not self._is_same(file):
                self._inode, self._position = file.stat.inode, 0
                self._story = RunHistory(run_id=self._story.run_id)
            for line in ledger_lines(file, self._position, file.stat.size):
                if line.record is not None:
                    self._story.take(line.record)
                self._story.damaged += line.problem is not None
                self._position = line.end
            start = max(0, self._position - _BEFORE_BYTES)
            self._before = file.read(start, self._position - start)
            yield self._story

    def _is_same(self, file: RootedFile) -> bool:
        """Return whether the file only grew since; an incomplete last line may be gone."""
        start = self._position - len(self._before)
        found = file.read(start, len(self._before))
        return file.stat.inode == self._inode and found == self._before


class RunIndex:
    """Lists and caches the runs of a console's workspaces."""

    def __init__(self, workspaces: Workspaces) -> None:
        """List the runs of these workspaces."""
        self._workspaces = workspaces
        self._mutex = threading.Lock()
        self._items: OrderedDict[tuple[Path, str], _Entry] = OrderedDict()
        self._stories: OrderedDict[tuple[Path, str], FollowedLedger] = OrderedDict()

    # --- lists -----------------------------------------------------------------------------------

    def page(self, run_filter: RunFilter, *, limit: int, after: str | None = None) -> RunPage:
        """Return the latest runs after a position.

        If many must be read, returns few or none, and the position to continue after.
        """
        begin = None if after is None else _place_in(after)
        roots = {workspace_id(root): root for root in self._workspaces.list()}
        places = [each for each in _places(roots) if begin is None or each < begin]
        found: list[RunItem] = []
        read_bytes = 0
        for looked, place in enumerate(places):
            if len(found) == limit or looked == SCAN_RUNS_MAX or read_bytes >= SCAN_BYTES_MAX:
                return RunPage(items=found, following=".".join(places[looked - 1]))
            item, cost = self._item(roots[place.workspace], place.run_id)
            read_bytes += cost
            if item is not None and run_filter.fits(item):
                found.append(item)
        return RunPage(items=found, following=None)

    def newest(self, limit: int) -> list[RunItem]:
        """Return the latest runs, however long their ledgers are.

        Above a limit of bytes, runs in progress are returned as cached.
        """
        roots = {workspace_id(root): root for root in self._workspaces.list()}
        found: list[RunItem] = []
        read_bytes = 0
        for place in _places(roots):
            if len(found) == limit:
                break
            is_enough = read_bytes >= SCAN_BYTES_MAX
            item, cost = self._item(roots[place.workspace], place.run_id, is_enough=is_enough)
            read_bytes += cost
            if item is not None:
                found.append(item)
        return found

    def _item(
        self, root: Path, run_id: str, *, is_enough: bool = False
    ) -> tuple[RunItem | None, int]:
        """Return a list item, and how many bytes were read for it.

        With `is_enough`, a run in progress may be returned as cached; an ended run may not.
        """
        try:
            with _opened(root, run_id) as file:
                stamp = LedgerStamp(file.stat.size, file.stat.mtime_ns, file.stat.inode)
                with self._mutex:
                    known = self._items.get((root, run_id))
                if known is not None and known[0] == stamp:
                    return known[1] and known[1].with_lock_state(), 0
                before = known and known[1] and known[1].with_lock_state()
                if is_enough and before and before.state == "running":
                    return before, 0
                followed = self._followed(root, run_id)
                start = followed.size
                with followed.read(file) as history:
                    item = item_of(history, root) if history.has_first_record else None
                    is_going_on = history.state.status == "running"
        except OncewardError:
            return None, 0  # Removed meanwhile, or a link, which is not followed.
        self._remember(root, run_id, (stamp, item), followed if is_going_on else None)
        return item and item.with_lock_state(), max(0, followed.size - start)

    def _remember(
        self, root: Path, run_id: str, entry: _Entry, followed: FollowedLedger | None
    ) -> None:
        with self._mutex:
            self._items[root, run_id] = entry
            self._items.move_to_end((root, run_id))
            while len(self._items) > ITEMS_KEPT_MAX:
                self._items.popitem(last=False)
            if followed is not None:
                self._keep(root, run_id, followed)

    # --- single runs
    # ------------------------------------------------------------------------------------

    @contextmanager
    def history(self, workspace: str, run_id: str) -> Iterator[tuple[Workspace, RunHistory]]:
        """Yield the history of a run; RunMissing if it does not exist or has no records."""
        with self.ledger(workspace, run_id) as (root, file):
            followed = self._followed(root, run_id)
            with followed.read(file) as history:
                if not history.has_first_record:
                    message = (
                        f"{run_id} has no records: it is starting, or crashed before the first"
                    )
                    fix = "load it again; if it stays empty, run `onceward run --task …` again"
                    raise RunMissing(message, fix=fix)
                yield Workspace(root=root), history
            with self._mutex:
                self._keep(root, run_id, followed)

    @contextmanager
    def ledger(self, workspace: str, run_id: str) -> Iterator[tuple[Path, RootedFile]]:
        """Yield the workspace and the open ledger of a run."""
        root = self._workspaces.find(workspace)
        try:
            opened = _opened(root, check_run_id(run_id))
        except FileMissing:
            message = f"there is no run {run_id} in this workspace"
            raise RunMissing(message, fix="choose one from the list of runs") from None
        with opened as file:
            yield root, file

    def _followed(self, root: Path, run_id: str) -> FollowedLedger:
        with self._mutex:
            return self._stories.get((root, run_id)) or FollowedLedger(run_id)

    def _keep(self, root: Path, run_id: str, followed: FollowedLedger) -> None:
        """Cache a run, and evict the least recently used ones."""
        self._stories[root, run_id] = followed
        self._stories.move_to_end((root, run_id))
        while len(self._stories) > 1 and (
            len(self._stories) > HISTORIES_KEPT_MAX
            or sum(each.size for each in self._stories.values()) > HISTORIES_BYTES_MAX
        ):
            self._stories.popitem(last=False)


@lru_cache(maxsize=4)
def runs_of(workspaces: Workspaces) -> RunIndex:
    """Return the run index of these workspaces, shared by all callers."""
    return RunIndex(workspaces)


def item_of(history: RunHistory, root: Path) -> RunItem:
    """Return a run's list item, from its ledger alone."""
    return RunItem(
        summary=history.summary(),
        workspace=root,
        workspace_id=workspace_id(root),
        goal=history.goal,
    )


def _opened(root: Path, run_id: str) -> RootedFile:
    with RootedDirectory.open(root) as directory:
        return directory.open_file(f"events/{run_id}{_SUFFIX}")


def _places(roots: Mapping[str, Path]) -> list[RunPosition]:
    """Return every run, latest first: run ids begin with their start time."""
    found = []
    for id_, root in roots.items():
        names: list[str] = []
        with suppress(OncewardError), RootedDirectory.open(root, "events") as folder:
            names = SystemFiles().names(folder.path())
        ids = [each.removesuffix(_SUFFIX) for each in names if each.endswith(_SUFFIX)]
        found += [RunPosition(each, id_) for each in ids if is_run_id(each)]
    return sorted(found, reverse=True)


def _place_in(text: str) -> RunPosition:
    run_id, _, workspace = text.partition(".")
    if not is_run_id(run_id):
        message = f"after: {text[:40]!r} is not a position in this list"
        fix = "pass `next` of the previous page, or no `after`"
        raise InvalidCursor(message, fix=fix, field="after")
    return RunPosition(run_id, workspace)
