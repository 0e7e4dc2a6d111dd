"""Demo processes: start, kill and freeze the processes of the demo, and leave none behind.

Each process ends when this one ends. Processes that they start themselves, such as agents, are
found by a marker variable in their environment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward.demo.demo_home import TAG_VARIABLE, DemoWorld
from onceward.journal import Journal
from onceward.system import Clock, SystemClock, SystemFiles, process_stat

#: How long a process may take to stop after SIGTERM.
END_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 0.02
_TIED: Final = Path(__file__).with_name("die_with_parent.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoProcess:
    """One process of the demo."""

    #: The process's name in the output, such as `worker 2`.
    name: str
    part: str
    process: subprocess.Popen[bytes]
    #: Files of the process's standard output and standard error.
    out: Path
    log: Path

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, None while the process runs, negative for a signal."""
        return self.process.poll()

    @property
    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        return self.exit_code is not None


class DemoProcesses:
    """Starts and ends the processes of the demo."""

    def __init__(
        self, world: DemoWorld, *, logs_max: int | None = None, clock: Clock | None = None
    ) -> None:
        """Start no process yet; `logs_max` limits the number of processes whose logs are kept."""
        self._world, self._clock, self._logs_max = world, clock or SystemClock(), logs_max
        self._kills = Journal(world.kills, sync=False)
        self._started_processes: list[DemoProcess] = []
        self._started = 0

    def start(self, part: str, name: str, *words: str, module: str = "onceward") -> DemoProcess:
        """Start a command in a session of its own, so that Ctrl-C reaches only this process."""
        self._started += 1
        self._remove_old_logs()
        stem = f"{self._started:06}-{name.replace(' ', '-')}"
        out, log = self._world.logs / f"{stem}.out", self._world.logs / f"{stem}.log"
        command = [sys.executable, "-m", module, *words]
        with _opened(out) as out_fd, _opened(log) as log_fd:
            process = subprocess.Popen(  # noqa: S603 - our own program
                tied_to_this_process(command, signal.SIGKILL),
                cwd=self._world.home,
                env={**os.environ, **self._world.environment},
                stdin=subprocess.DEVNULL,
                stdout=out_fd,
                stderr=log_fd,
                start_new_session=True,
            )
        player = DemoProcess(name=name, part=part, process=process, out=out, log=log)
        self._started_processes = [
            each for each in self._started_processes if not each.has_ended
        ] + [player]
        return player

    def kill(self, player: DemoProcess) -> None:
        """Kill a process with SIGKILL, and record the kill after its death."""
        player.process.kill()
        if player.process.wait() == -signal.SIGKILL:
            self._record_kill(player.part, player.name, player.pid)

    def kill_agent(self, part: str, name: str, pid: int, is_too_late: Callable[[], bool]) -> bool:
        """Kill an agent that a demo process started, unless `is_too_late`.

        The agent is frozen during that check, so that its state cannot change in between.
        """
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            if is_too_late():
                os.kill(pid, signal.SIGCONT)
                return False
            os.kill(pid, signal.SIGKILL)
            while (found := process_stat(pid)) is not None and found.is_alive:
                self._clock.sleep(_POLL_SECONDS)
            self._record_kill(part, name, pid)
            return True
        return False

    def freeze(self, player: DemoProcess) -> None:
        """Stop a process with SIGSTOP; when this returns, none of its threads runs."""
        os.kill(player.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, player.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def wake(self, player: DemoProcess) -> None:
        """Resume a frozen process with SIGCONT."""
        os.kill(player.pid, signal.SIGCONT)

    def stop(self, player: DemoProcess) -> None:
        """Stop a process with SIGTERM, and wait for its end."""
        player.process.terminate()
        try:
            player.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            player.process.kill()
            player.process.wait()

    def kill_all(self) -> None:
        """Kill all processes, and everything that they started."""
        for player in self._started_processes:
            player.process.kill()  # The demo's state survives a crash.
        for player in self._started_processes:
            player.process.wait()
        kill_marked(self._world.tag, clock=self._clock)

    def _remove_old_logs(self) -> None:
        if self._logs_max is None or self._started <= self._logs_max:
            return
        for path in self._world.logs.glob(f"{self._started - self._logs_max:06}-*"):
            SystemFiles().remove(path)

    def _record_kill(self, part: str, name: str, pid: int) -> None:
        self._kills.append({"part": part, "name": name, "pid": pid})


def tied_to_this_process(command: list[str], with_signal: signal.Signals) -> list[str]:
    """Wrap a command, so that it gets a signal when this process, or the calling thread, ends."""
    tie = [sys.executable, "-I", "-S", str(_TIED), str(os.getpid()), str(int(with_signal))]
    return [*tie, *command]


def kill_marked(tag: str, *, clock: Clock) -> None:
    """Kill every process with this marker in its environment, except this one."""
    mark = f"{TAG_VARIABLE}={tag}".encode()
    until = clock.monotonic() + END_SECONDS
    while found := [pid for pid in _pids() if _is_marked(pid, mark)]:
        if clock.monotonic() >= until:
            return  # The process hangs in the kernel and runs no more code.
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        clock.sleep(_POLL_SECONDS)


def _pids() -> Iterator[int]:
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and int(each.name) != os.getpid():
            yield int(each.name)


def _is_marked(pid: int, mark: bytes) -> bool:
    """Return whether a live process has the marker; a dead one has no environment."""
    with suppress(OSError):
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
