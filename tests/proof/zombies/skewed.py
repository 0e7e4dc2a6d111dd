"""Skewed: a worker process whose wall clock says what a file says, and jumps when the file changes.

Run as `python -m tests.proof.zombies.skewed URL`, under libfaketime. One JSON command a line, one
JSON answer a line, as in `tests.support.lease_worker`, with what else depends on time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import NewMessage
from onceward.outcomes import Fresh
from tests.support.lease_worker import Remote, Worker, obey

#: As libfaketime reads it: an hour ahead, an hour behind, standing still, and right.
AHEAD, BEHIND, STILL, RIGHT = "+3600", "-3600", "2026-02-06 12:00:00", "+0"


class TimedWorker(Worker):
    """What depends on time besides leases."""

    def __init__(self, ow: Onceward) -> None:
        super().__init__(ow)
        self.claims: dict[str, Fresh] = {}

    def now(self) -> float:
        """Return the wall time as this process sees it."""
        return datetime.now(UTC).timestamp()

    def claim(self, key: str, seconds: float, on_crash: str) -> str:
        """Ask for a key, and say what was answered."""
        owner = f"{os.getpid()}"
        options = {"on_crash": on_crash, "lease_seconds": seconds}
        found = self.ow.outcomes.claim("s", key, fingerprint="f", owner=owner, **options)  # type: ignore[arg-type]
        if isinstance(found, Fresh):
            self.claims[key] = found
        return type(found).__name__

    def finish(self, key: str, ttl_seconds: float) -> None:
        self.ow.outcomes.finish(self.claims[key].fence, b"1", ttl_seconds=ttl_seconds)

    def receive(self, group: str, id_: str) -> int:
        """Take a message in, and return its place in the order of arrival."""
        message = NewMessage(group=group, id=id_, sender="ann", text=id_)
        return Inbox(self.ow.store).receive(message).seq


class Skewed(Remote):
    """The other end of such a worker."""

    def __init__(self, url: str, file: Path, time: str) -> None:
        found = find_spec("libfaketime")
        assert found is not None, "pip install libfaketime"
        assert found.origin is not None
        (library,) = Path(found.origin).parent.rglob("libfaketime.so.1")
        self._file = file
        self.set(time)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.proof.zombies.skewed", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "LD_PRELOAD": str(library),
                "FAKETIME_TIMESTAMP_FILE": str(file),
                "FAKETIME_NO_CACHE": "1",
                "TZ": "UTC",
                # What passes must stay true, or waiting would never end.
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            },
        )

    def set(self, time: str) -> None:
        """Let its clock jump."""
        self.time = time
        whole = self._file.with_suffix(".new")
        whole.write_text(time)
        whole.replace(self._file)


@contextmanager
def skewed(url: str, file: Path, time: str) -> Iterator[Skewed]:
    """Start a worker, and kill it in the end."""
    remote = Skewed(url, file, time)
    try:
        yield remote
    finally:
        remote.process.kill()
        remote.process.communicate()


def main(url: str) -> None:
    worker = TimedWorker(open_handle(url))
    obey(worker)


if __name__ == "__main__":
    main(sys.argv[1])
