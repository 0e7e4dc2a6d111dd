"""Lives: processes that work on a SQLite file until their disk fails, and what is left of it.

Owns the forks and what each process tells: what it acknowledged, which error it was given, how it
went on. Says nothing about what is right.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import OncewardError, OutcomeUnknown
from onceward.stores.sqlite import database, wal_checkpoints
from onceward.stores.sqlite.connection import SqliteConnection, connect
from onceward.stores.sqlite.store import SqliteStore
from onceward.system import ManualClock, SystemRandomness, crash_points
from tests.proof.disk.faulty_disk import CUT, DYING, Fault, FaultyDisk
from tests.proof.disk.scenarios import Scenario, Step, tick

#: A process that takes longer hangs.
LIFE_SECONDS_MAX: Final = 60
#: Pages in the log that cause a checkpoint; few, so that faults meet checkpoints too.
PAGES_UNTIL_CHECKPOINT: Final = 2
_TABLES: Final = """
    select name from sqlite_master
    where type = 'table' and sql not like 'create virtual%' order by 1
"""
#: The part of an owner's name that tells one process from another.
_OWNER: Final = re.compile(r"/[0-9]+/[0-9a-f]{8}/")
Tell = Callable[..., None]
Select = Callable[[str], list[Any]]


@dataclass(kw_only=True, slots=True)
class Life:
    """What a process reported."""

    #: What the disk held after each commit, the beginning first.
    states: list[str] = field(default_factory=list)
    #: For each acknowledged step, how many commits there were by then; opening is the first step.
    acks: list[int] = field(default_factory=list)
    #: The error that was raised, whether it leaves the outcome unknown, and where it struck.
    error: str | None = None
    is_unknown: bool = False
    struck_in: str = ""
    first: str = ""
    hits: int = 0
    #: Whether it came to its end; one that was killed in the middle did not.
    is_over: bool = False
    #: What the same process found once the disk was well again, and how much work it finished.
    inside: str | None = None
    finished: int = 0
    #: What must never come out: an error that is not ours.
    leak: str | None = None
    #: How it ended: `exit`, `killed`, or `hung`.
    ending: str = ""
    #: What SQLite says of the file.
    integrity: str = ""


def forked(work: Callable[[Tell], None]) -> Life:
    """Run this in a process of its own, and return what it reported."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.signal(signal.SIGALRM, _hangs)
        signal.alarm(LIFE_SECONDS_MAX)

        def tell(**fields: object) -> None:
            os.write(writer, json.dumps(fields).encode() + b"\n")

        try:
            work(tell)
        except BaseException:  # noqa: BLE001 - reported, then the child ends whatever it was
            tell(leak=traceback.format_exc())
        os._exit(0)
    os.close(writer)
    life = Life()
    with os.fdopen(reader, "r") as stream:
        for line in stream:
            for name, value in json.loads(line).items():
                if isinstance(getattr(life, name), list):
                    getattr(life, name).append(value)
                else:
                    setattr(life, name, value)
    _, status = os.waitpid(child, 0)
    killed = {signal.SIGKILL: "killed", signal.SIGALRM: "hung"}
    life.ending = killed[signal.Signals(os.WTERMSIG(status))] if os.WIFSIGNALED(status) else "exit"
    return life


def _hangs(*_: object) -> None:
    """Say where it hangs; if that cannot be said, die."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(5)
    message = "it hangs here"
    raise AssertionError(message)


def prepare(kind: type[Scenario], directory: Path) -> None:
    """Make the file that every life begins with."""
    path = directory / "template.db"

    def work(_: Tell) -> None:
        if kind.is_prepared:
            with opened(path) as ow:
                kind(path).prepare(ow)

    life = forked(work)
    assert life.leak is None, life.leak


def live(
    kind: type[Scenario], directory: Path, fault: Fault | None, *, synchronous: str = "full"
) -> Life:
    """Work on a fresh copy until the fault ends it; without one, tell what each commit leaves."""
    shutil.rmtree(directory / "life", ignore_errors=True)
    path = directory / "life" / "work.db"
    path.parent.mkdir()
    if kind.is_prepared:
        shutil.copyfile(directory / "template.db", path)
    return forked(lambda tell: _work(kind(path), path, fault, tell, synchronous))


def look(kind: type[Scenario], directory: Path) -> Life:
    """Look at what is left, with a well disk and in a new process, and finish the work."""
    path = directory / "life" / "work.db"

    def work(tell: Tell) -> None:
        connection = sqlite3.connect(path)
        found = [str(row[0]) for row in connection.execute("pragma integrity_check").fetchall()]
        connection.close()
        tell(integrity="; ".join(found))
        tell(states=digest_of(path))
        scenario = kind(path)
        scenario.steps()
        with opened(path) as ow:
            tell(finished=scenario.finish(ow))

    return forked(work)


class _Worker:
    """One life: work, and what comes of an error."""

    def __init__(self, scenario: Scenario, path: Path, fault: Fault | None, tell: Tell) -> None:
        self.scenario, self.path, self.fault, self.tell = scenario, path, fault, tell
        self.disk = FaultyDisk(fault)
        self.commits = 0
        self.ow: Onceward | None = None
        self.step: Step | None = None

    def passed(self, point: str) -> None:
        """Note where the process is, at each of its crash points."""
        if not point.startswith(("transaction.", "sqlite.group.")):
            return
        self.disk.phase = "commit" if point.endswith("before_commit") else ""
        if point.endswith("after_commit"):
            self.commits += 1
            if self.disk.struck_in == "commit":
                # An error of the checkpoint after a commit is ignored: the next one counts.
                self.disk.first = self.disk.struck_in = ""
            if self.fault is None:
                self.tell(states=digest_of(self.path))

    def work(self) -> None:
        """Do the steps; without a fault, tell what each commit leaves."""
        try:
            self._work()
        finally:
            if self.disk.failure is not None:
                self.tell(leak=self.disk.failure)

    def _work(self) -> None:
        if self.fault is None:
            self.tell(states=digest_of(self.path))
        try:
            self._do()
        except OncewardError as exc:
            is_unknown = isinstance(exc, OutcomeUnknown)
            details = {"struck_in": self.disk.struck_in, "first": self.disk.first}
            self.tell(error=repr(exc), is_unknown=is_unknown, hits=self.disk.hits, **details)
            self._after_error()
        self.tell(hits=self.disk.hits, first=self.disk.first, is_over=True)
        if self.fault is not None and self.fault.kind == CUT:
            self.disk.cut()

    def _do(self) -> None:
        self.ow = opened(self.path)
        self.tell(acks=self.commits)
        for step in self.scenario.steps():
            self.disk.phase, self.step = "", step
            tick(self.ow)
            step(self.ow)
            self.tell(acks=self.commits)
        self.disk.phase = ""
        self.ow.close()

    def _after_error(self) -> None:
        """Try again while the disk still fails; then it is well, and the work is finished."""
        assert self.fault is not None
        if self.fault.kind in DYING:
            os.kill(os.getpid(), signal.SIGKILL)
        is_lasting = self.fault.kind.endswith("-lasting")
        if is_lasting:
            # What comes out is ours, and no call hangs. It may happen, if that was not known.
            with suppress(OncewardError):
                self._repeat()
        self.disk.heal()
        if self.ow is None and not is_lasting:
            # To open it would do what was refused.
            self.tell(inside=digest_of(self.path))
        ow = self.ow or opened(self.path)
        assert isinstance(ow.store, SqliteStore)
        assert not ow.store.database.write_lock.is_held_by_caller, "it still holds the write lock"
        if self.ow is not None and not is_lasting:
            self.tell(inside=digest(ow.store.select))
        self.tell(finished=self.scenario.finish(ow))
        ow.close()

    def _repeat(self) -> None:
        """Try again what failed."""
        if self.ow is None or self.step is None:
            opened(self.path).close()
        else:
            self.step(self.ow)


def _work(
    scenario: Scenario, path: Path, fault: Fault | None, tell: Tell, synchronous: str
) -> None:
    """Be one life."""
    wal_checkpoints.PAGES = PAGES_UNTIL_CHECKPOINT
    if synchronous != "full":
        _weaken(synchronous)
    # Ids are the same in every life.
    SystemRandomness._source = random.Random(7)  # type: ignore[assignment]
    worker = _Worker(scenario, path, fault, tell)
    crash_points.watch(worker.passed)
    worker.work()


def opened(path: Path) -> Onceward:
    """Open the store with a clock that is moved by hand."""
    return open_handle(f"sqlite:///{path}", clock=ManualClock())


def _weaken(synchronous: str) -> None:
    """Let the product not wait for the disk, to see that this would be noticed."""

    def weak(path: Path) -> SqliteConnection:
        connection = connect(path)
        connection.execute(f"pragma synchronous = {synchronous}")
        return connection

    database.connect = weak  # type: ignore[attr-defined]  # it is imported there


def digest_of(path: Path) -> str:
    """Return the digest of a file as it is now."""
    connection = sqlite3.connect(path)
    try:
        return digest(lambda sql: connection.execute(sql).fetchall())
    finally:
        connection.close()


def digest(select: Select) -> str:
    """Return what stands for all that a database holds."""
    hashed = hashlib.sha256()
    for (name,) in select(_TABLES):
        rows = repr(select(f"select * from {name}"))
        hashed.update(f"{name}\n{_OWNER.sub('/', rows)}\n".encode())
    return hashed.hexdigest()[:16]
