"""Savepoints: places in a transaction to go back to, and calls that are undone when they fail.

The same on both engines, which only run the statements. Where nothing was written yet there is no
savepoint in the database and no write lock: going back is a rollback, and the transaction begins
again, first-write hooks included, at its next write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal

from onceward.errors import FenceLost, JoinedConcurrently, LeaseLost, OncewardError, SqlFailed

#: Errors after which nothing of a transaction may be committed, not even what came before a call.
_FATAL: Final = (LeaseLost, FenceLost)


class Savepoint:
    """A place in a transaction. Calling it undoes everything since, as often as it is called."""

    def __init__(self, transaction: Nestable, name: str | None) -> None:
        """Stand for this place; `name` is None where nothing was written before it."""
        self._transaction = transaction
        self._name = name
        self._hooks = [len(each) for each in transaction.hooks()]
        #: How it came to an end, if it did.
        self.end: Literal["undone", "released"] | None = None
        #: The block that surrounds it in its context, if it is a block; of any transaction.
        self.outer: Savepoint | None = None

    def __call__(self) -> None:
        """Undo everything since this place, and drop the hooks that were registered since."""
        transaction = self._transaction
        if self.end == "undone":
            return
        if self.end == "released":
            message = "this savepoint was released: what followed it is part of what surrounds it"
            raise SqlFailed(message, fix="undo the surrounding savepoint, or raise to roll back")
        if self._name is not None:
            transaction.run_savepoint(f"rollback to {self._name}")
        elif transaction.is_joinable:
            transaction.roll_back()
        else:
            message = "this transaction has ended"
            raise SqlFailed(message, fix="open one of your own")
        for hooks, kept in zip(transaction.hooks(), self._hooks, strict=True):
            del hooks[kept:]
        self._end_later_ones("undone")

    def release(self) -> None:
        """Keep what followed, as part of what surrounds it. It cannot be undone alone any more."""
        if self.end == "undone":
            message = "a surrounding savepoint was undone, and with it everything since this one"
            raise SqlFailed(message, fix="undo savepoints in the reverse order of their creation")
        if self.end == "released":
            return
        if self._name is not None:
            self._transaction.run_savepoint(f"release {self._name}")
        self._end_later_ones("released")
        self.end = "released"
        self._transaction.savepoints.remove(self)

    def _end_later_ones(self, how: Literal["undone", "released"]) -> None:
        savepoints = self._transaction.savepoints
        later = savepoints.index(self) + 1
        for each in savepoints[later:]:
            each.end = how
        del savepoints[later:]


#: The innermost block of this context, of whatever transaction.
_INNERMOST: Final[ContextVar[Savepoint | None]] = ContextVar("innermost", default=None)


class Nestable(ABC):
    """A transaction with savepoints and blocks that nest."""

    def __init__(self) -> None:
        """Begin without any."""
        #: Those that are open, the latest last.
        self.savepoints: list[Savepoint] = []
        #: The innermost block that is open, in whatever context.
        self.innermost: Savepoint | None = None
        self._is_doomed = False
        self._savepoint_count = 0

    @property
    @abstractmethod
    def is_joinable(self) -> bool:
        """Say whether it is still open, in the process that opened it."""

    @property
    @abstractmethod
    def is_writing(self) -> bool:
        """Say whether it has begun in the database."""

    @abstractmethod
    def run_savepoint(self, sql: str) -> None:
        """Run a statement about a savepoint."""

    @abstractmethod
    def roll_back(self) -> None:
        """Undo everything."""

    @abstractmethod
    def hooks(self) -> tuple[list[Any], ...]:
        """Return all that others asked of the transaction, the latest last."""

    def doom(self) -> None:
        """Let nothing of it be committed, whoever swallows the error that said so."""
        self._is_doomed = True

    def savepoint(self) -> Savepoint:
        """Return what undoes everything from here on, and nothing before."""
        name = None
        if self.is_writing:
            self._savepoint_count += 1
            name = f"onceward_{self._savepoint_count}"
            self.run_savepoint(f"savepoint {name}")
        savepoint = Savepoint(self, name)
        self.savepoints.append(savepoint)
        return savepoint

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Undo what the block did when an error leaves it, whatever becomes of the error.

        Blocks of one transaction nest: JoinedConcurrently while one is open that does not surround
        this one. A lost lease, fence or connection ends the whole transaction.
        """
        outer, surrounding = _INNERMOST.get(), self.innermost
        if not _is_inside(outer, surrounding):
            message = "another call is still running in this transaction; this one was not started"
            raise JoinedConcurrently(message)
        savepoint = self.savepoint()
        savepoint.outer = outer
        self.innermost = savepoint
        _INNERMOST.set(savepoint)
        try:
            yield
            if self.innermost is not savepoint:
                message = "a call that was started inside this one still runs; both are undone"
                raise JoinedConcurrently(message)  # noqa: TRY301 - undone like any other error
            savepoint.release()
        except BaseException as exc:
            self._undo(savepoint, exc)
            raise
        finally:
            # Not by a token: a block may end in a copy of the context it began in, or, when its
            # task is destroyed, in the context of another, which is left alone.
            if _INNERMOST.get() is savepoint:
                _INNERMOST.set(outer)
            if _is_inside(self.innermost, savepoint):
                self.innermost = surrounding

    def _undo(self, savepoint: Savepoint, error: BaseException) -> None:
        if _is_fatal(error) or _is_fatal(error.__cause__) or self._is_doomed:
            self.doom()
            return
        try:
            savepoint()
            if savepoint.end is None:
                savepoint.release()
        except BaseException as problem:
            self.doom()  # What cannot be undone in part is undone as a whole.
            if not isinstance(problem, OncewardError):
                raise

    def check_nested(self) -> None:
        """Refuse to commit while a call is running in it: half of that call would stay."""
        if self.innermost is not None:
            message = "commit: a call is still running in this transaction; nothing was committed"
            raise JoinedConcurrently(message, fix="await every call before the block ends")


def _is_fatal(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):  # Of a task group inside the block.
        return error.subgroup(_FATAL) is not None
    return isinstance(error, _FATAL)


def _is_inside(block: Savepoint | None, surrounding: Savepoint | None) -> bool:
    """Say whether a context whose innermost block is `block` is inside the other one, if any."""
    if surrounding is None:
        return True
    while block is not None and block is not surrounding:
        block = block.outer
    return block is not None
