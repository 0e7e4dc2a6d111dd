"""Forked process: one real process of an experiment, forked, watched, and killed or ended.

Owns what the process reports to its parent. That goes through a file, because a process that is
killed says nothing, and what it wrote before is still there.
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

Tell = Callable[..., None]
#: What a process does; it may tell things, by their names.
Work = Callable[["Trial", Tell], object]
#: How long one process of an experiment may take before it is taken for stuck.
SECONDS_MAX: Final = 60.0
#: How much of what a process printed is shown.
_OUTPUT_LINES_MAX: Final = 20
_LOOK_SECONDS: Final = 0.002
#: How long to wait for a process that says where its threads are.
_DUMP_SECONDS: Final = 0.5
#: How that begins, and where the user's own functions are called.
_DUMP: Final = re.compile(r"^(?:Current thread|Thread) 0x.*", re.MULTILINE | re.DOTALL)
_BELOW: Final = f'  File "{Path(__file__).with_name("trial.py")}"'
#: Frames of these are ours, and not what a user looks for.
_OUR_OWN: Final = str(Path(__file__).parent.parent)


class Stuck(AssertionError):
    """A process of an experiment neither ended nor died."""

    def __init__(self, seconds: float, threads: str) -> None:
        """Say where its threads are."""
        super().__init__(f"it did not end within {seconds:g} s; its threads are at\n{threads}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a process ended."""

    #: 0 at its own end, 1 when it raised something, a negative number for a signal.
    code: int
    #: What it raised, as text: type, message, and the user's line.
    error: str = ""
    #: Whether that was an error after which one tries again.
    is_retryable: bool = False
    #: Whether that was an error which the test takes for an end.
    is_accepted: bool = False
    #: What it reports: places it passed, where it was hit, the value of a query.
    reported: dict[str, Any] = field(default_factory=dict)
    #: The end of what it printed.
    output: str = ""

    @property
    def is_fine(self) -> bool:
        """Say whether it ended as it should."""
        return self.code == 0 or self.is_accepted

    def expect(self, what: str) -> Self:
        """Fail unless it ended as it should."""
        __tracebackhide__ = True
        if not self.is_fine:
            fail(f"{what} failed: {self.text}")
        return self

    @property
    def text(self) -> str:
        """Say how it ended, in words."""
        how = self.error or (f"ended with code {self.code}" if self.code else "ended well")
        if self.code < 0:
            how = f"died of signal {-self.code}"
        return f"{how}\nit printed:\n{indented(self.output)}" if self.output else how


class Life:
    """A child of this process that does one thing in a trial."""

    def __init__(
        self,
        work: Work,
        trial: Trial,
        *,
        name: str,
        later_seconds: float = 0.0,
        accept: tuple[type[BaseException], ...] = (),
    ) -> None:
        """Fork it; for it the leases of now ended `later_seconds` ago."""
        self._trial = trial
        self._report_path = trial.path.parent / f"{name}.report"
        self._output = trial.path.parent / f"{name}.output"
        self._clock = SystemClock()
        self._status: int | None = None
        for file in (self._report_path, self._output):
            file.unlink(missing_ok=True)
        with warnings.catch_warnings():
            # It starts again with Onceward's state, and never returns into this program.
            warnings.simplefilter("ignore", DeprecationWarning)
            # The child's garbage collector would copy, page by page, what both share.
            gc.freeze()
            self.pid = os.fork()
        if not self.pid:
            self._be(work, later_seconds, accept)
        gc.unfreeze()

    def tell(self, **what: object) -> None:
        """Report to the parent process."""
        tell(self._report_path, **what)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it, unless it has ended."""
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            self._status = os.waitpid(self.pid, 0)[1]

    def wait(self, seconds_max: float = SECONDS_MAX) -> Ended:
        """Wait for its end."""
        self.await_change(seconds_max)
        assert self._status is not None
        reported = self.reported()
        error = reported.pop("error", {})
        return Ended(
            code=os.waitstatus_to_exitcode(self._status),
            reported=reported,
            output=self.printed(),
            **error,
        )

    def _threads(self) -> str:
        """Return where its threads are, without what is below the user's function."""
        os.kill(self.pid, signal.SIGUSR1)
        self._clock.sleep(_DUMP_SECONDS)
        found = _DUMP.search(self._output.read_text(errors="replace"))
        threads = found[0].split("\n\n") if found else ["at an unknown place"]
        return "\n".join(indented(each.partition(_BELOW)[0].rstrip()) for each in threads)

    def reported(self) -> dict[str, Any]:
        """Return what it reported so far."""
        found: dict[str, Any] = {}
        if self._report_path.exists():
            for line in self._report_path.read_bytes().splitlines():
                found.update(orjson.loads(line))
        return found

    def end(self, seconds_max: float = SECONDS_MAX) -> Ended:
        """Wait for its end, and end it if it is stuck: that is an error as any other."""
        try:
            return self.wait(seconds_max)
        except Stuck as exc:
            self.kill()
            return Ended(code=1, error=str(exc))

    def printed(self) -> str:
        """Return the end of what it printed so far."""
        if not self._output.exists():
            return ""
        lines = self._output.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_OUTPUT_LINES_MAX:])

    def await_change(self, seconds_max: float, *, is_freeze: bool = False) -> bool:
        """Wait until it has ended, or is frozen if that is wanted; say whether it is frozen."""
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
                self._clock.sleep(_LOOK_SECONDS)
        return False

    # --- in the child ----------------------------------------------------------------------------

    def _be(
        self,
        work: Work,
        later_seconds: float,
        accept: tuple[type[BaseException], ...],
    ) -> NoReturn:
        code = 1
        try:
            self._print_elsewhere()
            faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
            os.environ["ONCEWARD_STORE"] = self._trial.url
            if later_seconds:
                _move_time(self._trial.url, later_seconds)
            work(self._trial, self.tell)
            code = 0
        except BaseException as exc:  # noqa: BLE001 - reported, then the child ends whatever it was
            self.tell(
                error={
                    "error": _described(exc),
                    "is_retryable": isinstance(exc, OncewardError) and exc.retryable,
                    "is_accepted": isinstance(exc, accept),
                }
            )
        finally:
            # Not back into the parent's code, and none of its exit hooks.
            sys.stdout.flush()
            os._exit(code)

    def _print_elsewhere(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(self._output, flags, 0o600)
        for standard in (1, 2):
            os.dup2(descriptor, standard)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)


def fail(message: str) -> NoReturn:
    """Fail a test. Not by `assert`, to which pytest would add how our own code computes."""
    __tracebackhide__ = True
    raise AssertionError(message)


def tell(path: Path, **what: object) -> None:
    """Add a line to what a process tells; one call of the system, so that a kill tears nothing."""
    file = SystemFiles().open_append(path)
    file.write(orjson.dumps(what) + b"\n")
    file.close()


def indented(text: str) -> str:
    """Move a text to the right."""
    return "\n".join(f"  {line}" for line in text.splitlines())


def _described(exc: BaseException) -> str:
    """Return an error as its type, its message, and the line of the user's that raised it."""
    text = "".join(traceback.format_exception_only(exc)).rstrip()
    frames = traceback.extract_tb(exc.__traceback__)
    own = [each for each in frames if not each.filename.startswith(_OUR_OWN)]
    if own:
        text += f"\nat {shown_path(own[-1].filename)}:{own[-1].lineno}: {own[-1].line}"
    return text.encode(errors="backslashreplace").decode()


def shown_path(filename: str) -> str:
    """Return a file's name as it is seen from here."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


def _move_time(url: str, seconds: float) -> None:
    """Let so much time have passed, in this process and in the database."""
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
