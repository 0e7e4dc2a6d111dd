"""Group leader: run a program in a process group, and kill the group when its agent has died.

Runs as a script: `group_leader.py LIFELINE STATUS LOCK PROGRAM ARGS…`, the first three being
descriptors, LOCK possibly empty. A killed agent cannot kill its program, which would keep changing
files while the next attempt runs. The leader therefore watches a pipe to the agent, and holds a
lock that the next agent waits for. It imports only the standard library, so that it starts in a few
milliseconds.
"""

import _thread
import os
import signal
import sys


def main() -> None:
    """Wait for the start byte, run the program, report its exit status, and wait to be killed."""
    lifeline, status = int(sys.argv[1]), int(sys.argv[2])
    for each in filter(None, sys.argv[1:4]):
        os.set_inheritable(int(each), False)  # The program gets none of them.
    if not os.read(lifeline, 1):
        return  # The agent died before it sent the start byte.
    _thread.start_new_thread(_end_with, (lifeline,))
    _report(status, _run(sys.argv[4:]))
    # Remaining processes are in this group; its leader keeps the group's id from being reused.
    while True:
        signal.pause()


def _run(command: list[str]) -> str:
    """Run the program and return its exit status. Spawned, since forking with threads is unsafe."""
    try:
        child = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            # Python ignores these signals; programs rely on their default action.
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
        )
    except OSError as exc:
        return f"refused {exc.errno}"
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return f"exit {code}" if code >= 0 else f"signal {-code}"


def _end_with(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


def _report(status: int, text: str) -> None:
    with os.fdopen(os.dup(status), "w") as file:
        file.write(text + "\n")


if __name__ == "__main__":
    main()
