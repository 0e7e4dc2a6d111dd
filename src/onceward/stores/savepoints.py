"""Savepoints: undo part of a transaction, and nested blocks that are undone when they fail.

The same on both engines, which only run the statements. Before the first write there is no
savepoint in the database and no write lock: undoing is a rollback, and the transaction begins
again, first-write hooks included, at its next write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal

from onceward.errors import FenceLost, JoinedConcurrently, LeaseLost, OncewardError, SqlFailed

#: Errors after which nothing of a transaction may be committed, not even writes before the call.
_FATAL: Final = (LeaseLost, FenceLost)


class Savepoint:
    """A savepoint of a transaction. Each call undoes everything after it."""

    def __init__(self, transaction: Nestable, name: str | None) -> None:
        """Mark the current position; `name` is None where nothing was written before it."""
        self._transaction = transaction
        self._name = name
        self._hooks = [len(each) for each in transaction.hooks()]
        #: How it ended; None while it is open.
        self.end: Literal["undone", "released"] | None = None
        #: The surrounding `nested` block of its context, of any transaction; None if there is none.
        self.outer: Savepoint | None = None

    def __call__(self) -> None:
        """Undo everything after this savepoint, and drop the hooks registered after it."""
        transaction = self._transaction
        if self.end == "undone":
            return
        if self.end == "released":
            message = "this savepoint was released, so it cannot be undone by itself"
            raise SqlFailed(message, fix="undo the surrounding savepoint, or raise to roll back")
        if self._name is not None:
            transaction.run_savepoint(f"rollback to {self._name}")
        elif transaction.is_joinable:
            transaction.roll_back()
        else:
            message = "this transaction has ended, so nothing of it can be undone"
            raise SqlFailed(message, fix="undo a savepoint before its transaction ends")
        for hooks, kept in zip(transaction.hooks(), self._hooks, strict=True):
            del hooks[kept:]
        self._end_later_ones("undone")

    def release(self) -> None:
        """Merge its writes into the surrounding savepoint; it cannot be undone any more."""
        if self.end == "undone":
            message = "a surrounding savepoint was undone, and this one with it"
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


#: The innermost `nested` block of this context, of any transaction.
_INNERMOST: Final[ContextVar[Savepoint | None]] = ContextVar("innermost", default=None)


class Nestable(ABC):
    """A transaction with savepoints and nested blocks."""

    def __init__(self) -> None:
        """Start without savepoints."""
        #: Open savepoints, the latest last.
        self.savepoints: list[Savepoint] = []
        #: The innermost open block, in any context.
        self.innermost: Savepoint | None = None
        self._is_rollback_only = False
        self._savepoint_count = 0

    @property
    @abstractmethod
    def is_joinable(self) -> bool:
        """Return whether it is open, in the process that opened it."""

    @property
    @abstractmethod
    def is_writing(self) -> bool:
        """Return whether it has begun in the database."""

    @abstractmethod
    def run_savepoint(self, sql: str) -> None:
        """Run a SAVEPOINT, RELEASE or ROLLBACK TO statement."""

    @abstractmethod
    def roll_back(self) -> None:
        """Roll back the transaction."""

    @abstractmethod
    def hooks(self) -> tuple[list[Any], ...]:
        """Return the lists of registered callbacks, the latest last in each."""

    def mark_rollback_only(self) -> None:
        """Forbid the commit, also if a handler swallows the error that caused it."""
        self._is_rollback_only = True

    def savepoint(self) -> Savepoint:
        """Set a savepoint; call it to undo everything after it, and nothing before."""
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
        """Undo the block's writes when an error leaves it, also if a caller catches that error.

        Blocks of one transaction nest: JoinedConcurrently while one is open that does not surround
        this one. A lost lease, fence or connection ends the transaction.
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
                message = "a call inside this one still ran when this one ended; both are undone"
                fix = (
                    "await the inner call before the outer one ends; then call the outer one again"
                )
                raise JoinedConcurrently(message, fix=fix)  # noqa: TRY301 - undone like any other
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
        if _is_fatal(error) or _is_fatal(error.__cause__) or self._is_rollback_only:
            self.mark_rollback_only()
            return
        try:
            savepoint()
            if savepoint.end is None:
                savepoint.release()
        except BaseException as problem:
            self.mark_rollback_only()  # If a part cannot be undone, the transaction is rolled back.
            if not isinstance(problem, OncewardError):
                raise

    def check_nested(self) -> None:
        """Raise while a nested call is running: a commit would keep half of it."""
        if self.innermost is not None:
            message = "commit: a call is still running in this transaction; nothing was committed"
            raise JoinedConcurrently(message, fix="await every call before the block ends")


def _is_fatal(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):  # Of a task group inside the block.
        return error.subgroup(_FATAL) is not None
    return isinstance(error, _FATAL)


def _is_inside(block: Savepoint | None, surrounding: Savepoint | None) -> bool:
    """Return whether `block`, the innermost of a context, is inside the surrounding one, if any."""
    if surrounding is None:
        return True
    while block is not None and block is not surrounding:
        block = block.outer
    return block is not None
