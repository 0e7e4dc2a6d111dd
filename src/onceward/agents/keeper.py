"""Keeper: leads a program's process group, and ends the whole group once its agent is gone.

A script for a process of its own: `keeper.py LIFELINE STATUS LOCK PROGRAM ARGS…`. An agent that is
killed cannot end what it started, and a program that went on would change files under the hands of
the next one. So the group hangs on a pipe, and its lock tells the next keeper when it is gone.
Imports nothing of ours, so that it starts in a few milliseconds.
"""

import _thread
import fcntl
import os
import signal
import sys


def main() -> None:
    """Wait for the word, run the program, tell how it ended, and wait for the end."""
    lifeline, status, lock = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    if not os.read(lifeline, 1):
        return  # The agent died before it gave the word.
    # Before the lock is waited for: whoever gave the word may die meanwhile, too.
    _thread.start_new_thread(_end_with, (lifeline,))
    if lock:
        fcntl.flock(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), fcntl.LOCK_EX)
    _tell(status, _run(sys.argv[4:], lifeline, status))
    # Whatever the program left running is in this group, and its leader holds the number.
    while True:
        signal.pause()


def _run(command: list[str], lifeline: int, status: int) -> str:
    """Return how the program ended; it is not forked, because threads and forks do not mix."""
    try:
        child = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_CLOSE, lifeline), (os.POSIX_SPAWN_CLOSE, status)],
            # Python ignores them, programs count on them.
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
        )
    except OSError as exc:
        return f"refused {exc.errno}"
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return f"exit {code}" if code >= 0 else f"signal {-code}"


def _end_with(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


def _tell(status: int, text: str) -> None:
    with os.fdopen(os.dup(status), "w") as told:
        told.write(text + "\n")


if __name__ == "__main__":
    main()
