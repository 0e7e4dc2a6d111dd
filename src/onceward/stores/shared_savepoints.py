"""Shared savepoints: map commit and rollback of an ORM to savepoints inside our transaction.

The ORM's commit moves the latest savepoint forward, its rollback goes back to it. Only we end the
transaction. The same on both engines, which only run the statements.

ORMs also roll back when they have nothing to undo, as when a session is closed. So writes of `tx`
move the savepoint forward, too. If the ORM has uncommitted writes before those, a rollback cannot
undo them separately, and the transaction fails instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from onceward.errors import SqlFailed

_PREFIX: Final = "onceward_lent_"
_READ: Final = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:select|show)\b", re.IGNORECASE | re.DOTALL
)


def is_read(sql: str) -> bool:
    """Return whether a PostgreSQL statement only reads, judging by its first keyword."""
    return _READ.match(sql) is not None


class _State(NamedTuple):
    """The state when the ORM set a savepoint itself."""

    seen: int
    is_mixed: bool
    #: Number of writes of the ORM and of `tx` before it.
    theirs: int
    ours: int


class LentSavepoints:
    """Savepoints of one lent connection: one of ours inside each one that the ORM has set."""

    def __init__(self, run: Callable[[str], object], writes: Callable[[], int]) -> None:
        """Run statements with `run`, and set the first savepoint.

        `writes` returns a number that grows with each write of the ORM.
        """
        self._run = run
        self._writes = writes
        self._count = 0
        self._ours = 0
        #: All savepoints since the connection was lent, the latest last.
        self._open: list[str] = []
        self._states: dict[str, _State] = {}
        self._has_mixed_rollback = False
        self._set()

    def _set(self) -> None:
        self._count += 1
        name = f"{_PREFIX}{self._count}"
        self._run(f"savepoint {name}")
        self._open.append(name)
        self._start()

    def _start(self) -> None:
        #: Number of the ORM's writes at its last commit or rollback.
        self._seen = self._writes()
        #: Whether `tx` has written after uncommitted writes of the ORM.
        self._is_mixed = False

    def commit(self) -> None:
        """Keep the writes so far as part of the transaction."""
        name = self._open[-1]
        self._run(f"release savepoint {name}")
        self._run(f"savepoint {name}")
        self._start()

    def roll_back(self) -> None:
        """Undo the writes since the last commit, unless `tx` has written since then."""
        if self._is_mixed:
            self._has_mixed_rollback = True
            return
        self._run(f"rollback to savepoint {self._open[-1]}")
        self._start()

    def wrote(self) -> None:
        """Record a write of `tx`, so that no rollback of the ORM undoes it."""
        self._ours += 1
        if not self._is_mixed and self._writes() == self._seen:
            self.commit()
        else:
            self._is_mixed = True

    def follow(self, sql: str) -> None:
        """Track a savepoint statement that was run by others."""
        word, *_, name = sql.split()
        if word == "savepoint":
            self._states[name] = _State(self._seen, self._is_mixed, self._writes(), self._ours)
            self._open.append(name)
            self._set()
            return
        # A savepoint from before the connection was lent surrounds all of ours.
        index = self._open.index(name) if name in self._open else -1
        del self._open[index + (word == "rollback") :]
        if word == "rollback" or not any(each.startswith(_PREFIX) for each in self._open):
            self._set()
        else:
            self._leave(self._states.pop(name))

    def _leave(self, before: _State) -> None:
        """Restore the state from before a nested block, adjusted for what it wrote."""
        self._seen, self._is_mixed = before.seen, before.is_mixed
        if (self._writes(), self._ours) == (before.theirs, before.ours):
            return
        if not before.is_mixed and before.theirs == before.seen:
            self.commit()
        else:
            self._is_mixed = True

    def end(self) -> None:
        """Release all savepoints; the driver's error if the transaction was ended by others."""
        if self._has_mixed_rollback:
            message = (
                "commit: `tx.connection` was rolled back after both it and `tx` had written; the "
                "two cannot be undone separately, and nothing was committed"
            )
            fix = "commit or roll back the session before `tx` writes"
            raise SqlFailed(message, fix=fix)
        first = next(each for each in self._open if each.startswith(_PREFIX))
        self._run(f"release savepoint {first}")
