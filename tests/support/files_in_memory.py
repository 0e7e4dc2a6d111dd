"""Files in memory: where the directories of tests are, so that no test waits for a disk."""

from __future__ import annotations

import os
from typing import Final

#: A file system in memory, on most machines.
MEMORY: Final = "/dev/shm"
BYTES_MIN: Final = 4 * 1024**3
#: What pytest asks where to make the directories of tests.
_ASKED: Final = "PYTEST_DEBUG_TEMPROOT"


def use_memory() -> None:
    """Let pytest make the directories of tests in memory, if there is room for files to run."""
    if _ASKED in os.environ or not os.access(MEMORY, os.W_OK):
        return
    found = os.statvfs(MEMORY)
    if found.f_bavail * found.f_frsize >= BYTES_MIN and not found.f_flag & os.ST_NOEXEC:
        os.environ[_ASKED] = MEMORY
