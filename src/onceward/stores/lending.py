"""Lending: the savepoints of a transaction whose connection is lent to the user's database layer.

What that layer calls a transaction lies between two savepoints of ours: its commit moves the later
one forward, its rollback goes back to it. The transaction itself stays ours. The same on both
engines, which only run the statements.

Database layers also roll back when they have nothing to undo, as when a session is closed. So what
`tx` itself writes moves the savepoint forward, too. Where that layer has unfinished writes before
it, a rollback cannot undo those alone, and the transaction fails instead.
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
    """Return whether a statement of PostgreSQL's only reads, as far as its first word tells."""
    return _READ.match(sql) is not None


class _State(NamedTuple):
    """What was known when a savepoint of others was set."""

    seen: int
    is_mixed: bool
    #: Writes of the user's layer and of `tx` up to then.
    theirs: int
    ours: int


class Lending:
    """The savepoints of one lent connection; one inside each savepoint that others have set."""

    def __init__(self, run: Callable[[str], object], writes: Callable[[], int]) -> None:
        """Run statements with this, and set the first savepoint.

        `writes` returns a number that grows with each write of the user's database layer.
        """
        self._run = run
        self._writes = writes
        self._count = 0
        self._ours = 0
        #: Every savepoint that was set since the connection was lent, the latest last.
        self._open: list[str] = []
        self._states: dict[str, _State] = {}
        self._is_spoilt = False
        self._set()

    def _set(self) -> None:
        self._count += 1
        name = f"{_PREFIX}{self._count}"
        self._run(f"savepoint {name}")
        self._open.append(name)
        self._start()

    def _start(self) -> None:
        #: The writes of the user's layer when nothing of them was unfinished.
        self._seen = self._writes()
        #: Whether `tx` has written after unfinished writes of the user's layer.
        self._is_mixed = False

    def commit(self) -> None:
        """Keep what was written so far, as part of the transaction."""
        name = self._open[-1]
        self._run(f"release savepoint {name}")
        self._run(f"savepoint {name}")
        self._start()

    def roll_back(self) -> None:
        """Undo what was written since the last commit, if `tx` has not written meanwhile."""
        if self._is_mixed:
            self._is_spoilt = True
            return
        self._run(f"rollback to savepoint {self._open[-1]}")
        self._start()

    def wrote(self) -> None:
        """Take note that `tx` has written, so that no rollback of the user's layer undoes it."""
        self._ours += 1
        if not self._is_mixed and self._writes() == self._seen:
            self.commit()
        else:
            self._is_mixed = True

    def follow(self, sql: str) -> None:
        """Take note of a statement about another savepoint, which has run."""
        word, *_, name = sql.split()
        if word == "savepoint":
            self._states[name] = _State(self._seen, self._is_mixed, self._writes(), self._ours)
            self._open.append(name)
            self._set()
            return
        # One that was set before the connection was lent is around all of ours.
        place = self._open.index(name) if name in self._open else -1
        del self._open[place + (word == "rollback") :]
        if word == "rollback" or not any(each.startswith(_PREFIX) for each in self._open):
            self._set()
        else:
            self._leave(self._states.pop(name))

    def _leave(self, before: _State) -> None:
        """Go on as before a block, which has written for `tx` or has written nothing."""
        self._seen, self._is_mixed = before.seen, before.is_mixed
        if (self._writes(), self._ours) == (before.theirs, before.ours):
            return
        if not before.is_mixed and before.theirs == before.seen:
            self.commit()
        else:
            self._is_mixed = True

    def end(self) -> None:
        """Release all of them; the driver's error when the transaction is not the same any more."""
        if self._is_spoilt:
            message = (
                "commit: the lent connection was rolled back after `tx` had written, too; both "
                "cannot be told apart, and nothing was committed"
            )
            fix = "commit or roll back the session before `tx` writes"
            raise SqlFailed(message, fix=fix)
        first = next(each for each in self._open if each.startswith(_PREFIX))
        self._run(f"release savepoint {first}")
