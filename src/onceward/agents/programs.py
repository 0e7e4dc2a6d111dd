"""Programs: one run of somebody's command line, from its start to the end of its whole group.

Owns the process group, the pipes and the time limit. Knows neither agents nor what output means.
"""

from __future__ import annotations

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

from onceward.agents import keeper
from onceward.errors import OncewardError
from onceward.seams import Clock, SystemClock

#: Only the end of what a program prints is kept; all of it passes by line by line.
KEPT_BYTES_MAX: Final = 256 * 1024
TAIL_LINES_MAX: Final = 40
#: A longer line is passed on in pieces.
LINE_BYTES_MAX: Final = 16 * 1024
#: Of more lines than this in one piece of output, the last are passed on.
LINES_AT_ONCE_MAX: Final = 500
#: How long a process that left the group may keep our pipes open after the end.
DRAIN_SECONDS: Final = 1.0
_CHUNK_BYTES: Final = 64 * 1024
_WAKE_SECONDS: Final = 1.0
#: Colours and cursor movements, and control characters that are no white space.
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class ProgramRefused(OncewardError):
    """The system did not start the program; check its name and its arguments."""

    code = "PROGRAM_REFUSED"


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """What to run, where, and for how long."""

    command: Sequence[str]
    directory: Path
    environment: Mapping[str, str]
    seconds: float
    #: Its standard input; without, there is nothing to read.
    stdin: str | None = None
    #: It starts only after the group of an earlier life that held the same lock is gone.
    lock: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a program ended, and the end of what it printed."""

    #: None when a signal ended it, or the time limit.
    exit_code: int | None
    #: The signal that ended it, if one did.
    signal: int | None
    has_timed_out: bool
    #: Standard output alone, at most KEPT_BYTES_MAX from its end.
    stdout: str
    #: The last lines of both outputs as they came.
    tail: tuple[str, ...]


def run_program(
    program: Program,
    *,
    on_line: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
) -> Ended:
    """Run a program to its end, or to the end of its time, and end all that it started.

    It is in a process group of its own, which does not outlive this process.
    """
    with ExitStack() as stack:
        started = _start(stack, program)
        return _Watch(started, on_line, clock or SystemClock()).until_end(program)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Started:
    process: subprocess.Popen[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]
    status: IO[bytes]


def _start(stack: ExitStack, program: Program) -> _Started:
    lifeline, hold = os.pipe()
    status, told = os.pipe()
    held = stack.enter_context(os.fdopen(hold, "wb", buffering=0))
    answer = stack.enter_context(os.fdopen(status, "rb", buffering=0))
    words = [sys.executable, "-I", "-S", keeper.__file__, str(lifeline), str(told)]
    try:
        process = subprocess.Popen(  # noqa: S603 - the program that the user named
            [*words, str(program.lock or ""), *program.command],
            cwd=program.directory,
            env=dict(program.environment),
            stdin=subprocess.DEVNULL if program.stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            process_group=0,
            pass_fds=(lifeline, told),
        )
    except (OSError, ValueError) as exc:
        raise _refused(program.command, exc) from exc
    finally:
        os.close(lifeline)
        os.close(told)
    stack.enter_context(process)
    stack.callback(_end_group, process)
    held.write(b"!")
    assert process.stdout is not None, program
    assert process.stderr is not None, program
    return _Started(
        process=process,
        stdout=process.stdout,
        stderr=process.stderr,
        status=answer,
    )


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill everything in the group; its number cannot be another's before its leader is reaped."""
    if process.returncode is None:  # Not polled: that would reap it.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _refused(command: Sequence[str], exc: OSError | ValueError) -> ProgramRefused:
    said = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    fix = "name a program that is installed and can be executed"
    if "too long" in said.lower():
        fix = "give the prompt on standard input instead"
    return ProgramRefused(f"cannot start {command[0]}: {said}", fix=fix)


class _Watch:
    """Everything that goes on between a program and us while it runs."""

    def __init__(self, started: _Started, on_line: Callable[[str], None], clock: Clock) -> None:
        self._started = started
        self._clock = clock
        self._lines = {started.stdout: _Lines(), started.stderr: _Lines()}
        self._on_line = on_line
        self._stdout = bytearray()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES_MAX)

    def until_end(self, program: Program) -> Ended:
        deadline = self._clock.monotonic() + program.seconds
        answer, has_timed_out = self._pump(program.stdin, deadline)
        _end_group(self._started.process)
        self._drain()
        word, _, number = answer.partition(b"\n")[0].decode().partition(" ")
        if word == "refused":
            code = int(number)
            raise _refused(program.command, OSError(code, os.strerror(code)))
        # No word at all: somebody killed the keeper, and with it the program.
        ended_by = int(number) if word == "signal" else None if word else int(signal.SIGKILL)
        return Ended(
            exit_code=int(number) if word == "exit" and not has_timed_out else None,
            signal=None if has_timed_out else ended_by,
            has_timed_out=has_timed_out,
            stdout=_decoded(bytes(self._stdout)),
            tail=tuple(self._tail),
        )

    def _pump(self, stdin: str | None, deadline: float) -> tuple[bytes, bool]:
        """Feed and read until the keeper tells the end, or time is up."""
        answer = b""
        with selectors.DefaultSelector() as ready:
            for each in (*self._lines, self._started.status):
                os.set_blocking(each.fileno(), False)
                ready.register(each, selectors.EVENT_READ)
            feed = _Feed(self._started.process.stdin, stdin or "", ready)
            while True:
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    return answer, True
                for key, _ in ready.select(min(left, _WAKE_SECONDS)):
                    if key.fileobj is self._started.status:
                        answer = self._started.status.read() or b""
                        return answer, False
                    if key.fileobj is feed.pipe:
                        feed.give()
                    elif not self._take(key.fileobj):  # type: ignore[arg-type]
                        ready.unregister(key.fileobj)

    def _drain(self) -> None:
        """Read what was printed before the end, but do not wait for those who left the group."""
        deadline = self._clock.monotonic() + DRAIN_SECONDS
        with selectors.DefaultSelector() as ready:
            for each in self._lines:
                ready.register(each, selectors.EVENT_READ)
            while ready.get_map() and (left := deadline - self._clock.monotonic()) > 0:
                for key, _ in ready.select(left):
                    if not self._take(key.fileobj):  # type: ignore[arg-type]
                        ready.unregister(key.fileobj)
        for lines in self._lines.values():
            self._pass_on(lines.rest())

    def _take(self, pipe: IO[bytes]) -> bool:
        """Read what is there; False at the end."""
        chunk = pipe.read(_CHUNK_BYTES)
        if chunk is None:
            return True
        if pipe is self._started.stdout:
            self._stdout += chunk
            del self._stdout[:-KEPT_BYTES_MAX]
        self._pass_on(self._lines[pipe].add(chunk))
        return bool(chunk)

    def _pass_on(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._tail.append(line)
            self._on_line(line)


class _Feed:
    """A prompt on its way into a pipe that may take it slowly, or not at all."""

    def __init__(self, pipe: IO[bytes] | None, text: str, ready: selectors.DefaultSelector) -> None:
        self.pipe = pipe
        self._rest = memoryview(text.encode(errors="replace"))
        self._ready = ready
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            ready.register(pipe, selectors.EVENT_WRITE)

    def give(self) -> None:
        assert self.pipe is not None
        with suppress(BrokenPipeError):
            taken = self.pipe.write(self._rest[:_CHUNK_BYTES])
            self._rest = self._rest[taken or 0 :]
            if self._rest:
                return
        self._ready.unregister(self.pipe)
        self.pipe.close()
        self.pipe = None


class _Lines:
    """Bytes to lines, with bounded memory; a carriage return ends a line too."""

    def __init__(self) -> None:
        self._held = b""

    def add(self, chunk: bytes) -> list[str]:
        whole, end, self._held = (self._held + chunk).replace(b"\r", b"\n").rpartition(b"\n")
        if len(self._held) > LINE_BYTES_MAX:
            whole, end, self._held = whole + end + self._held, b"\n", b""
        return _lines(whole) if end else []

    def rest(self) -> list[str]:
        held, self._held = self._held, b""
        return _lines(held)


def _lines(text: bytes) -> list[str]:
    found = [line for line in _decoded(text).split("\n") if line and not line.isspace()]
    if len(found) <= LINES_AT_ONCE_MAX:
        return found
    dropped = len(found) - LINES_AT_ONCE_MAX
    return [f"… {dropped} lines left out …", *found[-LINES_AT_ONCE_MAX:]]


def _decoded(text: bytes) -> str:
    """Return the text without what only a terminal understands."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text.decode(errors="replace")))
