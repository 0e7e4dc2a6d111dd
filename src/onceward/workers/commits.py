"""Commits: notice that somebody has committed to an SQLite file, in whatever process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from onceward.journal.watch import PATIENT_STEP_MILLISECONDS, Watch
from onceward.seams import Clock
from onceward.workers.wakes import Heard

#: Commits that come quicker than this are told of together.
TELL_SECONDS_MIN: Final = 0.05
#: How often whoever listens is asked whether it still does.
WAIT_SECONDS: Final = 0.5


class CommitWatch:
    """Changes of the write-ahead log beside a database.

    Every commit writes to it. Noticing that costs 2 % of a core at 1,300 commits in a second, and
    ten milliseconds; a file that writers touch would cost each of them something, and programs
    that know nothing of it would not do it.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        """Watch this database."""
        self._directory = path.parent
        self._log = f"{path.name}-wal"
        self._clock = clock

    def hear(self, heard: Heard, is_wanted: Callable[[], bool]) -> None:
        """Tell that anything may have changed, at most twenty times a second."""
        watch = Watch(self._directory, self._clock, step_milliseconds=PATIENT_STEP_MILLISECONDS)
        heard(None)  # Something may have been committed before.
        is_recent = False
        while is_wanted():
            names = watch.wait(TELL_SECONDS_MIN if is_recent else WAIT_SECONDS)
            # Without file events nobody knows; whoever listens looks.
            is_changed = names is None or self._log in names
            # The log is written before a commit can be seen, by as much as the disk takes to sync:
            # who looked too early looks once more.
            if is_changed or is_recent:
                heard(None)
                self._clock.sleep(TELL_SECONDS_MIN)
            is_recent = is_changed and names is not None
