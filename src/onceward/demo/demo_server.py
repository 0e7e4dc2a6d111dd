"""Demo server: run the endless demo beside a console, for `onceward up --demo`.

Starts the process that runs the demo, and ends it with all its children. Light to import, because
every demo worker imports this module.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from onceward.demo.demo_home import DemoWorld, check_empty, prepare
from onceward.demo.demo_processes import kill_marked, tied_to_this_process
from onceward.demo.leads import lead_app
from onceward.errors import Internal
from onceward.stores import open_store
from onceward.system import Clock, SystemClock

#: How long the demo's start may take, on a busy machine.
BEGIN_SECONDS: Final = 60.0
#: How long the demo process may take to stop; then it is killed with its children.
END_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.05


@contextmanager
def endless_demo_running(
    home: Path, store_url: str, *, clock: Clock | None = None
) -> Iterator[DemoWorld]:
    """Run the endless demo in an empty directory and an empty store, while the block runs.

    Call it in the main thread. Meanwhile the environment variables name its directory and store.
    Afterwards none of its processes runs, even if this process is killed.
    """
    time = clock or SystemClock()
    with closing(open_store(store_url)) as store:
        check_empty(store)
    apps = (lead_app(store_url),)
    world = DemoWorld(home=home.resolve(), store_url=store_url, apps=apps)
    prepare(world)
    with _environment(world.environment), _without_failure_logs():
        process = _start(world)
        try:
            _await_beginning(world, process, time)
            yield world
        finally:
            _end(process)
            kill_marked(world.tag, clock=time)


def _start(world: DemoWorld) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "onceward.demo.endless_demo", str(world.home), world.store_url]
    log = os.open(world.logs / "director.log", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(  # noqa: S603 - our own program
            tied_to_this_process(command, signal.SIGTERM),
            cwd=world.home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches only this process, which stops the other one.
        )
    finally:
        os.close(log)


def _await_beginning(world: DemoWorld, process: subprocess.Popen[bytes], clock: Clock) -> None:
    """Wait until the demo has created its first data."""
    until = clock.monotonic() + BEGIN_SECONDS
    while not world.ready.exists():
        if process.poll() is not None or clock.monotonic() >= until:
            said = (world.logs / "director.log").read_text(encoding="utf-8", errors="replace")
            last = next(iter(said.strip().splitlines()[-1:]), "no output")
            message = f"the demo did not start: {last}"
            raise Internal(message, fix="try again; if that does not help, please report it")
        clock.sleep(_POLL_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()  # The kernel kills its children when it dies.
        process.wait()


@contextmanager
def _without_failure_logs() -> Iterator[None]:
    """Do not log the failures of this process, because the demo causes them on purpose."""
    logger = logging.getLogger("onceward")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for this process and its children while the block runs."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
