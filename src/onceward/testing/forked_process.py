"""Forked process: run one step of a trial in a forked child, and collect its result and reports.

The child reports to its parent through a file, whose content survives a kill.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import orjson

from onceward.errors import OncewardError
from onceward.system import ManualClock, SystemClock, SystemFiles

if TYPE_CHECKING:
    from onceward.testing.trial import Trial

Report = Callable[..., None]
#: A process's work; it may report values by name to its parent.
Work = Callable[["Trial", Report], object]
#: How long one process of a trial may run before the test fails.
SECONDS_MAX: Final = 60.0
#: How many lines of a process's output a failure message shows.
_OUTPUT_LINES_MAX: Final = 20
_POLL_SECONDS: Final = 0.002
#: How long to wait for the child's thread dump.
_DUMP_SECONDS: Final = 0.5
#: How a thread dump begins, and the frame that calls the user's functions.
_DUMP: Final = re.compile(r"^(?:Current thread|Thread) 0x.*", re.MULTILINE | re.DOTALL)
_CALL_FRAME: Final = f'  File "{Path(__file__).with_name("trial.py")}"'
#: Frames below this directory are Onceward's own, and left out of messages.
_OWN_DIRECTORY: Final = str(Path(__file__).parent.parent)


class Stuck(AssertionError):
    """A process of a trial did not end in time."""

    def __init__(self, seconds: float, threads: str) -> None:
        """Include the stacks of the process's threads."""
        super().__init__(f"the process did not end within {seconds:g} s; threads are at\n{threads}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessResult:
    """How a process ended, and what it reported."""

    #: 0 after a normal end, 1 after an exception, the negative number of a signal.
    code: int
    #: The exception as text: type, message, and the user's line.
    error: str = ""
    #: Whether the exception was retryable.
    is_retryable: bool = False
    #: Whether the exception was one that the test accepts.
    is_accepted: bool = False
    #: Reported values: places passed, the place of the kill, the result of a query.
    reported: dict[str, Any] = field(default_factory=dict)
    #: The last lines of its output.
    output: str = ""

    @property
    def is_fine(self) -> bool:
        """Return whether the process succeeded, or failed with an accepted error."""
        return self.code == 0 or self.is_accepted

    def expect(self, what: str) -> Self:
        """Fail the test unless the process succeeded."""
        __tracebackhide__ = True
        if not self.is_fine:
            fail(f"{what} failed: {self.text}")
        return self

    @property
    def text(self) -> str:
        """Return how the process ended, and its output."""
        how = self.error or (f"ended with code {self.code}" if self.code else "ended well")
        if self.code < 0:
            how = f"died of signal {-self.code}"
        return f"{how}\noutput:\n{indented(self.output)}" if self.output else how


class ForkedProcess:
    """A forked child that runs one piece of work in a trial."""

    def __init__(
        self,
        work: Work,
        trial: Trial,
        *,
        name: str,
        later_seconds: float = 0.0,
        accept: tuple[type[BaseException], ...] = (),
    ) -> None:
        """Fork a child whose clock is `later_seconds` ahead, so that leases have expired."""
        self._trial = trial
        self._report_path = trial.path.parent / f"{name}.report"
        self._output = trial.path.parent / f"{name}.output"
        self._clock = SystemClock()
        self._status: int | None = None
        for file in (self._report_path, self._output):
            file.unlink(missing_ok=True)
        with warnings.catch_warnings():
            # The child resets Onceward's state, and never returns into this program.
            warnings.simplefilter("ignore", DeprecationWarning)
            # Otherwise the child's garbage collector would copy all shared memory pages.
            gc.freeze()
            self.pid = os.fork()
        if not self.pid:
            self._run_child(work, later_seconds, accept)
        gc.unfreeze()

    def report(self, **what: object) -> None:
        """Report to the parent process."""
        report(self._report_path, **what)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill the child, unless it has ended."""
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            self._status = os.waitpid(self.pid, 0)[1]

    def wait(self, seconds_max: float = SECONDS_MAX) -> ProcessResult:
        """Wait for the child's end."""
        self.await_change(seconds_max)
        assert self._status is not None
        reported = self.reported()
        error = reported.pop("error", {})
        return ProcessResult(
            code=os.waitstatus_to_exitcode(self._status),
            reported=reported,
            output=self.printed(),
            **error,
        )

    def _threads(self) -> str:
        """Return the child's thread stacks, without the frames that call the user's function."""
        os.kill(self.pid, signal.SIGUSR1)
        self._clock.sleep(_DUMP_SECONDS)
        found = _DUMP.search(self._output.read_text(errors="replace"))
        threads = found[0].split("\n\n") if found else ["at an unknown place"]
        return "\n".join(indented(each.partition(_CALL_FRAME)[0].rstrip()) for each in threads)

    def reported(self) -> dict[str, Any]:
        """Return the values that the child reported so far."""
        found: dict[str, Any] = {}
        if self._report_path.exists():
            for line in self._report_path.read_bytes().splitlines():
                found.update(orjson.loads(line))
        return found

    def end(self, seconds_max: float = SECONDS_MAX) -> ProcessResult:
        """Wait for the child's end; kill it after `seconds_max`, and return that as its error."""
        try:
            return self.wait(seconds_max)
        except Stuck as exc:
            self.kill()
            return ProcessResult(code=1, error=str(exc))

    def printed(self) -> str:
        """Return the last lines of the child's output so far."""
        if not self._output.exists():
            return ""
        lines = self._output.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_OUTPUT_LINES_MAX:])

    def await_change(self, seconds_max: float, *, is_freeze: bool = False) -> bool:
        """Wait until the child ended, or, with `is_freeze`, froze; return whether it is frozen."""
        until = self._clock.monotonic() + seconds_max
        flags = os.WNOHANG | (os.WUNTRACED if is_freeze else 0)
        while self._status is None:
            pid, status = os.waitpid(self.pid, flags)
            if pid and os.WIFSTOPPED(status):
                return True
            if pid:
                self._status = status
            elif self._clock.monotonic() >= until:
                raise Stuck(seconds_max, self._threads())
            else:
                self._clock.sleep(_POLL_SECONDS)
        return False

    # --- in the child ----------------------------------------------------------------------------

    def _run_child(
        self,
        work: Work,
        later_seconds: float,
        accept: tuple[type[BaseException], ...],
    ) -> NoReturn:
        code = 1
        try:
            self._redirect_output()
            faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
            os.environ["ONCEWARD_STORE"] = self._trial.url
            if later_seconds:
                _move_time(self._trial.url, later_seconds)
            work(self._trial, self.report)
            code = 0
        except BaseException as exc:  # noqa: BLE001 - reported, then the child ends whatever it was
            self.report(
                error={
                    "error": _error_text(exc),
                    "is_retryable": isinstance(exc, OncewardError) and exc.retryable,
                    "is_accepted": isinstance(exc, accept),
                }
            )
        finally:
            # Never return into the parent's code, and run none of its exit hooks.
            sys.stdout.flush()
            os._exit(code)

    def _redirect_output(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(self._output, flags, 0o600)
        for standard in (1, 2):
            os.dup2(descriptor, standard)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)


def fail(message: str) -> NoReturn:
    """Fail a test. Not by `assert`, because pytest would add the values in Onceward's own code."""
    __tracebackhide__ = True
    raise AssertionError(message)


def report(path: Path, **what: object) -> None:
    """Append one line to a process's report, in one system call, so that a kill cannot tear it."""
    file = SystemFiles().open_append(path)
    file.write(orjson.dumps(what) + b"\n")
    file.close()


def indented(text: str) -> str:
    """Indent a text by two spaces."""
    return "\n".join(f"  {line}" for line in text.splitlines())


def _error_text(exc: BaseException) -> str:
    """Return an exception as its type, its message, and the user's line that raised it."""
    text = "".join(traceback.format_exception_only(exc)).rstrip()
    frames = traceback.extract_tb(exc.__traceback__)
    own = [each for each in frames if not each.filename.startswith(_OWN_DIRECTORY)]
    if own:
        text += f"\nat {shown_path(own[-1].filename)}:{own[-1].lineno}: {own[-1].line}"
    return text.encode(errors="backslashreplace").decode()


def shown_path(filename: str) -> str:
    """Return a path relative to the working directory, if it is below it."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


def _move_time(url: str, seconds: float) -> None:
    """Advance the clocks of this process and of the database."""
    for kind in (SystemClock, ManualClock):
        _move_clock(kind, seconds)
    if url.startswith("postgres"):
        from onceward.stores import open_store  # noqa: PLC0415 - only where it is used
        from onceward.testing.moving_time import MovingTime  # noqa: PLC0415 - the same

        store = open_store(url)
        MovingTime(store).advance(seconds=seconds)
        store.close()


def _move_clock(kind: type[SystemClock | ManualClock], seconds: float) -> None:
    from datetime import timedelta  # noqa: PLC0415 - in the process that needs it

    boot, now = kind.boot_seconds, kind.now
    changed: Any = kind
    changed.boot_seconds = lambda self: boot(self) + seconds
    changed.now = lambda self: now(self) + timedelta(seconds=seconds)
