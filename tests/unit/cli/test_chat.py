"""`onceward chat` through pipes: what is said, what is answered, and how that can fail."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from onceward.cli import chat as command
from tests.support.command_runner import Ran, Run
from tests.support.dispatch_commands import Place


@pytest.fixture
def here(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A store in a file, an agent, and a group."""
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'chat.db'}")
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    assert run("dispatch", "groups", "add", "team", "--agent", place.agent).code == 0
    return place


def chat(run: Run, said: str, *options: str) -> Ran:
    return run("chat", "team", "--run-agents", *options, stdin=said.encode())


def test_replies_are_exactly_what_the_agent_said(run: Run, here: Place) -> None:
    """Through a pipe a text arrives unchanged, also one that would steer a terminal."""
    said = "a %s _x_ <b> & \x1b[31mred"
    assert chat(run, f"{said}\n\n   \n") == Ran(0, f"echo: {said}\n", "")
    assert here.began() == [said]
    assert logging.getLogger("onceward").level == logging.NOTSET


def test_items_are_json_for_machines(run: Run, here: Place) -> None:
    """With --json each reply is an item, as tail shows it."""
    del here
    item = chat(run, "hi\n", "--json", "--sender", "ann").json
    assert (item["type"], item["text"], item["isCertain"]) == ("reply", "echo: hi", True)
    items = run("dispatch", "tail", "team", "--json").json["items"]
    assert (items[0]["sender"], items[1]) == ("ann", item)


def test_items_look_the_same_over_http(run: Run, here: Place) -> None:
    """What the command line prints as JSON is what the routes answer."""
    from onceward.cli.dispatch import conversations
    from onceward.client import open as open_handle
    from onceward.dispatch.views import page_body

    chat(run, "hi\n")
    tailed = run("dispatch", "tail", "team", "--json").json
    with open_handle(here.variables["ONCEWARD_STORE"]) as ow:
        body = page_body(conversations(ow).page("team", 0))
    assert tailed["items"] == body["items"]
    assert tailed["nextCursor"] == body["nextCursor"]


def test_a_missing_dispatcher_is_reported(
    run: Run, here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a dispatcher it ends with exit 1, says how to start one, and keeps what was said."""
    del here
    monkeypatch.setattr(command, "ABSENT_SECONDS_MAX", 0.2)
    ran = run("chat", "team", "--json", stdin=b"hello\n")
    assert (ran.code, ran.out) == (1, "")
    error = json.loads(ran.err)["error"]
    assert error["code"] == "RETRYABLE"
    assert "onceward dispatch serve" in error["context"]["fix"]
    assert "--run-agents" in error["context"]["fix"]
    assert chat(run, "?\n").out == "echo: hello\necho: ?\n"


def test_a_pause_is_reported(run: Run, here: Place) -> None:
    """A paused group gives no answer, which is no reason to wait for ever."""
    del here
    run("dispatch", "groups", "set", "team", "--pause")
    ran = chat(run, "hello\n")
    assert ran.code == 1
    assert "paused" in ran.err
    run("dispatch", "groups", "set", "team", "--resume")
    assert chat(run, "?\n").out == "echo: hello\necho: ?\n"


def test_half_an_answer_is_shown_and_reported(run: Run, here: Place) -> None:
    """What was said before a failure is printed once, and the exit code says that it failed."""
    ran = chat(run, "half\n")
    assert (ran.code, ran.out) == (1, "so far\n")
    assert "lost the thread" in ran.err
    assert here.began() == ["half"]


def test_waiting_ends_after_the_requested_timeout(run: Run, here: Place) -> None:
    """An agent that takes longer answers later, into the store."""
    ran = chat(run, "slow\n", "--timeout", "0.5")
    assert ran.code == 1
    assert "0.5 seconds" in ran.err
    (here.directory / "go").touch()
    assert chat(run, "?\n").out == "echo: slow\necho: ?\n"


def test_context_waits_for_a_call(run: Run, here: Place) -> None:
    """A message that triggers no agent waits, and comes along with one that does."""
    del here
    run("dispatch", "groups", "set", "team", "--trigger", "mention", "--word", "@bot")
    assert chat(run, "the sky is blue\n") == Ran(0, "", "")
    assert "context" in run("dispatch", "status").out
    assert chat(run, "@bot is it?\n").out == "echo: the sky is blue\necho: @bot is it?\n"


def test_nothing_said_is_nothing_to_wait_for(run: Run, here: Place) -> None:
    """An empty input ends at once, and well."""
    assert run("chat", "team", stdin=b"") == Ran(0, "", "")
    assert here.began() == []


def test_what_cannot_be_said_ends_it(run: Run, here: Place) -> None:
    """A line that is too long is refused by its field."""
    del here
    ran = chat(run, "x" * 200_000 + "\n")
    assert ran.code == 2
    assert "text: " in ran.err
    assert run("chat", "no-such-group", stdin=b"hi\n").code == 1
