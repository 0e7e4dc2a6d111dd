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
    if lock:
        fcntl.flock(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), fcntl.LOCK_EX)
    child = os.fork()
    if child == 0:
        _become(sys.argv[4:], lifeline, status)
    _thread.start_new_thread(_end_with, (lifeline,))
    _, ended = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(ended)
    _tell(status, f"exit {code}" if code >= 0 else f"signal {-code}")
    # Whatever the program left running is in this group, and its leader holds the number.
    while True:
        signal.pause()


def _become(command: list[str], lifeline: int, status: int) -> None:
    os.close(lifeline)
    os.set_inheritable(status, False)
    for each in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, programs count on them.
        signal.signal(each, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - the program that the user named
    except OSError as exc:
        _tell(status, f"refused {exc.errno}")
        os._exit(127)


def _end_with(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


def _tell(status: int, text: str) -> None:
    with os.fdopen(os.dup(status), "w") as told:
        told.write(text + "\n")


if __name__ == "__main__":
    main()
