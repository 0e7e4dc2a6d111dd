"""Worker runs: run an app's worker in a test, until it is idle or as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from onceward.errors import Retryable

if TYPE_CHECKING:
    from onceward.workers import App

#: How long a worker may take to stop after SIGTERM.
STOP_SECONDS_MAX: Final = 30.0


def drain(app: App) -> int:
    """Handle all due messages of an app in this process; return how many.

    Raises Retryable when messages are left that another worker holds or that wait for a retry.
    `crash_everywhere` then runs the scenario again, an hour later.
    """
    from onceward.workers import Worker  # noqa: PLC0415 - only where it is used

    # One thread, so that every run passes the same places in the same order.
    worked = Worker(app, threads=1).run(once=True)
    if worked.unfinished:
        message = f"{worked.messages} messages handled; unfinished: {', '.join(worked.unfinished)}"
        raise Retryable(message, fix="call drain() again once they are due and free")
    return worked.messages


@contextmanager
def worker_process(
    target: str, url: str, *arguments: str, crash: str | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run `onceward worker module:app` on this store while the block runs.

    `arguments` are further options, and `crash` is a crash point with its pass and action, such as
    `worker.handle.after_effect:1:stop`. At the end the worker is stopped with SIGTERM, or killed if
    it is frozen.
    """
    environment = {**os.environ, "ONCEWARD_STORE": url}
    environment.pop("ONCEWARD_CRASH", None)
    if crash is not None:
        environment["ONCEWARD_CRASH"] = crash
    command = [sys.executable, "-m", "onceward", "worker", target, *arguments]
    process = subprocess.Popen(command, env=environment, text=True)  # noqa: S603 - our own command
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS_MAX)
    finally:
        process.kill()
        process.wait()
