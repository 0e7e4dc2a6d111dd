"""Kill places: kill or freeze a process at a crash point, a SQL statement or a line of code.

Three kinds: Onceward's crash points, the user's own statements (`sql@shop.py:12`), and lines of
functions that the user passes (`line@shop.py:12`). Enabled in a forked child only.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, Self

from onceward.system import crash_points
from onceward.testing.forked_process import fail, shown_path

if TYPE_CHECKING:
    from onceward.stores.sqlite.write_lock import WriteLock

#: Stands for the user's first statement, at any line.
FIRST_STATEMENT: Final = "sql"
#: How many characters of a statement are shown.
_TEXT_MAX: Final = 70


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One place in the code, and the pass at which to act."""

    name: str
    #: 1 for the first pass.
    nth: int
    #: The statement or line that comes next.
    text: str = ""

    @classmethod
    def read(cls, spec: str, text: str = "") -> Self:
        """Parse `name:nth`."""
        name, _, nth = spec.rpartition(":")
        is_place = nth.isdecimal() and (name in crash_points.POINTS or "@" in name)
        if not is_place:
            fail(f"{spec!r} is no place: pass name:nth, with a name from crash.POINTS")
        return cls(name=name, nth=int(nth), text=text)

    @property
    def spec(self) -> str:
        """Return the place as `name:nth`."""
        return f"{self.name}:{self.nth}"

    @property
    def states(self) -> tuple[str, str]:
        """Return what is done at this place, and what comes next."""
        if self.name in crash_points.POINTS:
            done, _, not_yet = crash_points.POINTS[self.name].partition(" | ")
            return done, not_yet
        kind, _, where = self.name.partition("@")
        what = "your statement" if kind == "sql" else "your line"
        return f"everything before {where}", f"{what}: {self.text}"

    def __str__(self) -> str:
        """Return the name, and the pass if it is not the first."""
        return self.name if self.nth == 1 else f"{self.name}, pass {self.nth}"


class Switch:
    """Counts the places that a process passes, and sends a signal at one of them."""

    def __init__(
        self,
        at: str | None = None,
        *,
        lines: Iterable[Callable[..., Any]] = (),
        act: signal.Signals = signal.SIGKILL,
        on_hit: Callable[[str, str], None] | None = None,
    ) -> None:
        """Act at `name:nth`, at the first pass of `name`, at the first statement, or nowhere."""
        is_named = at is None or at == FIRST_STATEMENT
        self._at = at if is_named or at in crash_points.POINTS else Place.read(str(at)).spec
        self._act = act
        self._on_hit = on_hit
        self._codes = frozenset(code for each in lines for code in _codes(each))
        self._mutex = threading.RLock()
        #: How often each place was passed, and its statement or line, in the order of first passes.
        self.passed: dict[str, tuple[int, str]] = {}

    def start(self) -> None:
        """Start counting, in all threads of this process."""
        crash_points.watch(self._pass)
        _hook_statements(self._pass)
        if self._codes:
            threading.settrace(self._trace)
            sys.settrace(self._trace)

    def _pass(self, name: str, text: str = "") -> None:
        with self._mutex:
            count = self.passed.get(name, (0, ""))[0] + 1
            self.passed[name] = (count, text)
            here = {name, f"{name}:{count}", name.partition("@")[0]}
            if self._at not in here:
                return
            self._at = None
            if self._on_hit is not None:
                self._on_hit(f"{name}:{count}", text)
        with ExitStack() as stack:
            if self._act == signal.SIGSTOP:
                # First wait until no other thread of this process writes to a database.
                for write_lock in _write_locks_not_held():
                    stack.enter_context(write_lock.block_this_process())
            # Sent to this thread: another thread could receive a signal to the process later.
            signal.pthread_kill(threading.get_ident(), self._act)

    def _trace(self, frame: FrameType, _event: str, _arg: object) -> Any:  # noqa: ANN401 - as `sys.settrace` has it
        return self._line if frame.f_code in self._codes else None

    def _line(self, frame: FrameType, event: str, _arg: object) -> Any:  # noqa: ANN401 - the same
        if event == "line":
            source = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
            self._pass(f"line@{_where(frame)}", source.strip())
        return self._line


def _write_locks_not_held() -> list[WriteLock]:
    """Return the write locks of all SQLite databases that this thread does not hold."""
    from onceward.stores.sqlite import database  # noqa: PLC0415 - not for every test run

    every = list(database._all)  # noqa: SLF001 - there is no public list
    return [each.write_lock for each in every if not each.write_lock.is_held_by_caller]


def _hook_statements(passed: Callable[[str, str], None]) -> None:
    """Make transactions call a function before every statement of the user."""
    from onceward.stores.sqlite.transaction import SqliteTransaction  # noqa: PLC0415 - the same

    kinds: list[Any] = [SqliteTransaction]
    if "psycopg" in sys.modules:
        from onceward.stores.postgres.transaction import PostgresTransaction  # noqa: PLC0415

        kinds.append(PostgresTransaction)
    for kind in kinds:
        for method in ("execute", "execute_many"):
            setattr(kind, method, _with_hook(getattr(kind, method), passed))


def _with_hook(
    original: Callable[..., Any], passed: Callable[[str, str], None]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(self: object, sql: str, *args: object, **kwargs: object) -> object:
        caller = sys._getframe(1)  # noqa: SLF001 - there is no public name for it
        if not str(caller.f_globals.get("__name__")).startswith("onceward."):
            text = " ".join(sql.split())
            cut = text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"
            passed(f"sql@{_where(caller)}", cut)
        return original(self, sql, *args, **kwargs)

    return run


def _where(frame: FrameType) -> str:
    return f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def _codes(function: Callable[..., Any]) -> list[CodeType]:
    """Return the code objects of an undecorated function and of its nested functions."""
    plain = inspect.unwrap(function)
    found = [plain.__code__]
    for code in found:
        found += [each for each in code.co_consts if isinstance(each, CodeType)]
    return found
