"""Passing: one command run in front of its user, its output passed on as it comes and kept in part.

Owns the pipes or terminals between the command and us, the signals while it runs, and how much of
its output is kept. Knows not what the output means.
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

from onceward.seams import Clock, SystemClock, timestamp
from onceward.secrets import REDACTED, Redactor

#: How much of the beginning, and of the end, of each output is kept to be looked through.
HEAD_BYTES_MAX: Final = 1024 * 1024
TAIL_BYTES_MAX: Final = 1024 * 1024
#: How long what a command left running may keep its output open after its end.
DRAIN_SECONDS: Final = 1.0
#: As shells have it: the command is not there, or cannot be executed.
EXIT_NOT_FOUND: Final = 127
EXIT_NOT_EXECUTABLE: Final = 126
EXIT_SIGNAL: Final = 128

_CHUNK_BYTES: Final = 64 * 1024
_LINE_END: Final = re.compile(rb"[\r\n]")
#: A terminal sends these to the command as well.
_FROM_TERMINAL: Final = (signal.SIGINT, signal.SIGQUIT)
_PASSED_ON: Final = (signal.SIGTERM, signal.SIGHUP)
_WINDOW: Final = b"\0" * 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Passed:
    """How a command ended, and what was kept of its output."""

    #: The command line, as a shell would be given it, without secrets.
    cmd: str
    #: 128 and the number of the signal, if one ended it.
    exit_code: int
    started_at: str
    ended_at: str
    duration_ms: int
    stdout: str
    stderr: str


class Kept:
    """The beginning and the end of an output."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._head = bytearray()
        self._tail = bytearray()
        self._is_cut = False

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        room = HEAD_BYTES_MAX - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:] if room < len(chunk) else b""
        # Not at every chunk: what is kept is moved then.
        if len(self._tail) > 2 * TAIL_BYTES_MAX:
            self._is_cut = True
            del self._tail[:-TAIL_BYTES_MAX]

    @property
    def text(self) -> str:
        """Return what was kept, with a mark where something is missing.

        Lines that are cut there are left out: half of a secret would not be recognised.
        """
        head, tail = self._head, self._tail
        if self._is_cut:
            begun, *_ = _LINE_END.split(tail, maxsplit=1)
            head = head[: max(head.rfind(b"\n"), head.rfind(b"\r")) + 1] + b"[...]\n"
            tail = tail[len(begun) + 1 :]
        return bytes(head + tail).decode(errors="replace")


def run_through(
    words: Sequence[str],
    out: IO[bytes],
    err: IO[bytes],
    *,
    clock: Clock | None = None,
    redactor: Redactor | None = None,
) -> Passed:
    """Run a command to its end; its standard input is ours, its outputs go to `out` and `err`.

    Where ours is a terminal, so is the command's. Ctrl-C goes to the command, and we go on. Secrets
    among its words are gone before they are one line, in which nobody could tell where one ends.
    """
    watch = clock or SystemClock()
    clean = (redactor or Redactor.from_environment(os.environ)).words(words)
    cmd, started_at, began = _line(clean), timestamp(watch.now()), watch.monotonic()
    with ExitStack() as stack:
        streams = [_Stream(stack, target) for target in (out, err)]
        command = _Command(streams)
        stack.enter_context(command.signals())
        exit_code = command.run(words, watch)
    return Passed(
        cmd=cmd,
        exit_code=exit_code,
        started_at=started_at,
        ended_at=timestamp(watch.now()),
        duration_ms=round((watch.monotonic() - began) * 1000),
        stdout=streams[0].kept.text,
        stderr=streams[1].kept.text,
    )


def _line(words: Sequence[str]) -> str:
    """Return the words as a shell would be given them; a mark for a secret needs no quotes."""
    bare = [word.replace(REDACTED, "x") for word in words]
    return " ".join(
        word if shlex.quote(plain) == plain else shlex.quote(word)
        for word, plain in zip(words, bare, strict=True)
    )


class _Command:
    """The process, from before it is started to after its end."""

    def __init__(self, streams: Sequence[_Stream]) -> None:
        self._streams = streams
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, words: Sequence[str], clock: Clock) -> int:
        """Run it and return its exit code, as a shell has it."""
        out, err = self._streams
        try:
            process = subprocess.Popen(words, stdout=out.theirs, stderr=err.theirs)  # noqa: S603 - the user's
        except OSError as exc:
            is_missing = isinstance(exc, FileNotFoundError)
            said = "command not found" if is_missing else exc.strerror or str(exc)
            err.take(f"onceward: {words[0]}: {said}\n".encode(errors="replace"))
            return EXIT_NOT_FOUND if is_missing else EXIT_NOT_EXECUTABLE
        with process:
            self._process = process
            for each in self._streams:
                each.start()
            _pump(process, self._streams, clock)
            code = process.wait()
        return code if code >= 0 else EXIT_SIGNAL - code

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Outlive what ends the command, so that there is somebody to tell of it."""
        wanted: dict[signal.Signals, Any] = dict.fromkeys(
            (*_FROM_TERMINAL, *_PASSED_ON), self._pass_on
        )
        wanted[signal.SIGWINCH] = self._resize
        is_main = threading.current_thread() is threading.main_thread()
        # What we were told to ignore, the command ignores, too.
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

    def _pass_on(self, number: int, _: object) -> None:
        # What a terminal sends, it sends to the command as well.
        is_sent = number in _FROM_TERMINAL and _is_in_foreground()
        if self._process is not None and not is_sent:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _resize(self, *_: object) -> None:
        for each in self._streams:
            each.resize()


def _pump(process: subprocess.Popen[bytes], streams: Sequence[_Stream], clock: Clock) -> None:
    """Pass output on until there is none; after the command's end only what comes soon."""
    ended = os.pidfd_open(process.pid)
    deadline: float | None = None
    try:
        with selectors.DefaultSelector() as ready:
            ready.register(ended, selectors.EVENT_READ)
            for each in streams:
                ready.register(each.ours, selectors.EVENT_READ, each)
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


class _Stream:
    """One output of the command on its way to ours: a pipe, or a terminal like ours."""

    def __init__(self, stack: ExitStack, target: IO[bytes]) -> None:
        self.kept = Kept()
        self._target = target
        self._is_terminal = os.isatty(target.fileno())
        self.ours, self.theirs = pty.openpty() if self._is_terminal else os.pipe()
        stack.callback(self.close)
        if self._is_terminal:
            attributes = termios.tcgetattr(self.theirs)
            attributes[1] &= ~termios.OPOST  # Our own terminal does that, once is enough.
            termios.tcsetattr(self.theirs, termios.TCSANOW, attributes)
            self.resize()

    def start(self) -> None:
        """Leave the other end to the command, so that we see when it is closed."""
        theirs, self.theirs = self.theirs, -1
        os.close(theirs)

    def close(self) -> None:
        """Give both ends back; a second time changes nothing."""
        ends, self.ours, self.theirs = (self.ours, self.theirs), -1, -1
        for end in ends:
            if end >= 0:
                os.close(end)

    def resize(self) -> None:
        """Make their terminal as large as ours."""
        if self._is_terminal and self.ours >= 0:
            with suppress(OSError):
                size = fcntl.ioctl(self._target.fileno(), termios.TIOCGWINSZ, _WINDOW)
                fcntl.ioctl(self.ours, termios.TIOCSWINSZ, size)

    def read(self) -> bool:
        """Pass on what is there; False at the end, theirs or ours."""
        try:
            chunk = os.read(self.ours, _CHUNK_BYTES)
        except OSError as exc:
            if exc.errno != errno.EIO:  # How a terminal says that nobody has it open any more.
                raise
            return False
        return bool(chunk) and self.take(chunk)

    def take(self, chunk: bytes) -> bool:
        """Keep and pass on; False when nobody reads us, which the command then learns too."""
        self.kept.add(chunk)
        rest = memoryview(chunk)
        while rest:
            try:
                written = self._target.write(rest)
            except OSError:  # Its reader is gone, or its disk is full.
                return False
            if written is None:  # Ours does not block, and is full.
                # Not `select`: a descriptor may be above 1,023.
                poll = select.poll()
                poll.register(self._target, select.POLLOUT)
                poll.poll()
            rest = rest[written or 0 :]
        return True


def _is_in_foreground() -> bool:
    """Say whether a terminal sends its signals to us, and so to the command."""
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
