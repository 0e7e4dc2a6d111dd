"""Kill places: where in a scenario a process can be killed or frozen.

Three kinds: the product's crash points, the user's own statements (`sql@shop.py:12`), and the lines
of functions that the user names (`line@shop.py:12`). All of it is switched on in a forked child
only; the product knows nothing of it.
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

#: The first statement of the user's, wherever it is.
FIRST_STATEMENT: Final = "sql"
#: How much of a statement is shown.
_TEXT_MAX: Final = 70


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One pass of one place."""

    name: str
    #: 1 for the first pass.
    nth: int
    #: What it stands before, for a statement or a line.
    text: str = ""

    @classmethod
    def read(cls, spec: str, text: str = "") -> Self:
        """Return the place that `name:nth` says."""
        name, _, nth = spec.rpartition(":")
        is_place = nth.isdecimal() and (name in crash_points.POINTS or "@" in name)
        if not is_place:
            fail(f"{spec!r} is no place: say name:nth, with a name from crash.POINTS")
        return cls(name=name, nth=int(nth), text=text)

    @property
    def spec(self) -> str:
        """Return it as `name:nth`."""
        return f"{self.name}:{self.nth}"

    @property
    def states(self) -> tuple[str, str]:
        """Return what is done there, and what is not yet."""
        if self.name in crash_points.POINTS:
            done, _, not_yet = crash_points.POINTS[self.name].partition(" | ")
            return done, not_yet
        kind, _, where = self.name.partition("@")
        what = "your statement" if kind == "sql" else "your line"
        return f"everything before {where}", f"{what}: {self.text}"

    def __str__(self) -> str:
        """Name it for a reader."""
        return self.name if self.nth == 1 else f"{self.name}, pass {self.nth}"


class Switch:
    """Counts what a process passes, and acts at one place."""

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
        #: How often each place was passed, and what stands behind it, in the order of first passes.
        self.passed: dict[str, tuple[int, str]] = {}

    def switch_on(self) -> None:
        """Watch this process from now on, in all its threads."""
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
                # None of our other threads writes: that is another freeze than the one asked for.
                for turns in _turns_of_others():
                    stack.enter_context(turns.block_this_process())
            # To this thread: a signal to the process may be another's, and this one go on a while.
            signal.pthread_kill(threading.get_ident(), self._act)

    def _trace(self, frame: FrameType, _event: str, _arg: object) -> Any:  # noqa: ANN401 - as `sys.settrace` has it
        return self._line if frame.f_code in self._codes else None

    def _line(self, frame: FrameType, event: str, _arg: object) -> Any:  # noqa: ANN401 - the same
        if event == "line":
            source = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
            self._pass(f"line@{_where(frame)}", source.strip())
        return self._line


def _turns_of_others() -> list[WriteLock]:
    """Return whose turn it is to write, in each file in which it is not that of this thread."""
    from onceward.stores.sqlite import database  # noqa: PLC0415 - not for every test run

    every = list(database._all)  # noqa: SLF001 - there is no public list
    return [each.write_lock for each in every if not each.write_lock.is_held_by_caller]


def _hook_statements(passed: Callable[[str, str], None]) -> None:
    """Call a function before every statement that the user runs in a transaction."""
    from onceward.stores.sqlite.transaction import SqliteTransaction  # noqa: PLC0415 - the same

    kinds: list[Any] = [SqliteTransaction]
    if "psycopg" in sys.modules:
        from onceward.stores.postgres.transaction import PostgresTransaction  # noqa: PLC0415

        kinds.append(PostgresTransaction)
    for kind in kinds:
        for method in ("execute", "execute_many"):
            setattr(kind, method, _told(getattr(kind, method), passed))


def _told(original: Callable[..., Any], passed: Callable[[str, str], None]) -> Callable[..., Any]:
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
    """Return the code of a function, below its decorators, and of those inside it."""
    plain = inspect.unwrap(function)
    found = [plain.__code__]
    for code in found:
        found += [each for each in code.co_consts if isinstance(each, CodeType)]
    return found
