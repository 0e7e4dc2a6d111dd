"""Program run: run a command line with a timeout, and kill its process group afterwards.

Owns the process group, the pipes and the timeout. Knows neither agents nor what output means.
"""

from __future__ import annotations

import errno
import os
import re
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from onceward.agents import group_leader
from onceward.agents.program_lock import ProgramLock, program_lock
from onceward.errors import OncewardError
from onceward.system import Clock, SystemClock

#: Only the end of the output is kept; all of it is passed on line by line.
OUTPUT_BYTES_MAX: Final = 256 * 1024
TAIL_LINES_MAX: Final = 40
#: Longer lines are passed on in pieces.
LINE_BYTES_MAX: Final = 16 * 1024
#: Of more lines in one piece of output, only the last are passed on.
LINES_AT_ONCE_MAX: Final = 500
#: How long to read after the exit while a process outside the group holds the pipes open.
DRAIN_SECONDS: Final = 1.0
_CHUNK_BYTES: Final = 64 * 1024
_WAKE_SECONDS: Final = 1.0
#: Terminal escape sequences, and control characters other than white space.
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class ProgramRefused(OncewardError):
    """The operating system could not start the program; check its name and arguments."""

    code = "PROGRAM_REFUSED"


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """What to run, where, and for how long."""

    command: Sequence[str]
    directory: Path
    environment: Mapping[str, str]
    seconds: float
    #: Its standard input; None for empty input.
    stdin: str | None = None
    #: Lock file: the program starts only when the process group of an earlier one has ended.
    lock: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramResult:
    """The exit status of a program and the end of its output."""

    #: None after a signal or a timeout.
    exit_code: int | None
    #: The signal that killed it, if any.
    signal: int | None
    has_timed_out: bool
    #: Standard output only, at most its last OUTPUT_BYTES_MAX bytes.
    stdout: str
    #: The last lines of stdout and stderr, in order of arrival.
    tail: tuple[str, ...]


def run_program(
    program: Program,
    *,
    on_line: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
) -> ProgramResult:
    """Run a program until it exits or times out, then kill its process group.

    The process group does not outlive this process.
    """
    clock = clock or SystemClock()
    deadline = clock.monotonic() + program.seconds
    with ExitStack() as stack:
        lock = None
        if program.lock is not None:
            held = program_lock(program.lock, seconds=program.seconds, clock=clock)
            lock = stack.enter_context(held)
            if lock is None:
                return ProgramResult(
                    exit_code=None, signal=None, has_timed_out=True, stdout="", tail=()
                )
        running = _start(stack, program, lock)
        return _ProgramMonitor(running, on_line, clock).wait(program, deadline)


@dataclass(frozen=True, kw_only=True, slots=True)
class _RunningProgram:
    process: subprocess.Popen[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]
    status: IO[bytes]


def _start(stack: ExitStack, program: Program, lock: ProgramLock | None) -> _RunningProgram:
    lifeline, hold_writer = os.pipe()
    status, status_writer = os.pipe()
    lifeline_writer = stack.enter_context(os.fdopen(hold_writer, "wb", buffering=0))
    answer = stack.enter_context(os.fdopen(status, "rb", buffering=0))
    inherited = (lifeline, status_writer, *([lock.descriptor] if lock else []))
    descriptors = [str(lifeline), str(status_writer), str(lock.descriptor) if lock else ""]
    words = [sys.executable, "-I", "-S", group_leader.__file__, *descriptors]
    try:
        process = subprocess.Popen(  # noqa: S603 - the program that the user named
            [*words, *program.command],
            cwd=program.directory,
            env=dict(program.environment),
            stdin=subprocess.DEVNULL if program.stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            process_group=0,
            pass_fds=inherited,
        )
    except (OSError, ValueError) as exc:
        raise _refused(program.command, exc) from exc
    finally:
        os.close(lifeline)
        os.close(status_writer)
    stack.enter_context(process)
    if lock is not None:
        stack.callback(lock.forget, process.pid)
    stack.callback(_end_group, process)
    if lock is not None:
        lock.record(process.pid, program.environment.get("ONCEWARD_RUN", ""))
    lifeline_writer.write(b"!")
    assert process.stdout is not None, program
    assert process.stderr is not None, program
    return _RunningProgram(
        process=process,
        stdout=process.stdout,
        stderr=process.stderr,
        status=answer,
    )


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group. Its id cannot be reused before its leader is reaped."""
    if process.returncode is None:  # Not polled: that would reap it.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _refused(command: Sequence[str], exc: OSError | ValueError) -> ProgramRefused:
    reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    fix = "name a program that is installed and executable, or remove the cause named above"
    if getattr(exc, "errno", None) == errno.E2BIG:
        fix = "pass the prompt with --stdin, not --argument, or shorten the arguments"
    return ProgramRefused(f"cannot start {command[0]:.200}: {reason}", fix=fix)


class _ProgramMonitor:
    """Feeds a running program, reads its output and waits for its exit."""

    def __init__(
        self, running: _RunningProgram, on_line: Callable[[str], None], clock: Clock
    ) -> None:
        self._running = running
        self._clock = clock
        self._lines = {running.stdout: _OutputLines(), running.stderr: _OutputLines()}
        self._on_line = on_line
        self._stdout = bytearray()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES_MAX)

    def wait(self, program: Program, deadline: float) -> ProgramResult:
        answer, has_timed_out = self._exchange(program.stdin, deadline)
        _end_group(self._running.process)
        self._drain()
        word, _, number = answer.partition(b"\n")[0].decode().partition(" ")
        if word == "refused":
            code = int(number)
            raise _refused(program.command, OSError(code, os.strerror(code)))
        # No status: the group leader was killed, and the program with it.
        ended_by = int(number) if word == "signal" else None if word else int(signal.SIGKILL)
        return ProgramResult(
            exit_code=int(number) if word == "exit" and not has_timed_out else None,
            signal=None if has_timed_out else ended_by,
            has_timed_out=has_timed_out,
            stdout=_decoded(bytes(self._stdout)),
            tail=tuple(self._tail),
        )

    def _exchange(self, stdin: str | None, deadline: float) -> tuple[bytes, bool]:
        """Write stdin and read output until the leader reports the exit, or until the deadline."""
        answer = b""
        with selectors.DefaultSelector() as ready:
            for each in (*self._lines, self._running.status):
                os.set_blocking(each.fileno(), False)
                ready.register(each, selectors.EVENT_READ)
            feeder = _StdinFeeder(self._running.process.stdin, stdin or "", ready)
            while True:
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    return answer, True
                for key, _ in ready.select(min(left, _WAKE_SECONDS)):
                    if key.fileobj is self._running.status:
                        answer = self._running.status.read() or b""
                        return answer, False
                    if key.fileobj is feeder.pipe:
                        feeder.write()
                    elif not self._read(key.fileobj):  # type: ignore[arg-type]
                        ready.unregister(key.fileobj)

    def _drain(self) -> None:
        """Read the remaining output; do not wait for processes outside the group."""
        deadline = self._clock.monotonic() + DRAIN_SECONDS
        with selectors.DefaultSelector() as ready:
            for each in self._lines:
                ready.register(each, selectors.EVENT_READ)
            while ready.get_map() and (left := deadline - self._clock.monotonic()) > 0:
                for key, _ in ready.select(left):
                    if not self._read(key.fileobj):  # type: ignore[arg-type]
                        ready.unregister(key.fileobj)
        for lines in self._lines.values():
            self._emit(lines.flush())

    def _read(self, pipe: IO[bytes]) -> bool:
        """Read available output; return False at its end."""
        chunk = pipe.read(_CHUNK_BYTES)
        if chunk is None:
            return True
        if pipe is self._running.stdout:
            self._stdout += chunk
            del self._stdout[:-OUTPUT_BYTES_MAX]
        self._emit(self._lines[pipe].add(chunk))
        return bool(chunk)

    def _emit(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._tail.append(line)
            self._on_line(line)


class _StdinFeeder:
    """Writes a prompt to a pipe that may accept it slowly or not at all."""

    def __init__(self, pipe: IO[bytes] | None, text: str, ready: selectors.DefaultSelector) -> None:
        self.pipe = pipe
        self._rest = memoryview(text.encode(errors="replace"))
        self._ready = ready
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            ready.register(pipe, selectors.EVENT_WRITE)

    def write(self) -> None:
        assert self.pipe is not None
        with suppress(BrokenPipeError):
            taken = self.pipe.write(self._rest[:_CHUNK_BYTES])
            self._rest = self._rest[taken or 0 :]
            if self._rest:
                return
        self._ready.unregister(self.pipe)
        self.pipe.close()
        self.pipe = None


class _OutputLines:
    """Splits bytes into lines in bounded memory; a carriage return ends a line too."""

    def __init__(self) -> None:
        self._pending = b""

    def add(self, chunk: bytes) -> list[str]:
        lines, end, self._pending = (self._pending + chunk).replace(b"\r", b"\n").rpartition(b"\n")
        if len(self._pending) > LINE_BYTES_MAX:
            lines, end, self._pending = lines + end + self._pending, b"\n", b""
        return _lines(lines) if end else []

    def flush(self) -> list[str]:
        lifeline_writer, self._pending = self._pending, b""
        return _lines(lifeline_writer)


def _lines(text: bytes) -> list[str]:
    found = [line for line in _decoded(text).split("\n") if line and not line.isspace()]
    if len(found) <= LINES_AT_ONCE_MAX:
        return found
    dropped = len(found) - LINES_AT_ONCE_MAX
    return [f"… {dropped} lines omitted …", *found[-LINES_AT_ONCE_MAX:]]


def _decoded(text: bytes) -> str:
    """Return the text without terminal escapes and control characters."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text.decode(errors="replace")))
