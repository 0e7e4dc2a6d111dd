"""Process: one running agent, its pipes, its log, and its end.

Owns a process group: nothing it does, and nothing it stops doing, makes the caller wait for ever or
remember without bound. Knows neither commands nor restarts.
"""

from __future__ import annotations

import os
import select
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from onceward.agents.lines import (
    LINE_BYTES_MAX,
    Arrival,
    Inbox,
    LineReader,
    Oversized,
)
from onceward.agents.orphans import end_group
from onceward.errors import AgentFailed, FileMissing, StorageError
from onceward.seams import Clock, Files, OpenFile, ProcessIdentity, SystemClock
from onceward.secrets import Redactor

#: A log grows no longer; what comes after is read and thrown away.
LOG_BYTES_MAX: Final = 16 * 1024 * 1024

_LOG_LINE_BYTES_MAX: Final = 64 * 1024
_CHUNK_BYTES: Final = 64 * 1024
#: What a dead agent wrote is still in its pipe, and no pipe holds more.
_PIPE_BYTES_MAX: Final = 1024 * 1024
#: While the agent has not taken a whole command, look again after so long.
_FLUSH_SECONDS: Final = 0.02
_JOIN_SECONDS: Final = 5.0


class AgentLog:
    """The file that keeps what an agent writes for people; it never stops anybody."""

    def __init__(self, path: Path, *, files: Files, bytes_max: int = LOG_BYTES_MAX) -> None:
        """Append to `path`, which is made with the first line."""
        self.path = path
        self._files = files
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._file: OpenFile | None = None
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Say whether nothing more will be written: it is full, or the disk refused."""
        return self._is_over

    def write(self, text: str) -> None:
        """Append one or more lines that hold no secrets any more."""
        with self._lock:
            if self._is_over:
                return
            try:
                self._append(text.encode("utf-8", "backslashreplace") + b"\n")
            except StorageError:
                self._is_over = True

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            self._is_over = True
            if self._file is not None:
                self._file.close()
                self._file = None

    def _append(self, line: bytes) -> None:
        file = self._file = self._file or self._opened()
        if file.stat().size + len(line) > self._bytes_max:
            self._is_over = True
            line = b"[this log is full; nothing more is kept]\n"
        file.write(line)

    def _opened(self) -> OpenFile:
        # Agents can write where their logs lie; a link in its place leads us nowhere.
        try:
            return self._files.open_append(self.path, follow_links=False)
        except FileMissing:
            self._files.make_directories(self.path.parent)
            return self._files.open_append(self.path, follow_links=False)


class _LogSink:
    """Turns what comes out of stderr into lines of a log."""

    def __init__(self, log: AgentLog, redactor: Redactor) -> None:
        self._log = log
        self._reader = LineReader(line_bytes_max=_LOG_LINE_BYTES_MAX)
        self._redacted = redactor.lines()

    def feed(self, data: bytes) -> None:
        if not self._log.is_over:
            self._write(self._reader.feed(data))

    def close(self) -> None:
        self._write(self._reader.close())

    def _write(self, arrivals: list[Arrival]) -> None:
        # Many lines at once: to look for secrets in each alone would hold the agent up.
        shown = [
            f"[a line of {each.size} bytes is not kept]"
            if isinstance(each, Oversized)
            else each.decode(errors="replace")
            for each in arrivals
        ]
        if shown:
            self._log.write(self._redacted.line("\n".join(shown)))


class _Pump(threading.Thread):
    """Empties a pipe, always."""

    def __init__(
        self, source: int, feed: Callable[[bytes], None], close: Callable[[], None]
    ) -> None:
        super().__init__(daemon=True, name="onceward-agent-pump")
        self._source, self._feed, self._close = source, feed, close
        #: Closing the one end shows at the other: that is how this thread is told to stop.
        self._told, self._tell = os.pipe()
        self._is_told = False

    def run(self) -> None:
        poller = select.poll()
        for each in (self._source, self._told):
            poller.register(each, select.POLLIN)
        left = _PIPE_BYTES_MAX
        try:
            while left > 0:
                ready = {descriptor for descriptor, _ in poller.poll()}
                if self._source not in ready:
                    return  # Told to stop, and nothing is left.
                data = os.read(self._source, _CHUNK_BYTES)
                if not data:
                    return
                self._feed(data)
                # Somebody else may hold the pipe, and go on writing.
                left -= len(data) if self._is_told else 0
        finally:
            self._close()

    def stop(self) -> None:
        """Take in what is in the pipe now, then no more."""
        self._is_told = True
        os.close(self._tell)
        self.join(_JOIN_SECONDS)
        os.close(self._told)


class AgentProcess:
    """A running agent."""

    def __init__(  # noqa: PLR0913 - what differs between agents comes by name
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: AgentLog,
        redactor: Redactor,
        line_bytes_max: int = LINE_BYTES_MAX,
        clock: Clock | None = None,
    ) -> None:
        """Start it in a group of its own; raise AgentFailed when that cannot be."""
        self._clock = clock or SystemClock()
        self._popen = _started(command, env, cwd)
        assert self._popen.stdin and self._popen.stdout and self._popen.stderr  # noqa: PT018 - pipes
        #: Of the process, and of the group that it leads.
        self.pid = self._popen.pid
        self.identity = ProcessIdentity.of_child(self.pid)
        self._pidfd = os.pidfd_open(self.pid)
        self._stdin = self._popen.stdin
        # A full pipe must not hold us up.
        os.set_blocking(self._stdin.fileno(), False)
        self._unsent = b""
        self._is_deaf = False
        self._inbox = Inbox(LineReader(line_bytes_max=line_bytes_max))
        sink = _LogSink(log, redactor)
        self._pumps = [
            _Pump(self._popen.stdout.fileno(), self._inbox.feed, self._inbox.close),
            _Pump(self._popen.stderr.fileno(), sink.feed, sink.close),
        ]
        for pump in self._pumps:
            pump.start()

    @property
    def has_exited(self) -> bool:
        """Say whether the agent itself has ended, whoever else holds its pipes."""
        return self._popen.returncode is not None or self.wait(0)

    @property
    def is_deaf(self) -> bool:
        """Say whether it has closed its stdin: it will never hear of a command."""
        return self._is_deaf

    def wait(self, seconds: float) -> bool:
        """Wait so long for its end, and say whether it came."""
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(max(0.0, seconds) * 1000))

    def expect(self, mark: str | None) -> None:
        """Keep every line in which `mark` stands, whatever else is thrown away."""
        self._inbox.expect(mark)

    def send(self, line: bytes, *, timeout: float = 0.0) -> None:
        """Send a line; what the agent does not take in time is sent while we wait for messages."""
        self._unsent += line
        self._flush(timeout)

    def messages(self, timeout: float) -> list[Arrival]:
        """Return the lines that have come; wait up to `timeout` seconds for the first."""
        self._flush(0)
        if self._inbox.is_over:
            self.wait(timeout)  # It has closed its stdout, and says nothing any more.
            timeout = 0
        return self._inbox.take(min(timeout, _FLUSH_SECONDS) if self._unsent else timeout)

    def take_dropped(self) -> int:
        """Return how many lines were thrown away since the last time."""
        return self._inbox.take_dropped()

    def close_stdin(self) -> None:
        """Tell the agent to end once it is done."""
        self._unsent = b""
        if not self._stdin.closed:
            self._stdin.close()

    def kill(self) -> int:
        """End the whole group, reap the agent, and return its exit code, or minus its signal.

        The lines it had written are still there for `messages`.
        """
        if self._popen.returncode is not None:
            return self._popen.returncode
        # Not reaped yet, so that its number still is its group's.
        end_group(self.pid, clock=self._clock)
        code = self._popen.wait()
        self.close_stdin()
        self._inbox.finish()
        for pump in self._pumps:
            pump.stop()
        for stream in (self._popen.stdout, self._popen.stderr):
            assert stream is not None
            stream.close()
        os.close(self._pidfd)
        return code

    def _flush(self, timeout: float) -> None:
        until = self._clock.monotonic() + timeout
        while self._unsent and not self._is_deaf and not self._stdin.closed:
            try:
                written = self._stdin.write(self._unsent[:_CHUNK_BYTES])
            except BrokenPipeError:
                self._is_deaf = True
                return
            if written:
                self._unsent = self._unsent[written:]
            elif (left := until - self._clock.monotonic()) > 0:
                poller = select.poll()
                poller.register(self._stdin.fileno(), select.POLLOUT)
                poller.poll(left * 1000)
            else:
                return


def _started(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - the command line that the user configured
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        shown = " ".join(command)[:200]
        message = f"cannot start the agent `{shown}`: {exc}"
        fix = "correct its command in onceward.json"
        raise AgentFailed(message, code="AGENT_NOT_STARTED", retryable=False, fix=fix) from exc
