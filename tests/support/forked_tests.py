"""Forked tests: runs tests in several processes that are forked after one collection.

Every process has all modules imported and all tests found, which takes seconds of CPU time.
"""

import atexit
import contextlib
import gc
import io
import itertools
import mmap
import os
import signal
import struct
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

#: Tests of one file stay together, and share its fixtures; of a long file, this many do.
TOGETHER_MAX: Final = 50
#: Trees whose tests wait long begin first, so that no process is left alone with them at the end.
FIRST: Final = ("browser", "system", "proof", "conformance")
_NUMBER: Final = struct.Struct(">I")
_DEATH_SECONDS: Final = 1.0
_OWN: Final = "worker-"


@dataclass(eq=False, kw_only=True, slots=True)
class _Worker:
    pid: int
    messages: Connection
    #: What it has taken and not finished, by index; the first is running if `is_running`.
    left: deque[int] = field(default_factory=deque)
    is_running: bool = False


class ForkedTests:
    """A plugin of pytest, in place of its loop over the tests."""

    def __init__(self, workers: int) -> None:
        """Fork this many processes, and one more for each that dies."""
        self._count = workers
        self._numbers = itertools.count()
        self._stop = mmap.mmap(-1, 1)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all tests, and report them here."""
        if session.config.option.collectonly or session.testsfailed or len(session.items) < 2:
            return None  # pytest's own loop knows what to do
        if reporter := session.config.pluginmanager.get_plugin("terminalreporter"):
            reporter.showfspath = False  # the file would change with every dot
        self._session = session
        self._parts = _parts(session.items)
        self._queue = _filled(len(self._parts))
        _directories(session.config).getbasetemp()  # made once, here
        gc.collect()
        gc.freeze()  # what all processes share is never looked through again
        workers = {self._forked() for _ in range(min(self._count, len(self._parts)))}
        try:
            self._listen(workers)
        except BaseException:
            self._stop[0] = 1
            for worker in workers:
                os.kill(worker.pid, signal.SIGINT)
            raise
        finally:
            for worker in workers:
                os.waitpid(worker.pid, 0)
            os.close(self._queue)
            gc.unfreeze()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    # --- the first process ------------------------------------------------------------------------

    def _listen(self, workers: set[_Worker]) -> None:
        """Report what the processes send, until all have ended."""
        while workers:
            ready = wait([worker.messages for worker in workers], _DEATH_SECONDS)
            for worker in [worker for worker in workers if worker.messages in ready]:
                with contextlib.suppress(EOFError):
                    self._heard(worker, *worker.messages.recv())
                    continue
                self._ended(worker, workers)
            # A process that a test forked and left may hold the pipe of a dead one.
            for worker in [] if ready else list(workers):
                if os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    self._ended(worker, workers)
            if self._session.shouldfail or self._session.shouldstop:
                self._stop[0] = 1

    def _heard(self, worker: _Worker, what: str, sent: Any) -> None:
        hook = self._session.config.hook
        if what == "taken":
            worker.left += sent
        elif what == "warning":
            hook.pytest_warning_recorded.call_historic(kwargs=sent)
        elif what == "report":
            report = hook.pytest_report_from_serializable(config=self._session.config, data=sent)
            hook.pytest_runtest_logreport(report=report)
        else:
            item = self._session.items[sent]
            begins = worker.is_running = what == "begin"
            if not begins:
                worker.left.popleft()
            name = "pytest_runtest_logstart" if begins else "pytest_runtest_logfinish"
            getattr(hook, name)(nodeid=item.nodeid, location=item.location)

    def _ended(self, worker: _Worker, workers: set[_Worker]) -> None:
        """Report the test that a process died in, and let another one go on after it."""
        workers.discard(worker)
        worker.messages.close()
        _, status = os.waitpid(worker.pid, 0)
        why = f"a process of tests ended with {os.waitstatus_to_exitcode(status)}"
        if worker.is_running:
            item = self._session.items[worker.left.popleft()]
            self._session.config.hook.pytest_runtest_logreport(
                report=pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
            )
            if not self._stop[0]:
                workers.add(self._forked(worker.left))
        elif status:
            self._session.shouldfail = f"{why}, outside of a test"

    def _forked(self, first: deque[int] | None = None) -> _Worker:
        receiving, sending = Pipe(duplex=False)
        number = next(self._numbers)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            receiving.close()
            self._run(number, sending, list(first or ()))
        sending.close()
        return _Worker(pid=pid, messages=receiving, left=deque(first or ()))

    # --- a forked process -------------------------------------------------------------------------

    def _run(self, number: int, sending: Connection, first: list[int]) -> NoReturn:
        """Run tests until none is left, and end without what the first process does at its end."""
        code = 1
        try:
            atexit._clear()
            _use_own_output(self._session.config)
            _use_own_directory(self._session.config, number)
            reporter = _Reporter(self._session.config, sending)
            self._session.config.pluginmanager.register(reporter)
            try:
                self._run_tests(reporter, first)
            except (KeyboardInterrupt, pytest.exit.Exception):
                self._stop[0] = 1
            self._session._setupstate.teardown_exact(None)
            atexit._run_exitfuncs()
            code = 0
        except BrokenPipeError:
            pass  # the first process was killed
        except BaseException:  # noqa: BLE001 - the exit code says so
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sending.close()
            os._exit(code)

    def _run_tests(self, reporter: "_Reporter", first: list[int]) -> None:
        items = self._session.items
        for index, following in _with_next(itertools.chain(first, self._taken(reporter))):
            reporter.send("begin", index)
            nextitem = None if following is None else items[following]
            self._session.config.hook.pytest_runtest_protocol(item=items[index], nextitem=nextitem)
            reporter.send("end", index)
            if self._stop[0]:
                break

    def _taken(self, reporter: "_Reporter") -> Iterator[int]:
        """Take one part after the other; each goes to one process."""
        while taken := os.read(self._queue, _NUMBER.size):
            part = self._parts[_NUMBER.unpack(taken)[0]]
            reporter.send("taken", part)
            yield from part


class _Reporter:
    """A plugin of a forked process: sends what pytest reports to the first one."""

    def __init__(self, config: pytest.Config, sending: Connection) -> None:
        self._config, self._sending = config, sending

    def send(self, what: str, sent: Any) -> None:
        self._sending.send((what, sent))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        self.send("report", hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        message = warnings.WarningMessage(
            UserWarning(f"{warning_message.category.__name__}: {warning_message.message}"),
            UserWarning,
            warning_message.filename,
            warning_message.lineno,
        )
        sent = {"warning_message": message, "when": when, "nodeid": nodeid, "location": location}
        self.send("warning", sent)


class _Nowhere(io.StringIO):
    def write(self, text: str) -> int:
        return len(text)


def _parts(items: list[pytest.Item]) -> list[list[int]]:
    """Return the indexes of the tests, those that one process runs together in one list."""
    parts: list[list[int]] = []
    for _, of_file in itertools.groupby(range(len(items)), lambda index: items[index].path):
        indexes = list(of_file)
        parts += [indexes[at : at + TOGETHER_MAX] for at in range(0, len(indexes), TOGETHER_MAX)]
    return sorted(parts, key=lambda part: _turn(items[part[0]].path))


def _turn(path: Path) -> int:
    return next((turn for turn, tree in enumerate(FIRST) if tree in path.parts), len(FIRST))


def _filled(parts: int) -> int:
    """Return a pipe that gives each number to one of its readers, and then its end."""
    reading, writing = os.pipe()
    os.write(writing, b"".join(map(_NUMBER.pack, range(parts))))
    os.close(writing)
    return reading


def _with_next(indexes: Iterator[int]) -> Iterator[tuple[int, int | None]]:
    index = next(indexes, None)
    while index is not None:
        following = next(indexes, None)
        yield index, following
        index = following


def _use_own_output(config: pytest.Config) -> None:
    """Capture into files that no other process writes to, and leave the terminal to the first."""
    if capturing := config.pluginmanager.get_plugin("capturemanager"):
        capturing.stop_global_capturing()
        capturing.start_global_capturing()
        capturing.suspend_global_capture()
    if terminal := config.pluginmanager.get_plugin("terminalreporter"):
        terminal._tw._file = _Nowhere()
    config.pluginmanager.unregister(name="passing")


def _use_own_directory(config: pytest.Config, number: int) -> None:
    """Make the names of tests' directories unique again."""
    factory = _directories(config)
    factory._basetemp = factory.getbasetemp() / f"{_OWN}{number}"
    factory._basetemp.mkdir(mode=0o700)


def _directories(config: pytest.Config) -> Any:
    return config._tmp_path_factory  # type: ignore[attr-defined]


def directory_of_all(factory: pytest.TempPathFactory) -> Path:
    """Return a directory that all processes of this run of tests share."""
    own = factory.getbasetemp()
    return own.parent if own.name.startswith(_OWN) else own
