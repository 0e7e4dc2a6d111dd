"""`onceward chat` at a terminal, with a person in front of it."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from onceward.client import open as open_handle
from tests.support.dispatch_commands import PATIENCE_SECONDS
from tests.support.waiting import until
from tests.system.test_dispatch_cli import Room


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    """A group in a store in a file."""
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    with open_handle(url) as ow:
        yield Room(tmp_path, ow, url)


class Terminal:
    """A terminal, and a command that runs in it."""

    def __init__(self, master: int, process: Any) -> None:
        self.process = process
        self._master = master
        self._shown = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def see(self, pattern: str) -> None:
        """Wait until something is on the screen, after what was seen before."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := re.search(pattern, self._shown)):
            assert time.monotonic() < deadline, self._shown
            if select.select([self._master], [], [], 0.2)[0]:
                self._shown += os.read(self._master, 65536).decode()
        self._shown = self._shown[found.end() :]


@contextmanager
def at_terminal(room: Room, *words: str) -> Iterator[Terminal]:
    """Start `onceward chat` in a terminal of its own."""
    master, slave = pty.openpty()
    ends = {"stdin": slave, "stdout": slave, "stderr": slave, "start_new_session": True}
    environment = {**room.place.environment, "TERM": "xterm"}
    try:
        with room.place.started("chat", "team", *words, env=environment, **ends) as process:
            os.close(slave)
            yield Terminal(master, process)
    finally:
        os.close(master)


def test_a_person_types_and_sees_replies(room: Room) -> None:
    """Replies appear above the line that is being written, and what was typed of it stays."""
    room.say("yesterday")
    with at_terminal(room, "--run-agents", "--sender", "bob") as terminal:
        terminal.see("ann: yesterday")
        terminal.see("Ctrl-D")
        terminal.see("> ")
        terminal.see("» echo: yesterday")
        terminal.type("hello\n")
        terminal.see("» echo: hello")
        terminal.type("how are")
        terminal.see("how are")
        room.say("I am here, too")
        terminal.see("ann: I am here, too")
        terminal.see("> how are")
        terminal.type(" you?\n")
        terminal.see("» echo: how are you\\?")
        terminal.type("\x04")
        assert terminal.process.wait(60) == 0


def test_a_failure_is_shown_in_words(room: Room) -> None:
    """What was not answered is shown in words; the person goes on."""
    with at_terminal(room, "--run-agents") as terminal:
        terminal.see("> ")
        terminal.type("half\n")
        terminal.see("» so far")
        terminal.type("still there?\n")
        terminal.see("» echo: still there")
        terminal.type("\x04")
        assert terminal.process.wait(60) == 0


def test_ctrl_c_leaves_at_once_and_loses_nothing(room: Room) -> None:
    """What the agent had not finished is handed out again, and no failure is counted."""
    with at_terminal(room, "--run-agents") as terminal:
        terminal.see("> ")
        terminal.type("slow\n")
        until(room.place.began)
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(60) == 130
    status = room.operators.status_of("team")
    assert (status.group.attempts, status.is_called, status.in_flight) == (0, True, None)


def test_a_person_alone_is_warned(room: Room) -> None:
    """Without a dispatcher it says so, and still takes what is said."""
    with at_terminal(room) as terminal:
        terminal.see("no dispatcher runs")
        terminal.see("> ")
        terminal.type("hello\n")
        until(lambda: room.operators.status_of("team").pending)
        terminal.type("\x04")
        assert terminal.process.wait(60) == 0
