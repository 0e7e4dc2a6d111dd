"""Die with parent: run a program that ends when the process that started it ends.

A script for a process of its own: `die_with_parent.py PARENT SIGNAL PROGRAM ARGS…`. The kernel
sends the signal when the parent ends for any reason, also to a frozen process. Imports nothing of
Onceward, so that it starts in a few milliseconds.
"""

import ctypes
import os
import sys

_SET_PARENT_DEATH_SIGNAL = 1


def main() -> None:
    """Request the signal, and replace this process with the program."""
    parent, signal_number = int(sys.argv[1]), int(sys.argv[2])
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal_number)
    # If the parent has already ended, no signal comes.
    if os.getppid() == parent:
        os.execvp(sys.argv[3], sys.argv[3:])  # noqa: S606 - what this is for


if __name__ == "__main__":
    main()
