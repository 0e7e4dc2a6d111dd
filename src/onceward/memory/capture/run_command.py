"""Run command: run a program, forward its output, and keep part of it.

Manages the pipes or pseudo-terminals, the signals and the size of the kept output. Does not
interpret the output.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import select
import selectors
import shlex
import signal
import subprocess
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, Final

from onceward.system import Clock, SystemClock, timestamp
from onceward.system.redaction import REDACTED, Redactor

#: How much of the beginning, and of the end, of each output is kept for error detection.
HEAD_BYTES_MAX: Final = 1024 * 1024
TAIL_BYTES_MAX: Final = 1024 * 1024
#: How long output is read after the command ended, if a background process keeps it open.
DRAIN_SECONDS: Final = 1.0
#: Exit codes of shells: command not found, or not executable.
EXIT_NOT_FOUND: Final = 127
EXIT_NOT_EXECUTABLE: Final = 126
EXIT_SIGNAL: Final = 128

_CHUNK_BYTES: Final = 64 * 1024
_LINE_END: Final = re.compile(rb"[\r\n]")
#: The terminal sends these to the command as well.
_TERMINAL_SIGNALS: Final = (signal.SIGINT, signal.SIGQUIT)
_FORWARDED_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
_WINDOW: Final = b"\0" * 8


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandResult:
    """The exit code, times and kept output of a command."""

    #: The command line in shell syntax, redacted.
    cmd: str
    #: 128 plus the signal number, if a signal ended it.
    exit_code: int
    started_at: str
    ended_at: str
    duration_ms: int
    stdout: str
    stderr: str


class HeadTailBuffer:
    """Keeps the beginning and the end of an output."""

    def __init__(self) -> None:
        """Start empty."""
        self._head = bytearray()
        self._tail = bytearray()
        self._is_cut = False

    def add(self, chunk: bytes) -> None:
        """Add bytes."""
        room = HEAD_BYTES_MAX - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:] if room < len(chunk) else b""
        # Not for every chunk, because trimming copies the buffer.
        if len(self._tail) > 2 * TAIL_BYTES_MAX:
            self._is_cut = True
            del self._tail[:-TAIL_BYTES_MAX]

    @property
    def text(self) -> str:
        """Return the kept text, with a marker where something is missing.

        Partial lines at the gap are dropped: half of a secret would not be redacted.
        """
        head, tail = self._head, self._tail
        if self._is_cut:
            begun, *_ = _LINE_END.split(tail, maxsplit=1)
            head = head[: max(head.rfind(b"\n"), head.rfind(b"\r")) + 1] + b"[...]\n"
            tail = tail[len(begun) + 1 :]
        return bytes(head + tail).decode(errors="replace")


def run_command(
    words: Sequence[str],
    out: IO[bytes],
    err: IO[bytes],
    *,
    clock: Clock | None = None,
    redactor: Redactor | None = None,
) -> CommandResult:
    """Run a command to its end, and forward its output to `out` and `err`.

    It inherits standard input, and gets a pseudo-terminal where `out` or `err` is a terminal.
    Signals are forwarded to it. Its arguments are redacted one by one, before they are joined.
    """
    watch = clock or SystemClock()
    clean = (redactor or Redactor.from_environment(os.environ)).words(words)
    cmd, started_at, began = _command_line(clean), timestamp(watch.now()), watch.monotonic()
    with ExitStack() as stack:
        streams = [_OutputStream(stack, target) for target in (out, err)]
        command = _ChildProcess(streams)
        stack.enter_context(command.signals())
        exit_code = command.run(words, watch)
    return CommandResult(
        cmd=cmd,
        exit_code=exit_code,
        started_at=started_at,
        ended_at=timestamp(watch.now()),
        duration_ms=round((watch.monotonic() - began) * 1000),
        stdout=streams[0].captured.text,
        stderr=streams[1].captured.text,
    )


def _command_line(words: Sequence[str]) -> str:
    """Return the words in shell syntax; redaction markers are not quoted."""
    bare = [word.replace(REDACTED, "x") for word in words]
    return " ".join(
        word if shlex.quote(plain) == plain else shlex.quote(word)
        for word, plain in zip(words, bare, strict=True)
    )


class _ChildProcess:
    """The child process, from its start to its end."""

    def __init__(self, streams: Sequence[_OutputStream]) -> None:
        self._streams = streams
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, words: Sequence[str], clock: Clock) -> int:
        """Run the command and return its exit code, in the convention of shells."""
        out, err = self._streams
        try:
            process = subprocess.Popen(words, stdout=out.child_end, stderr=err.child_end)  # noqa: S603 - the user's
        except OSError as exc:
            is_missing = isinstance(exc, FileNotFoundError)
            reason = "command not found" if is_missing else exc.strerror or str(exc)
            err.forward(f"onceward: {words[0]}: {reason}\n".encode(errors="replace"))
            return EXIT_NOT_FOUND if is_missing else EXIT_NOT_EXECUTABLE
        with process:
            self._process = process
            for each in self._streams:
                each.start()
            _forward_output(process, self._streams, clock)
            code = process.wait()
        return code if code >= 0 else EXIT_SIGNAL - code

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Forward signals to the command, so that this process outlives it and records it."""
        wanted: dict[signal.Signals, Any] = dict.fromkeys(
            (*_TERMINAL_SIGNALS, *_FORWARDED_SIGNALS), self._forward_signal
        )
        wanted[signal.SIGWINCH] = self._resize
        is_main = threading.current_thread() is threading.main_thread()
        # Ignored signals are inherited as ignored by the command.
        before = {
            number: signal.signal(number, handler)
            for number, handler in wanted.items()
            if is_main and signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _forward_signal(self, number: int, _: object) -> None:
        # The terminal sends its signals to the command as well.
        is_sent = number in _TERMINAL_SIGNALS and _is_in_foreground()
        if self._process is not None and not is_sent:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _resize(self, *_: object) -> None:
        for each in self._streams:
            each.resize()


def _forward_output(
    process: subprocess.Popen[bytes], streams: Sequence[_OutputStream], clock: Clock
) -> None:
    """Forward output until all streams are closed, or a grace period after the command ended."""
    ended = os.pidfd_open(process.pid)
    deadline: float | None = None
    try:
        with selectors.DefaultSelector() as ready:
            ready.register(ended, selectors.EVENT_READ)
            for each in streams:
                ready.register(each.parent_end, selectors.EVENT_READ, each)
            while len(ready.get_map()) > (deadline is None):
                left = None if deadline is None else deadline - clock.monotonic()
                if left is not None and left <= 0:
                    return
                for key, _ in ready.select(left):
                    if key.data is None:
                        deadline = clock.monotonic() + DRAIN_SECONDS
                        ready.unregister(ended)
                    elif not key.data.read():
                        ready.unregister(key.fileobj)
                        key.data.close()
    finally:
        os.close(ended)


class _OutputStream:
    """Forwards one output through a pipe, or a pseudo-terminal if the target is a terminal."""

    def __init__(self, stack: ExitStack, target: IO[bytes]) -> None:
        self.captured = HeadTailBuffer()
        self._target = target
        self._is_terminal = os.isatty(target.fileno())
        self.parent_end, self.child_end = pty.openpty() if self._is_terminal else os.pipe()
        stack.callback(self.close)
        if self._is_terminal:
            attributes = termios.tcgetattr(self.child_end)
            attributes[1] &= ~termios.OPOST  # The user's terminal processes output already.
            termios.tcsetattr(self.child_end, termios.TCSANOW, attributes)
            self.resize()

    def start(self) -> None:
        """Close the child's end in this process, so that end-of-file can be detected."""
        theirs, self.child_end = self.child_end, -1
        os.close(theirs)

    def close(self) -> None:
        """Close both ends; idempotent."""
        ends, self.parent_end, self.child_end = (self.parent_end, self.child_end), -1, -1
        for end in ends:
            if end >= 0:
                os.close(end)

    def resize(self) -> None:
        """Copy the size of the user's terminal to the pseudo-terminal."""
        if self._is_terminal and self.parent_end >= 0:
            with suppress(OSError):
                size = fcntl.ioctl(self._target.fileno(), termios.TIOCGWINSZ, _WINDOW)
                fcntl.ioctl(self.parent_end, termios.TIOCSWINSZ, size)

    def read(self) -> bool:
        """Forward available bytes; return False at end-of-file or if the target failed."""
        try:
            chunk = os.read(self.parent_end, _CHUNK_BYTES)
        except OSError as exc:
            if exc.errno != errno.EIO:  # A pseudo-terminal reports end-of-file as EIO.
                raise
            return False
        return bool(chunk) and self.forward(chunk)

    def forward(self, chunk: bytes) -> bool:
        """Keep and forward the bytes; return False if the target cannot be written."""
        self.captured.add(chunk)
        rest = memoryview(chunk)
        while rest:
            try:
                written = self._target.write(rest)
            except OSError:  # The reader is gone, or the disk is full.
                return False
            if written is None:  # A non-blocking target is full.
                # Not `select`: a descriptor may be above 1,023.
                poll = select.poll()
                poll.register(self._target, select.POLLOUT)
                poll.poll()
            rest = rest[written or 0 :]
        return True


def _is_in_foreground() -> bool:
    """Return whether this process is in the terminal's foreground group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
