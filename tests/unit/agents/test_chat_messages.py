"""Chat messages: whatever people say arrives as it was said, in lines of a bounded length."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceward.agents import chat_messages, protocol
from onceward.agents.chat_messages import ChatDelivery, ChatMessage, DeliveryReader, last_trigger
from onceward.agents.line_reader import LINE_BYTES_MAX, LineReader, OversizedLine
from onceward.dispatch import models
from onceward.errors import InvalidArgument, InvalidJson, MessageRefused
from tests.support.agent_messages import (
    ODD_TEXTS,
    a_command,
    a_heartbeat,
    a_log,
    a_message,
    an_event,
    check_refused,
    check_wire,
)


def a_line(*said: ChatMessage, **changes: Any) -> dict[str, Any]:
    (line,) = chat_messages.delivery_lines("run-1", "garden", 1, said or (a_message(),), False)
    return {**chat_messages.decode(line), **changes}


ALL = {
    "message": a_line(),
    "output": chat_messages.output("hello", key="k1", upto=3),
    "done": chat_messages.done(3),
    "error": chat_messages.error("no", code="NO_IDEA", retryable=True, upto=3),
    "heartbeat": a_heartbeat(agent_type="chat"),
    "log": a_log(),
}
#: Of every kind, the fields that may be left out.
OPTIONAL = {"output": {"key", "upto"}, "error": {"code", "retryable", "upto"}}


def joined(lines: list[bytes]) -> ChatDelivery:
    """Put lines together as an agent does, from the bytes on."""
    reader, deliveries = LineReader(line_bytes_max=chat_messages.LINE_BYTES_MAX), DeliveryReader()
    found = [deliveries.add(each) for each in reader.feed(b"".join(lines))]
    assert found[:-1] == [None] * (len(lines) - 1)
    assert found[-1] is not None
    return found[-1]


@pytest.mark.parametrize("kind", protocol.CHAT_KINDS)
def test_every_kind_survives_the_wire(kind: str) -> None:
    """What is encoded is one line, and decodes to the same message."""
    check_wire(chat_messages, ALL[kind])


@pytest.mark.parametrize("kind", OPTIONAL | {"message": set(), "done": set()})
def test_every_listed_field_is_required(kind: str) -> None:
    """Without one of its fields a message is refused, unless the field may be left out."""
    for name in ALL[kind]:
        less = {each: value for each, value in ALL[kind].items() if each != name}
        if name in OPTIONAL.get(kind, set()):
            chat_messages.encode(less)
        else:
            with pytest.raises(MessageRefused):
                chat_messages.encode(less)
    with pytest.raises(MessageRefused, match="surprise"):
        chat_messages.encode({**ALL[kind], "surprise": 1})


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        (a_line(messages=[]), "message.messages"),
        (a_line(upto=-1), "message.upto"),
        (a_line(group=""), "message.group"),
        (a_line(more=1), "message.more"),
        (a_line(messages=[{**ALL["message"]["messages"][0], "x": 1}]), "message.messages[0]"),
        (
            a_line(messages=[{**ALL["message"]["messages"][0], "text": ""}]),
            "message.messages[0].text",
        ),
        (chat_messages.output(""), "output.text"),
        (chat_messages.output("x" * 131_073), "output.text"),
        (chat_messages.output("x", key="a\nb"), "output.key"),
        (chat_messages.output("x", key=""), "output.key"),
        (chat_messages.output("x", upto=-1), "output.upto"),
        (chat_messages.done(-1), "done.upto"),
        (chat_messages.error("x", code="no code"), "error.code"),
        (a_heartbeat(agent_type="painter"), "heartbeat.agent.agent_type"),
        (a_command(), "kind"),
        (an_event(), "kind"),
    ],
)
def test_a_wrong_place_is_named(changed: dict[str, Any], path: str) -> None:
    """A refusal says where in the message it is wrong, when it is sent and when it is received."""
    check_refused(chat_messages, changed, path)


@pytest.mark.parametrize("kind", ["message", "output", "done", "error"])
def test_an_orchestrator_takes_no_chat(kind: str) -> None:
    """Its agents send events, and a chat message among them is none of its kinds."""
    line = chat_messages.encode(ALL[kind])
    with pytest.raises(MessageRefused, match="kind: is missing or unknown"):
        protocol.decode(line)
    assert json.loads(protocol.schema(kind))["title"].lower() == kind


def test_a_chat_agent_does_no_commands() -> None:
    """Only heartbeats come from chat agents too."""
    for wrong in (a_command(agent_type="chat"), an_event(agent_type="chat")):
        with pytest.raises(MessageRefused, match="agent_type"):
            protocol.check(wrong)


# --- deliveries ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_h45_odd_texts_arrive_unchanged(text: str) -> None:
    """Whatever stands in a text, it is the same at the other end."""
    said = a_message(7, text, timestamp="yesterday", is_call=False)
    lines = chat_messages.delivery_lines("run-1", "garden", 7, [said], True)
    assert joined(lines) == ChatDelivery(
        run_id="run-1", group="garden", upto=7, is_follow_up=True, messages=(said,)
    )


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(TEXTS, st.integers(1, 40_000)), min_size=1, max_size=12))
def test_deliveries_of_any_size_arrive_whole(given_: list[tuple[str, int]]) -> None:
    """All messages in their order, however many lines they take."""
    said = [
        a_message(seq, (text * times)[:20_000]) for seq, (text, times) in enumerate(given_, start=1)
    ]
    lines = chat_messages.delivery_lines("run-1", "garden", len(said), said, False)
    assert joined(lines).messages == tuple(said)
    assert all(len(line) <= LINE_BYTES_MAX for line in lines)


def test_lines_are_as_long_as_any_agents_but_for_one_long_message() -> None:
    """Many messages are cut into lines of 256 KiB; a text that JSON makes six times longer fits."""
    many = [a_message(seq, "x" * 1000) for seq in range(1, 1001)]
    lines = chat_messages.delivery_lines("run-1", "garden", 1000, many, False)
    assert [json.loads(line)["more"] for line in lines] == [True] * (len(lines) - 1) + [False]
    assert len(lines) <= 5
    assert max(map(len, lines)) <= LINE_BYTES_MAX
    worst = a_message(2, "\0" * chat_messages.TEXT_BYTES_MAX, id="\U0010ffff" * 200)
    lines = chat_messages.delivery_lines("run-1", "g" * 200, 3, [many[0], worst, many[2]], False)
    assert [len(json.loads(line)["messages"]) for line in lines] == [1, 1, 1]
    assert LINE_BYTES_MAX < max(map(len, lines)) <= chat_messages.LINE_BYTES_MAX
    assert joined(lines).messages == (many[0], worst, many[2])


def test_texts_have_one_limit() -> None:
    """What the dispatcher takes from people, and from agents, fits into a line."""
    assert chat_messages.TEXT_BYTES_MAX == models.TEXT_BYTES_MAX
    longest = chat_messages.output("\0" * models.TEXT_BYTES_MAX, key="k" * 200)
    assert len(chat_messages.encode(longest)) <= chat_messages.LINE_BYTES_MAX


def test_a_delivery_of_nothing_is_refused() -> None:
    """There is nothing to answer."""
    with pytest.raises(MessageRefused):
        chat_messages.delivery_lines("run-1", "garden", 1, [], False)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (OversizedLine(2_000_000), MessageRefused),
        (b"{", InvalidJson),
        (chat_messages.encode(chat_messages.done(1)), MessageRefused),
        (chat_messages.encode(a_line(upto=2)), MessageRefused),
        (chat_messages.encode(a_line(group="other")), MessageRefused),
    ],
)
def test_what_breaks_a_delivery_ends_it(
    line: bytes | OversizedLine, problem: type[InvalidArgument]
) -> None:
    """A line that does not belong is refused, and nothing of that delivery is left for the next."""
    reader = DeliveryReader()
    assert reader.add(chat_messages.encode(a_line(more=True))) is None
    with pytest.raises(problem):
        reader.add(line)
    whole = reader.add(chat_messages.encode(a_line(a_message(5), upto=5)))
    assert whole is not None
    assert [each.seq for each in whole.messages] == [5]


def test_the_last_call_counts() -> None:
    """The triggering message is answered, not those after it; without a trigger, the last is."""
    said = [a_message(1), a_message(2), a_message(3, is_call=False)]
    assert last_trigger(said).seq == 2
    assert last_trigger([a_message(seq, is_call=False) for seq in (1, 2)]).seq == 2
