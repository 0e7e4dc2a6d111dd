"""`onceward dispatch` beside a server: killed, asked for a replay, at work, and followed."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import Group, NewMessage, Reply
from onceward.dispatch.operator_actions import Operators
from tests.support.chat_letters import ChatLetters
from tests.support.dispatch_commands import PATIENCE_SECONDS, Place
from tests.support.waiting import until


class Room:
    """A place with a group, and its store."""

    def __init__(self, directory: Path, ow: Onceward, url: str) -> None:
        self.place = Place(directory, url)
        self.operators = Operators(ow.store)
        self.dead = ChatLetters(ow)
        self._arrivals = Inbox(ow.store)
        self._said = 0
        self.groups = Groups(ow.store)
        command = tuple(self.place.agent.split())
        self.groups.add(Group(name="team", channel="chat", command=command))

    def say(self, text: str) -> None:
        self._said += 1
        message = NewMessage(group="team", id=str(self._said), sender="ann", text=text)
        self._arrivals.receive(message)

    def replies(self) -> list[str]:
        items, _ = self._arrivals.conversation("team", 0)
        return [each.text for each in items if isinstance(each, Reply)]

    def is_quiet(self) -> bool:
        status = self.operators.status_of("team")
        return status.in_flight is None and not status.is_called

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        with self.place.started(*words) as process:
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
            return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.fixture
def room(tmp_path: Path, ow_url: str) -> Any:
    """A group on each engine, with the machine's own clock."""
    with open_handle(ow_url) as ow:
        yield Room(tmp_path, ow, ow_url)


def test_a_killed_server_loses_no_answer(room: Room) -> None:
    """Killed while its agent works, started again: each answer comes, once, follow-up too."""
    place = room.place
    with place.started("chat", "team", "--timeout", "50") as talking:
        assert talking.stdin is not None
        with place.serving() as first:
            talking.stdin.write("slow\n")
            talking.stdin.flush()
            until(place.began)
            first.kill()
        talking.stdin.write("and?\n")
        talking.stdin.flush()
        (place.directory / "go").touch()
        with place.serving() as second:
            out, err = talking.communicate(timeout=PATIENCE_SECONDS)
            second.send_signal(signal.SIGTERM)
            assert second.wait(PATIENCE_SECONDS) == 0
    assert (talking.returncode, out) == (0, "echo: slow\necho: and?\n"), err
    assert place.began() == ["slow", "slow", "and?"]
    assert room.replies() == ["echo: slow", "echo: and?"]


def test_a_running_server_notices_what_people_decide(room: Room) -> None:
    """Nothing arrives, and yet a replay, a redrive and the end of a pause are seen to."""
    with room.place.serving():
        room.say("one")
        until(lambda: room.replies() and room.is_quiet())
        status = json.loads(room.run("dispatch", "status", "--json").stdout)
        assert status["holder"]
        replayed = room.run(
            "dispatch", "replay", "team", "--since", "1", "--reason", "again", "--yes"
        )
        assert replayed.returncode == 0, replayed.stderr
        until(lambda: room.place.began() == ["one", "one"])
        until(room.is_quiet)
        room.say("poison")
        until(room.dead.letters)
        (letter,) = room.dead.letters()
        (room.place.directory / "mended").touch()
        assert room.dead.redrive(letter.id)
        until(lambda: "echo: poison" in room.replies())
        room.groups.set("team", is_paused=True)
        room.say("late")
        room.groups.set("team", is_paused=False)
        until(lambda: "echo: late" in room.replies())


def test_a_replay_is_refused_while_the_agent_works(room: Room) -> None:
    """A replay would interfere with the agent at work; the error says how to stop it first."""
    with room.place.serving():
        room.say("one")
        room.say("slow")
        until(lambda: "slow" in room.place.began())
        refused = room.run(
            "dispatch", "replay", "team", "--since", "1", "--reason", "again", "--yes"
        )
    # Its dispatcher was killed, so only the test can tell the agent to end.
    (room.place.directory / "go").touch()
    assert refused.returncode == 1
    assert "is processing a message" in refused.stderr
    assert "--pause" in refused.stderr


def test_a_conversation_is_followed(room: Room) -> None:
    """What is said is printed as it comes, and steers no terminal, until Ctrl-C."""
    follow = ("dispatch", "tail", "team", "--follow")
    with room.place.started(*follow, stdin=subprocess.DEVNULL) as following:
        assert following.stdout is not None
        room.say("one")
        assert following.stdout.readline().endswith("ann: one\n")
        room.say("two\nlines\x1b[31m")
        assert following.stdout.readline().endswith("ann: two\n")
        assert following.stdout.readline().strip() == "lines\N{REPLACEMENT CHARACTER}[31m"
        following.send_signal(signal.SIGINT)
        assert following.wait(PATIENCE_SECONDS) == 130
