"""Demo server: `onceward up --demo`: the endless demo beside a console.

Owns the process that directs it, from its start to an end that leaves nothing behind. Light to
import: every worker of the story passes here.
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
from onceward.demo.demo_processes import end_tagged, tied
from onceward.demo.leads import lead_app
from onceward.errors import Internal
from onceward.stores import open_store
from onceward.system import Clock, SystemClock

#: How long the beginning may take, on a busy machine.
BEGIN_SECONDS: Final = 60.0
#: How long the director may take to end everybody; then the kernel does it.
END_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.05


@contextmanager
def living(home: Path, store_url: str, *, clock: Clock | None = None) -> Iterator[DemoWorld]:
    """Let a story live in an empty directory and an empty store, while the block runs.

    Call it in the main thread. The environment names its home and its store meanwhile. Nothing that
    it started runs afterwards, however the block, or this process, ends.
    """
    time = clock or SystemClock()
    with closing(open_store(store_url)) as store:
        check_empty(store)
    apps = (lead_app(store_url),)
    world = DemoWorld(home=home.resolve(), store_url=store_url, apps=apps)
    prepare(world)
    with _environment(world.environment), _quiet():
        director = _start(world)
        try:
            _await_beginning(world, director, time)
            yield world
        finally:
            _end(director)
            end_tagged(world.tag, clock=time)


def _start(world: DemoWorld) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "onceward.demo.endless_demo", str(world.home), world.store_url]
    log = os.open(world.logs / "director.log", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(  # noqa: S603 - our own program
            tied(command, signal.SIGTERM),
            cwd=world.home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for this process, which ends that one.
        )
    finally:
        os.close(log)


def _await_beginning(world: DemoWorld, director: subprocess.Popen[bytes], clock: Clock) -> None:
    """Wait until there is something to see."""
    until = clock.monotonic() + BEGIN_SECONDS
    while not world.ready.exists():
        if director.poll() is not None or clock.monotonic() >= until:
            said = (world.logs / "director.log").read_text(encoding="utf-8", errors="replace")
            last = next(iter(said.strip().splitlines()[-1:]), "it said nothing")
            message = f"the demo did not begin: {last}"
            raise Internal(message, fix="try again; if that does not help, please report it")
        clock.sleep(_LOOK_SECONDS)


def _end(director: subprocess.Popen[bytes]) -> None:
    director.terminate()
    try:
        director.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        director.kill()  # Processes tied to it die with it.
        director.wait()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep failures out of the log of this process: here they are part of the story."""
    logger = logging.getLogger("onceward")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Let this process, and what it starts, find its home and its store here."""
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
