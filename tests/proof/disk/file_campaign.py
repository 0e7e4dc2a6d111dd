"""Campaign: a workload on a simulated disk that fails or ends at every operation in turn.

Run as `python -m tests.proof.disk.file_campaign DIRECTORY WORKLOAD FAULT NTH SEED` to repeat one.
Owns what strikes, the disks that it may leave, and the verdict.
"""

from __future__ import annotations

import errno
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onceward.errors import OncewardError, StorageError
from onceward.system.crash_points import Crashed
from onceward.testing import CrashFiles
from onceward.testing.process import Operation
from tests.proof.disk.file_workloads import (
    Appending,
    Caching,
    Following,
    Judging,
    Promises,
    Workload,
)
from tests.proof.disk.orchestrator_workload import Running

WORKLOADS: Final[dict[str, type[Workload]]] = {
    each.__name__.lower(): each for each in (Appending, Caching, Following, Judging, Running)
}
#: The power goes, or the process dies, before the n-th operation.
ENDS: Final = ("crash", "kill")
#: What each operation answers; a full disk may stay full.
ERRORS: Final[dict[str, tuple[Operation, int, bool]]] = {
    "write EIO": ("write", errno.EIO, False),
    "write EIO lasting": ("write", errno.EIO, True),
    "write ENOSPC": ("write", errno.ENOSPC, False),
    "write ENOSPC lasting": ("write", errno.ENOSPC, True),
    "sync EIO": ("sync", errno.EIO, False),
    "sync EIO lasting": ("sync", errno.EIO, True),
    "sync of a directory EIO": ("sync_directory", errno.EIO, False),
    "rename EIO": ("replace", errno.EIO, False),
    "create ENOSPC": ("create", errno.ENOSPC, False),
    "create ENOSPC lasting": ("create", errno.ENOSPC, True),
    "truncate EIO": ("truncate", errno.EIO, False),
    "read EIO": ("read", errno.EIO, False),
    "short write": ("write", 0, False),
}
FAULTS: Final = (*ENDS, *ERRORS)
SHORT_BYTES: Final = 7
OPERATIONS_MAX: Final = 5_000


@dataclass(kw_only=True)
class Seen:
    """What a campaign saw."""

    disks: int = 0
    work: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)


class Campaign:
    """One workload under many faults."""

    def __init__(self, name: str, directory: Path, *, disks_max: int) -> None:
        """Check so many disks of each crash."""
        self.name, self.seen = name, Seen()
        self._workload, self._disks_max = WORKLOADS[name](directory), disks_max

    def every(self, fault: str, *, first: int = 1, stride: int = 1, seed: int = 0) -> None:
        """Strike at the first operation, the next, and so on, until one life is untouched."""
        for nth in range(first, OPERATIONS_MAX, stride):
            if not self.once(fault, nth, seed):
                return
        message = f"{self.name} never ends"
        raise AssertionError(message)

    def once(self, fault: str, nth: int, seed: int) -> bool:
        """Strike once, check what may be left, and say whether it struck."""
        files, promises = self._workload.start(), Promises()
        try:
            if fault in ENDS:
                is_struck = _runs_until(nth, self._workload, files, promises)
                is_reported = False
            else:
                is_reported = self._fails(fault, nth, seed, files, promises)
                is_struck = files.failures > 0
            self.seen.faults[fault] += is_struck
            if fault != "kill":
                for disk in files.crashes(limit=self._disks_max, seed=seed + nth):
                    self._check(disk, promises)
            if fault != "crash" and not (is_reported and self._goes_on(fault, files, promises)):
                self._check(files.killed(), promises)
        except BaseException as exc:
            command = "REPRO: .venv/bin/python -m tests.proof.disk.file_campaign /tmp/disk"
            exc.add_note(f"{command} {self.name} '{fault}' {nth} {seed}")
            raise
        return is_struck

    def _check(self, disk: CrashFiles, promises: Promises) -> None:
        """Look at one disk as the next process does."""
        try:
            self.seen.work += self._workload.check(disk, promises)
        except BaseException as exc:
            exc.add_note(disk.description)
            raise
        self.seen.disks += 1

    def _fails(
        self, fault: str, nth: int, seed: int, files: CrashFiles, promises: Promises
    ) -> bool:
        """Let an operation fail; say whether that was reported, and by no error but ours."""
        operation, error, is_lasting = ERRORS[fault]
        short = SHORT_BYTES if fault == "short write" else None
        files.fail(operation, nth=nth, error=error, short=short, seed=seed, lasting=is_lasting)
        try:
            self._workload.work(files, promises)
        except OncewardError:
            self.seen.reached["reported"] += 1
            return True
        return False

    def _goes_on(self, fault: str, files: CrashFiles, promises: Promises) -> bool:
        """Finish in the same process, once the disk is well; say whether that was possible.

        While it fails there is no error but ours, and no call waits for a lock that was lost. Only
        a file that failed to sync may be refused for good.
        """
        if ERRORS[fault][2]:
            with suppress(OncewardError):
                self._workload.check(files, promises)
                return True
        files.heal()
        try:
            self._check(files, promises)
        except StorageError:
            assert fault.startswith("sync"), "it does not go on though the disk is well again"
            self.seen.reached["refused after a failed sync"] += 1
            return False
        self.seen.reached["went on in the same process"] += 1
        return True


def _runs_until(nth: int, workload: Workload, files: CrashFiles, promises: Promises) -> bool:
    """Run until before the n-th operation; say whether there was one."""
    begun = [0]

    def stop(what: str, _: int) -> None:
        begun[0] += 1
        if begun[0] >= nth:  # The dead do not tidy up either.
            raise Crashed(what)

    files.on_operation = stop
    try:
        workload.work(files, promises)
    except Crashed:
        assert begun[0] >= nth
    files.on_operation = None
    return begun[0] >= nth


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(sys.argv[2], Path(tempfile.mkdtemp(dir=place)), disks_max=50)
    campaign.once(sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
