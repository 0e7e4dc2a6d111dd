"""Scenarios of chats, and the agent that plays them."""

import io
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import chat_messages
from onceward.agents.chat_script import chat_script_agent
from onceward.agents.scenarios import parse_scenario
from onceward.errors import InvalidArgument
from tests.support.agent_messages import ODD_TEXTS, a_delivery


def lines(workspace: Path, scenario: Any, *deliveries: bytes) -> list[bytes]:
    """Play a scenario in this process and return all lines."""
    output = io.BytesIO()
    environ = {"ONCEWARD_WORKSPACE": str(workspace)}
    agent = chat_script_agent(parse_scenario(scenario), wire=output, environ=environ)
    agent.run(io.BytesIO(b"".join(deliveries)), output)
    return output.getvalue().splitlines()


def play(workspace: Path, scenario: Any, *deliveries: bytes) -> list[dict[str, Any]]:
    """Play a scenario in this process and return all but heartbeats."""
    found = [chat_messages.decode(line) for line in lines(workspace, scenario, *deliveries)]
    return [each for each in found if each["kind"] != "heartbeat"]


@pytest.mark.parametrize(
    ("chat", "says"),
    [
        (3, "scenario: chat must be a list"),
        ([{"dance": 1}], "chat[0].dance is not a step"),
        ([{"answer": {}}], "chat[0].answer is not a step"),
        ([{"reply": ""}], "chat[0].reply must be non-empty text"),
        ([{"reply": {"key": "k"}}], "chat[0].reply.text is missing"),
        ([{"reply": {"text": "x", "key": 1}}], "chat[0].reply.key must be non-empty text"),
        ([{"echo": 1}], "chat[0].echo must be true"),
        ([{"follow_ups": False}], "chat[0].follow_ups must be true"),
        ([{"ignore": "x"}], "chat[0].ignore must be true"),
        ([{"fail": ""}], "chat[0].fail must be non-empty text"),
        ({"rules": 1}, "chat.rules must be a list"),
        ({"rounds": []}, "chat.rounds is not known here"),
        ({"rules": [{"when": "x"}]}, "chat.rules[0].do is missing"),
        ({"rules": [{"when": "", "do": []}]}, "chat.rules[0].when must be non-empty text"),
        ({"rules": [{"do": [{"delay": -1}]}]}, "chat.rules[0].do[0].delay must be seconds from 0"),
    ],
)
def test_a_wrong_chat_is_refused_by_place(chat: Any, says: str) -> None:
    """The path in the file, what is wrong, and what would be right."""
    with pytest.raises(InvalidArgument) as caught:
        parse_scenario({"chat": chat})
    assert says in caught.value.message
    assert caught.value.fix


def test_chat_steps_are_no_steps_of_commands() -> None:
    """An orchestrator's agent has no chat to reply to."""
    with pytest.raises(InvalidArgument, match="reply is not a step"):
        parse_scenario({"actions": {"review": [{"reply": "x"}]}})


def test_it_replies(tmp_path: Path) -> None:
    """With what was said filled in, and with a key if it has one."""
    steps = [{"reply": "{sender} of {group}: {text}"}, {"reply": {"text": "x", "key": "{id}"}}]
    assert play(tmp_path, {"chat": steps}, a_delivery("hi")) == [
        chat_messages.output("ann of garden: hi", upto=1),
        chat_messages.output("x", key="m1", upto=1),
        chat_messages.done(1),
    ]


def test_what_a_scenario_does_not_say_is_done_in_silence(tmp_path: Path) -> None:
    """Nothing is said, and nothing fails."""
    assert play(tmp_path, {}, a_delivery("hi")) == [chat_messages.done(1)]


def test_h45_an_echo_says_each_text_unchanged(tmp_path: Path) -> None:
    """One output for each message, in their order."""
    said = play(tmp_path, {"chat": [{"echo": True}]}, a_delivery(*ODD_TEXTS))
    assert [each["text"] for each in said[:-1]] == list(ODD_TEXTS)
    assert said[-1] == chat_messages.done(len(ODD_TEXTS))


def test_the_first_rule_that_fits_counts(tmp_path: Path) -> None:
    """By a word in the text; one without a word fits always."""
    rules = [{"when": "%", "do": [{"reply": "percent"}]}, {"do": [{"reply": "else"}]}]
    deliveries = [a_delivery(text, first=seq) for seq, text in enumerate(("5 %", "x"), start=1)]
    said = play(tmp_path, {"chat": {"rules": rules}}, *deliveries)
    assert [each.get("text") for each in said] == ["percent", None, "else", None]


def test_it_fails_after_output_and_only_once(tmp_path: Path) -> None:
    """The next life, which is handed the same messages, does not."""
    scenario = {"chat": [{"reply": "a"}, {"fail": "no {text}", "once": True}, {"reply": "b"}]}
    said = play(tmp_path, scenario, a_delivery("hi"), a_delivery("more", first=2))
    assert said == [
        chat_messages.output("a", upto=1),
        chat_messages.error("no hi", code="SCRIPTED_FAILURE", retryable=True, upto=1),
    ]
    again = play(tmp_path, scenario, a_delivery("hi", "more"))
    assert [each["kind"] for each in again] == ["output", "output", "done"]


def test_errors_have_codes_of_their_own(tmp_path: Path) -> None:
    """As agents of orchestrators have them."""
    step = {"error": {"code": "RATE_LIMITED", "message": "{sender}, wait"}}
    (error,) = play(tmp_path, {"chat": [step]}, a_delivery("hi"))
    assert error == chat_messages.error("ann, wait", code="RATE_LIMITED", retryable=False, upto=1)


def test_messages_are_counted(tmp_path: Path) -> None:
    """Begun and completed, each by its id; what fails is not completed."""
    rules = [{"when": "bad", "do": [{"fail": "no"}]}, {"do": [{"count": "state/more.txt"}]}]
    scenario = {"count": "state/{group}.txt", "chat": {"rules": rules}}
    play(tmp_path, scenario, a_delivery("a", "b"), a_delivery("bad", first=3))
    noted = (tmp_path / "state" / "garden.txt").read_text().splitlines()
    assert noted == ["started m1", "started m2", "completed m1", "completed m2", "started m3"]
    assert (tmp_path / "state" / "more.txt").read_text().splitlines() == noted[:4]


def test_it_behaves_badly(tmp_path: Path) -> None:
    """Whatever no well-behaved agent would send goes out as it is."""
    steps = [
        {"garbage": "not JSON"},
        {"oversized": 2000},
        {"send": {"kind": "done", "upto": 99}},
        {"flood": {"lines": 300, "bytes": 10}},
        {"flood": {"lines": 2, "bytes": 10, "to": "log"}},
        {"log": "{text}"},
        {"write": {"path": "note.txt", "content": "{text}"}},
        {"delay": 0},
    ]
    said = lines(tmp_path, {"chat": steps}, a_delivery("hi"))
    assert said.count(b"x" * 9) == 300
    assert b"x" * 1999 in said
    assert b"not JSON" in said
    assert b'{"kind":"done","upto":99}' in said
    assert sum(b'"message":"xxxxxxxxxx"' in each for each in said) == 2
    assert sum(b'"message":"hi"' in each for each in said) == 1
    assert (tmp_path / "note.txt").read_text() == "hi"
