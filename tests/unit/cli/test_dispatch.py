"""`onceward dispatch`: groups, messages, dead letters and replays, on both engines."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from onceward.client import open as open_handle
from onceward.system import SystemClock
from tests.support.command_runner import Ran, Run
from tests.support.dispatch_commands import Place


@pytest.fixture
def place(tmp_path: Path, ow_url: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A store on each engine, and an agent."""
    return entered(tmp_path, ow_url, monkeypatch)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A store in a file, and an agent."""
    return entered(tmp_path, f"sqlite:///{tmp_path / 'chat.db'}", monkeypatch)


def entered(directory: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(directory, url)
    for name, value in {**place.variables, "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(directory)
    return place


def add(run: Run, place: Place, *options: str) -> None:
    ran = run("dispatch", "groups", "add", "team", "--agent", place.agent, *options)
    assert ran.code == 0, ran.err


def chat(run: Run, said: str, *options: str) -> Ran:
    return run("chat", "team", "--run-agents", *options, stdin=said.encode())


def ids(page: Any) -> list[str]:
    return [each["id"] for each in page["items"] if each["type"] == "message"]


def replies(page: Any) -> list[str]:
    return [each["text"] for each in page["items"] if each["type"] == "reply"]


def test_a_group_is_added_talked_to_and_looked_at(run: Run, place: Place) -> None:
    """From nothing to an answer; afterwards everything says that all is done."""
    assert "no groups yet" in run("dispatch", "status").out
    add(run, place)
    sent = run("dispatch", "send", "team", "good", "--id", "a", "--json")
    assert sent.json == {"id": "a", "seq": 1, "fate": "new"}
    assert "waiting" in run("dispatch", "status").out
    assert chat(run, "morning\n") == Ran(0, "echo: good\necho: morning\n", "")
    assert replies(run("dispatch", "tail", "team", "--json").json) == [
        "echo: good",
        "echo: morning",
    ]
    assert "a" not in ids(run("dispatch", "tail", "team", "--since", "1", "--json").json)
    status = run("dispatch", "status", "team", "--json").json
    (group,) = status["items"]
    assert (group["processed"], group["pending"], group["inFlight"]) == (2, 0, None)
    assert {each["state"] for each in status["deliveries"]} == {"done"}
    assert (status["read"], status["history"]) == (2, [])
    printed = run("dispatch", "status").out
    assert "quiet" in printed
    assert "none; start one: onceward dispatch serve" in printed


def test_a_message_with_an_id_is_sent_once(run: Run, place: Place) -> None:
    """The same id is the same message, another text is an edit, and a new id is printed."""
    add(run, place)

    def send(*words: str, stdin: bytes = b"") -> Any:
        return run("dispatch", "send", "team", *words, "--json", stdin=stdin).json

    assert send("hello", "--id", "m1")["fate"] == "new"
    assert send("hello", "--id", "m1")["fate"] == "known"
    assert send("hallo", "--id", "m1") == {"id": "m1", "seq": 1, "fate": "edited"}
    assert send("-", "--sender", "ann", stdin=b"from a pipe\n")["id"].startswith("msg_")
    page = run("dispatch", "tail", "team", "--since", "0", "--json").json
    assert [each["text"] for each in page["items"]] == ["hallo", "from a pipe"]
    warned = run("dispatch", "send", "team", "hello?")
    assert warned.out.split()[1] == "new,"
    assert "onceward dispatch serve" in warned.err


def test_ctrl_c_ends_tail_with_the_number_to_go_on_from(
    run: Run, here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was printed counts; a group that does not exist has no number."""

    def interrupt(_: object, __: float) -> None:
        raise KeyboardInterrupt

    add(run, here)
    run("dispatch", "send", "team", "good", "--id", "a")
    monkeypatch.setattr(SystemClock, "sleep", interrupt)
    ran = run("dispatch", "tail", "team", "--follow")
    assert (ran.code, ran.out.count("good"), ran.err) == (130, 1, "next: --since 1\n")
    assert run("dispatch", "tail", "team", "--follow", "--json").err == ""
    assert "next:" not in run("dispatch", "tail", "none").err


def test_a_conversation_is_printed_in_parts_and_whole(run: Run, here: Place) -> None:
    """The last N messages, or all after a number, however many pages that takes."""
    from onceward.dispatch.inbox import Inbox
    from onceward.dispatch.models import NewMessage

    add(run, here)
    with open_handle(here.variables["ONCEWARD_STORE"]) as ow:
        for number in range(1, 451):
            new = NewMessage(group="team", id=str(number), sender="ann", text=f"m{number}")
            Inbox(ow.store).receive(new)
    last = run("dispatch", "tail", "team", "--last", "2")
    assert [line.split()[-1] for line in last.out.splitlines()] == ["m449", "m450"]
    assert last.err == "next: --since 450\n"
    whole = run("dispatch", "tail", "team", "--since", "0")
    assert len(whole.out.splitlines()) == 450
    pages = run("dispatch", "tail", "team", "--since", "0", "--json").out.splitlines()
    found = [each for page in pages for each in ids(json.loads(page))]
    assert found == [str(number) for number in range(1, 451)]


def test_dead_letters_are_listed_and_redriven(run: Run, place: Place) -> None:
    """What an agent fails at for good is in the dead-letter queue until an operator decides."""
    add(run, place)
    failed = chat(run, "poison\n")
    assert failed.code == 1
    assert "cannot read this" in failed.err
    assert "onceward dead redrive --group team --yes" in failed.err
    (letter,) = run("dead", "list", "--group", "team", "--json").json["items"]
    assert (letter["group"], letter["state"], letter["attempts"]) == ("team", "dead", 1)
    number = str(letter["id"])
    shown = run("dead", "show", number, "--json").json
    assert [each["text"] for each in shown["messages"]] == ["poison"]
    assert ": poison\n" in run("dead", "show", number).out
    assert run("dispatch", "status", "--json").json["items"][0]["dead"] == 1
    assert "cannot read this" in run("dead", "list").out
    redrive = (
        "dead",
        "redrive",
        "--group",
        "team",
        "--json",
        "--actor",
        "ann",
        "--reason",
        "fixed",
    )
    plan = {"action": "redrive", "applied": False, "ids": [letter["id"]], "messages": 1}
    assert run(*redrive).json == {**plan, "skipped": []}
    (place.directory / "mended").touch()
    assert run(*redrive, "--yes").json == {
        "applied": True,
        "redriven": [letter["id"]],
        "skipped": [],
    }
    lost = run("dead", "drop", number, "--reason", "spam", "--yes", "--actor", "bob")
    assert lost.code == 1
    assert f"dead letter {number} was redriven by ann" in lost.err
    assert run("dead", "show", number, "--json").json["reason"] == "fixed"
    assert chat(run, "again\n").out == "echo: poison\necho: again\n"
    assert run("dead", "list").out == "no dead letters\n"


def test_a_dropped_letter_stays_readable(run: Run, here: Place) -> None:
    """A drop wants --yes; the letter can still be shown, and not be redriven."""
    add(run, here)
    chat(run, "poison\n")
    drop = ("dead", "drop", "1", "--reason", "spam")
    planned = run(*drop)
    assert (planned.code, "--yes" in planned.out) == (0, True)
    assert "dispatch/team: 1 message" in planned.out
    assert run(*drop, "--yes", "--json").json == {"applied": True, "dropped": [1], "skipped": []}
    assert "was dropped by" in run(*drop, "--yes").err
    assert run("dead", "show", "1", "--json").json["state"] == "dropped"
    assert run("dead", "redrive", "1", "--yes").code == 1
    assert run("dead", "show", "2").code == 1


def test_a_replay_is_thought_through_first_and_then_repeats(run: Run, place: Place) -> None:
    """A dry run counts and shows; for real it wants a reason, and the agent answers again."""
    add(run, place)
    chat(run, "one\ntwo\n")
    replay = ("dispatch", "replay", "team", "--since")
    for since in ("1", "2020-01-01", "2020-01-01T00:00:00+02:00"):
        replayed = run(*replay, since, "--json").json
        assert (replayed["messages"], replayed["to"], replayed["applied"]) == (2, 0, False)
        assert [each["line"] for each in replayed["first"]] == ["one", "two"]
    assert "nothing was changed" in run(*replay, "1").out
    wanting = run(*replay, "1", "--yes")
    assert wanting.code == 2
    assert "reason" in wanting.err
    done = run(*replay, "2", "--reason", "a wrong answer", "--actor", "ann", "--yes")
    assert done.out.startswith("repeats 1 message of team\n")
    assert chat(run, "three\n").out == "echo: two\necho: three\n"
    assert place.began() == ["one", "two", "two", "three"]
    (move,) = run("dispatch", "status", "team", "--json").json["history"]
    assert (move["actor"], move["reason"], move["to"]) == ("ann", "a wrong answer", 1)
    assert "a wrong answer" in run("dispatch", "status", "team").out


@pytest.mark.parametrize("since", ["3", "99", "2999-01-01"])
def test_a_replay_never_skips(run: Run, here: Place, since: str) -> None:
    """A position after which nothing was processed is refused: messages would be passed over."""
    add(run, here)
    chat(run, "one\n")
    run("dispatch", "send", "team", "two")
    ran = run("dispatch", "replay", "team", "--since", since, "--reason", "a slip", "--yes")
    assert ran.code == 2
    assert run("dispatch", "status", "--json").json["items"][0]["pending"] == 1


def test_groups_are_set_paused_and_removed(run: Run, place: Place) -> None:
    """Changes are kept; a group with unanswered messages is removed on purpose only."""
    add(run, place, "--trigger", "mention", "--word", "@bot", "--idle", "60")
    groups = ("dispatch", "groups")
    (found,) = run(*groups, "list", "--json").json["items"]
    assert (found["trigger"], found["word"], found["idleSeconds"]) == ("mention", "@bot", 60.0)
    again = run(*groups, "set", "team", "--trigger", "always", "--hard", "5", "--pause", "--json")
    assert (again.json["trigger"], again.json["word"], again.json["isPaused"]) == (
        "always",
        "",
        True,
    )
    assert "paused" in run(*groups, "list").out
    run("dispatch", "send", "team", "hello")
    assert "paused" in run("dispatch", "status").out
    remove = (*groups, "remove", "team")
    plan = {"group": "team", "pending": 1, "unsent": 0}
    assert run(*remove, "--json").json == {"applied": False, "needsForce": True, **plan}
    assert "so --yes needs --force, too" in run(*remove).out
    refused = run(*remove, "--yes")
    assert (refused.code, "--force" in refused.err) == (2, True)
    assert run(*remove, "--yes", "--force", "--json").json == {
        "applied": True,
        "needsForce": False,
        **plan,
    }
    assert run(*groups, "list", "--json").json == {"items": []}
    assert run("dispatch", "send", "team", "hello").code == 1


def test_adding_a_group_twice_is_idempotent(run: Run, here: Place) -> None:
    """The same again says so; another agent under the name is refused, and nothing is changed."""
    add(run, here)
    groups = ("dispatch", "groups", "add", "team", "--json", "--agent")
    assert run(*groups, here.agent).json["isNew"] is False
    other = run(*groups, "python3 other.py")
    assert other.code == 1
    assert "groups set team" in json.loads(other.err.splitlines()[-1])["error"]["context"]["fix"]


def test_the_agents_files_are_found_from_anywhere(run: Run, here: Place) -> None:
    """Without a directory of its own choice an agent works elsewhere, so names are written out."""
    groups = ("dispatch", "groups", "add")
    command = shlex.join([sys.executable, "agent.py", "--fast"])
    free = run(*groups, "free", "--agent", command, "--json").json
    assert free["command"] == [sys.executable, str(here.directory / "agent.py"), "--fast"]
    bound = run(*groups, "bound", "--agent", "python3 agent.py", "--workdir", ".", "--json").json
    assert bound["command"] == ["python3", "agent.py"]
    assert bound["workdir"] == str(here.directory)
    (here.directory / "bot").symlink_to(sys.executable)
    linked = run(*groups, "linked", "--agent", "./bot agent.py", "--json").json
    assert linked["command"][0] == str(here.directory / "bot")


def test_what_cannot_be_is_refused_by_its_field(run: Run, here: Place) -> None:
    """Wrong input is exit 2, with what is wrong and what to do."""
    add(run, here)
    cases: list[Any] = [
        (("groups", "add", "a b", "--agent", "true"), "name"),
        (("groups", "add", "b", "--agent", "'open"), "agent"),
        (("groups", "add", "b", "--agent", ""), "command"),
        (("groups", "add", "b", "--agent", "true", "--word", "@bot"), "--trigger"),
        (("groups", "add", "b", "--agent", "true", "--trigger", "prefix"), "word"),
        (("groups", "add", "b", "--agent", "true", "--workdir", "nowhere"), "workdir"),
        (("groups", "add", "b", "--agent", "true", "--idle", "0"), "idle_seconds"),
        (("groups", "set", "team"), "nothing was changed"),
        (("groups", "set", "team", "--word", "@bot"), "--trigger"),
        (("send", "team", "hi", "--timestamp", "yesterday"), "timestamp"),
        (("send", "team", ""), "text"),
        (("send", "team", "hi", "--id", "x" * 201), "id"),
        (("send", "team", "half \udcff"), "text"),
        (("tail", "team", "--since", "9"), "since"),
        (("replay", "team", "--since", "soon"), "neither a number nor a time"),
        (("replay", "team", "--since", "0001-01-01T00:00:00+14:00"), "nor a time"),
    ]
    for words, says in cases:
        ran = run("dispatch", *words)
        assert ran.code == 2
        assert says in ran.err
        assert "fix: " in ran.err


def test_a_missing_group_is_reported(run: Run, here: Place) -> None:
    """No such group: exit 1, with how to add it, in both forms."""
    del here
    wordss: list[Any] = [
        ("send", "hi"),
        ("tail",),
        ("status",),
        ("replay", "--since", "1"),
        ("groups set", "--pause"),
        ("groups remove",),
    ]
    for name in ["no-such-group", "\udcff\udcfe", "x" * 300]:
        for words in wordss:
            command, *rest = words
            ran = run("dispatch", *command.split(), name, *rest, "--json")
            assert (ran.code, ran.out) == (1, "")
            assert json.loads(ran.err)["error"]["code"] == "GROUP_NOT_FOUND"
            assert "groups add" in run("dispatch", *command.split(), name, *rest).err
