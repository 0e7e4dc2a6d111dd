"""Agent process: one running agent with its pipes, its log and its process group.

Whatever the agent does or stops doing, the caller neither blocks for ever nor uses unbounded
memory. Knows neither commands nor restarts.
"""

from __future__ import annotations

import os
import select
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from onceward.agents.line_reader import (
    LINE_BYTES_MAX,
    LineReader,
    MessageQueue,
    OversizedLine,
    ReceivedLine,
)
from onceward.agents.orphan_processes import end_group
from onceward.errors import AgentFailed, FileMissing, StorageError
from onceward.system import Clock, Files, OpenFile, ProcessIdentity, SystemClock
from onceward.system.redaction import Redactor

#: Maximum size of a log; later output is read and discarded.
LOG_BYTES_MAX: Final = 16 * 1024 * 1024

_LOG_LINE_BYTES_MAX: Final = 64 * 1024
_CHUNK_BYTES: Final = 64 * 1024
#: What a dead agent wrote is still in its pipe; no pipe holds more than this.
_PIPE_BYTES_MAX: Final = 1024 * 1024
#: Polling interval while a command is only partly written to the agent.
_FLUSH_SECONDS: Final = 0.02
_JOIN_SECONDS: Final = 5.0


class AgentLog:
    """The log file of an agent. A failing or full disk stops the log, never the agent."""

    def __init__(self, path: Path, *, files: Files, bytes_max: int = LOG_BYTES_MAX) -> None:
        """Append to `path`, which is created with the first line."""
        self.path = path
        self._files = files
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._file: OpenFile | None = None
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Return whether nothing more will be written: the log is full or a write failed."""
        return self._is_closed

    def write(self, text: str) -> None:
        """Append one or more lines, already redacted."""
        with self._lock:
            if self._is_closed:
                return
            try:
                self._append(text.encode("utf-8", "backslashreplace") + b"\n")
            except StorageError:
                self._is_closed = True

    def close(self) -> None:
        """Close the file. Later writes are ignored."""
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                self._file.close()
                self._file = None

    def _append(self, line: bytes) -> None:
        file = self._file = self._file or self._open()
        if file.stat().size + len(line) > self._bytes_max:
            self._is_closed = True
            line = b"[this log is full; nothing more is kept]\n"
        file.write(line)

    def _open(self) -> OpenFile:
        # Agents can write to the log directory: never follow a symbolic link there.
        try:
            return self._files.open_append(self.path, follow_links=False)
        except FileMissing:
            self._files.make_directories(self.path.parent)
            return self._files.open_append(self.path, follow_links=False)


class _LogSink:
    """Writes an agent's stderr to its log, redacted, line by line."""

    def __init__(self, log: AgentLog, redactor: Redactor) -> None:
        self._log = log
        self._reader = LineReader(line_bytes_max=_LOG_LINE_BYTES_MAX)
        self._redacted = redactor.lines()

    def feed(self, data: bytes) -> None:
        if not self._log.is_closed:
            self._write(self._reader.feed(data))

    def close(self) -> None:
        self._write(self._reader.close())

    def _write(self, arrivals: list[ReceivedLine]) -> None:
        # Redacted in one batch: searching each line alone would slow the agent down.
        shown = [
            f"[a line of {each.size} bytes is not kept]"
            if isinstance(each, OversizedLine)
            else each.decode(errors="replace")
            for each in arrivals
        ]
        if shown:
            self._log.write(self._redacted.line("\n".join(shown)))


class _PipeReader(threading.Thread):
    """Reads a pipe continuously, so that the agent never blocks on a full one."""

    def __init__(
        self, source: int, feed: Callable[[bytes], None], close: Callable[[], None]
    ) -> None:
        super().__init__(daemon=True, name="onceward-agent-pump")
        self._source, self._feed, self._close = source, feed, close
        #: Closing the writer makes the reader ready, which stops this thread.
        self._stop_reader, self._stop_writer = os.pipe()
        self._is_stopping = False

    def run(self) -> None:
        poller = select.poll()
        for each in (self._source, self._stop_reader):
            poller.register(each, select.POLLIN)
        left = _PIPE_BYTES_MAX
        try:
            while left > 0:
                ready = {descriptor for descriptor, _ in poller.poll()}
                if self._source not in ready:
                    return  # Stopped, and the pipe is empty.
                data = os.read(self._source, _CHUNK_BYTES)
                if not data:
                    return
                self._feed(data)
                # Another process may hold the pipe and keep writing.
                left -= len(data) if self._is_stopping else 0
        finally:
            self._close()

    def stop(self) -> None:
        """Read what is in the pipe now, then stop."""
        self._is_stopping = True
        os.close(self._stop_writer)
        self.join(_JOIN_SECONDS)
        os.close(self._stop_reader)


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
        descriptors: Sequence[int] = (),
    ) -> None:
        """Start the agent in its own process group; raise AgentFailed if it cannot be started.

        It inherits `descriptors`.
        """
        self._clock = clock or SystemClock()
        self._popen = _spawn(command, env, cwd, descriptors)
        assert self._popen.stdin and self._popen.stdout and self._popen.stderr  # noqa: PT018 - pipes
        #: Id of the process and of the process group that it leads.
        self.pid = self._popen.pid
        self.identity = ProcessIdentity.of_child(self.pid)
        self._pidfd = os.pidfd_open(self.pid)
        self._stdin = self._popen.stdin
        # A full pipe must not block this process.
        os.set_blocking(self._stdin.fileno(), False)
        self._unsent = b""
        self._has_closed_stdin = False
        self._inbox = MessageQueue(LineReader(line_bytes_max=line_bytes_max))
        sink = _LogSink(log, redactor)
        self._pipe_readers = [
            _PipeReader(self._popen.stdout.fileno(), self._inbox.feed, self._inbox.close),
            _PipeReader(self._popen.stderr.fileno(), sink.feed, sink.close),
        ]
        for reader in self._pipe_readers:
            reader.start()

    @property
    def has_exited(self) -> bool:
        """Return whether the agent process has exited, even if others still hold its pipes."""
        return self._popen.returncode is not None or self.wait(0)

    @property
    def has_closed_stdin(self) -> bool:
        """Return whether the agent closed its stdin, so that no command can reach it."""
        return self._has_closed_stdin

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for the agent to exit; return whether it did."""
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(max(0.0, seconds) * 1000))

    def protect(self, marker: str | None) -> None:
        """Never drop lines that contain `marker`, even when the queue is full."""
        self._inbox.protect(marker)

    def send(self, line: bytes, *, timeout: float = 0.0) -> None:
        """Send a line; the part not accepted in time is sent while waiting for messages."""
        self._unsent += line
        self._flush(timeout)

    def messages(self, timeout: float) -> list[ReceivedLine]:
        """Return the received lines; wait up to `timeout` seconds for the first."""
        self._flush(0)
        if self._inbox.is_closed:
            self.wait(timeout)  # The agent has closed its stdout.
            timeout = 0
        return self._inbox.take(min(timeout, _FLUSH_SECONDS) if self._unsent else timeout)

    def take_dropped(self) -> int:
        """Return how many lines were dropped since the last call."""
        return self._inbox.take_dropped()

    def close_stdin(self) -> None:
        """Ask the agent to exit when its current work is done."""
        self._unsent = b""
        if not self._stdin.closed:
            self._stdin.close()

    def kill(self) -> int:
        """Kill the process group, reap the agent; return its exit code, or minus its signal.

        `messages` still returns the lines that it had written.
        """
        if self._popen.returncode is not None:
            return self._popen.returncode
        # Not reaped yet, so the pid still identifies its group.
        end_group(self.pid, clock=self._clock)
        code = self._popen.wait()
        self.close_stdin()
        self._inbox.finish()
        for reader in self._pipe_readers:
            reader.stop()
        for stream in (self._popen.stdout, self._popen.stderr):
            assert stream is not None
            stream.close()
        os.close(self._pidfd)
        return code

    def _flush(self, timeout: float) -> None:
        until = self._clock.monotonic() + timeout
        while self._unsent and not self._has_closed_stdin and not self._stdin.closed:
            try:
                written = self._stdin.write(self._unsent[:_CHUNK_BYTES])
            except BrokenPipeError:
                self._has_closed_stdin = True
                return
            if written:
                self._unsent = self._unsent[written:]
            elif (left := until - self._clock.monotonic()) > 0:
                poller = select.poll()
                poller.register(self._stdin.fileno(), select.POLLOUT)
                poller.poll(left * 1000)
            else:
                return


def _spawn(
    command: Sequence[str], env: Mapping[str, str], cwd: Path, descriptors: Sequence[int]
) -> subprocess.Popen[bytes]:
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
            pass_fds=tuple(descriptors),
        )
    except (OSError, ValueError) as exc:
        shown = " ".join(command)[:200]
        message = f"cannot start the agent `{shown}`: {exc}"
        fix = "correct the command (in onceward.json, or of the chat group), or remove this cause"
        raise AgentFailed(message, code="AGENT_NOT_STARTED", retryable=False, fix=fix) from exc
