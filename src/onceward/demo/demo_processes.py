"""Demo processes: start, kill and freeze the processes of the demo, and leave none behind.

Each is tied to this process: it dies when this one does. What they start themselves, such as
agents, is found by the mark in its environment.
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

#: How long a process may take to end by itself.
END_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 0.02
_TIED: Final = Path(__file__).with_name("die_with_parent.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class Player:
    """One process."""

    #: What the story calls it, such as `worker 2`.
    name: str
    part: str
    process: subprocess.Popen[bytes]
    #: What it writes to standard output, and to standard error.
    out: Path
    log: Path

    @property
    def pid(self) -> int:
        """Return its number."""
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        """Return how it ended, None before that, less than 0 for a signal."""
        return self.process.poll()

    @property
    def has_ended(self) -> bool:
        """Say whether it is gone."""
        return self.exit_code is not None


class Cast:
    """Everybody who plays."""

    def __init__(
        self, world: DemoWorld, *, logs_max: int | None = None, clock: Clock | None = None
    ) -> None:
        """Start no process yet; keep the logs of so many processes, or of all."""
        self._world, self._clock, self._logs_max = world, clock or SystemClock(), logs_max
        self._kills = Journal(world.kills, sync=False)
        self._players: list[Player] = []
        self._started = 0

    def start(self, part: str, name: str, *words: str, module: str = "onceward") -> Player:
        """Start a command of ours, in a session of its own: Ctrl-C is for who tells the story."""
        self._started += 1
        self._forget_logs()
        stem = f"{self._started:06}-{name.replace(' ', '-')}"
        out, log = self._world.logs / f"{stem}.out", self._world.logs / f"{stem}.log"
        command = [sys.executable, "-m", module, *words]
        with _opened(out) as out_fd, _opened(log) as log_fd:
            process = subprocess.Popen(  # noqa: S603 - our own program
                tied(command, signal.SIGKILL),
                cwd=self._world.home,
                env={**os.environ, **self._world.environment},
                stdin=subprocess.DEVNULL,
                stdout=out_fd,
                stderr=log_fd,
                start_new_session=True,
            )
        player = Player(name=name, part=part, process=process, out=out, log=log)
        self._players = [each for each in self._players if not each.has_ended] + [player]
        return player

    def kill(self, player: Player) -> None:
        """End a process as a crash does; noted when it is dead."""
        player.process.kill()
        if player.process.wait() == -signal.SIGKILL:
            self._note_kill(player.part, player.name, player.pid)

    def kill_agent(self, part: str, name: str, pid: int, is_too_late: Callable[[], bool]) -> bool:
        """Kill an agent that one of ours has started, unless it is too late to do so.

        It is frozen while that is asked, so that nothing changes in between.
        """
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            if is_too_late():
                os.kill(pid, signal.SIGCONT)
                return False
            os.kill(pid, signal.SIGKILL)
            while (found := process_stat(pid)) is not None and found.is_alive:
                self._clock.sleep(_LOOK_SECONDS)
            self._note_kill(part, name, pid)
            return True
        return False

    def freeze(self, player: Player) -> None:
        """Stop a process where it stands; when this returns, none of its threads runs."""
        os.kill(player.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, player.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def wake(self, player: Player) -> None:
        """Let a frozen process go on, and believe that no time has passed."""
        os.kill(player.pid, signal.SIGCONT)

    def stop(self, player: Player) -> None:
        """Ask a process to end, and wait for it."""
        player.process.terminate()
        try:
            player.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            player.process.kill()
            player.process.wait()

    def end(self) -> None:
        """End everybody, and everything that they have started."""
        for player in self._players:
            player.process.kill()  # No graceful stop: they are made for this crash, too.
        for player in self._players:
            player.process.wait()
        end_tagged(self._world.tag, clock=self._clock)

    def _forget_logs(self) -> None:
        if self._logs_max is None or self._started <= self._logs_max:
            return
        for path in self._world.logs.glob(f"{self._started - self._logs_max:06}-*"):
            SystemFiles().remove(path)

    def _note_kill(self, part: str, name: str, pid: int) -> None:
        self._kills.append({"part": part, "name": name, "pid": pid})


def tied(command: list[str], with_signal: signal.Signals) -> list[str]:
    """Return a command line that gets a signal when this process, or this thread of it, ends."""
    tie = [sys.executable, "-I", "-S", str(_TIED), str(os.getpid()), str(int(with_signal))]
    return [*tie, *command]


def end_tagged(tag: str, *, clock: Clock) -> None:
    """Kill every process that has this mark in its environment, but not this one."""
    mark = f"{TAG_VARIABLE}={tag}".encode()
    until = clock.monotonic() + END_SECONDS
    while found := [pid for pid in _pids() if _is_marked(pid, mark)]:
        if clock.monotonic() >= until:
            return  # It hangs in the kernel; it is as good as dead.
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        clock.sleep(_LOOK_SECONDS)


def _pids() -> Iterator[int]:
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and int(each.name) != os.getpid():
            yield int(each.name)


def _is_marked(pid: int, mark: bytes) -> bool:
    """Say whether a living process is one of ours; a dead one has no environment."""
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
