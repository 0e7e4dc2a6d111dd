"""Messages: what is sent and received has the shape of the shipped schemas, or is refused."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.agents import protocol
from onceward.agents.line_reader import LINE_BYTES_MAX
from onceward.errors import InvalidArgument, InvalidJson, MessageRefused, NotCanonical
from tests.support.agent_messages import (
    AT,
    a_command,
    a_heartbeat,
    a_log,
    an_event,
    check_refused,
    check_wire,
)

ALL = {
    "command": a_command(
        expected_outputs=[{"path": "a.txt", "description": "it", "required": True}], agent_id="b1"
    ),
    "event": an_event(
        artifacts=[{"path": "a.txt", "sha256": "0" * 64, "size": 3}],
        snapshot_id="snap-1",
        agent_id="b1",
    ),
    "heartbeat": a_heartbeat(task_id="T-1", agent_id="b1"),
    "log": a_log(fields={"n": 1}),
}
#: Of every kind, the fields that may be left out.
OPTIONAL = {
    "command": set(),
    "event": {"status", "artifacts", "observed_version"},
    "heartbeat": {"task_id"},
    "log": {"fields"},
}


@pytest.mark.parametrize("kind", protocol.KINDS)
def test_messages_survive_the_wire(kind: str) -> None:
    """What is encoded is one line, and decodes to the same message."""
    check_wire(protocol, ALL[kind])


@pytest.mark.parametrize("kind", protocol.KINDS)
def test_every_listed_field_is_required(kind: str) -> None:
    """Without one of its fields a message is refused, unless the field may be left out."""
    for name in ALL[kind]:
        less = {each: value for each, value in ALL[kind].items() if each != name}
        if name in OPTIONAL[kind]:
            protocol.check(less)
        else:
            with pytest.raises(MessageRefused):
                protocol.check(less)


@pytest.mark.parametrize("kind", protocol.KINDS)
def test_unknown_fields_are_refused(kind: str) -> None:
    """A field that the protocol does not list is a mistake, and is named."""
    with pytest.raises(MessageRefused, match="surprise"):
        protocol.check({**ALL[kind], "surprise": 1})


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        (a_command() | {"idempotency_key": "ik:abc"}, "command.idempotency_key"),
        (a_command() | {"inputs": []}, "command.inputs"),
        (a_command() | {"to": {"agent_type": "painter"}}, "command.to.agent_type"),
        (a_command() | {"to": {"agent_type": "builder", "x": 1}}, "command.to"),
        (a_command() | {"expected_outputs": [{"path": "a"}]}, "command.expected_outputs[0]"),
        (a_command() | {"retry": {"attempt": 0, "max_attempts": 3}}, "command.retry.attempt"),
        (a_command() | {"deadline": "tomorrow"}, "command.deadline"),
        (a_command() | {"task_id": "T\n1"}, "command.task_id"),
        (a_command() | {"action": "Implement it"}, "command.action"),
        (an_event(event="builder.done"), "event.event"),
        (an_event(payload={}), "event.payload"),
        (an_event(payload={"tests": {"status": "green"}}), "event.payload.tests.status"),
        (an_event(event="review.completed", payload={}), "event"),
        (an_event(event="review.completed", status="maybe", payload={}), "event.status"),
        (an_event(event="artifact.produced", payload={}), "event"),
        (an_event(event="error", payload={"code": "X", "message": "m"}), "event.payload"),
        (
            an_event(event="error", payload={"code": "x y", "message": "m", "retryable": True}),
            "event.payload.code",
        ),
        (
            an_event(artifacts=[{"path": "a", "sha256": "0", "size": 1}]),
            "event.artifacts[0].sha256",
        ),
        (
            an_event(artifacts=[{"path": "a", "sha256": "0" * 64, "size": -1}]),
            "event.artifacts[0].size",
        ),
        (a_heartbeat(status="bored"), "heartbeat.status"),
        (a_log(level="fatal"), "log.level"),
    ],
)
def test_a_wrong_place_is_named(changed: dict[str, Any], path: str) -> None:
    """A refusal says where in the message it is wrong, when it is sent and when it is received."""
    check_refused(protocol, changed, path)


def test_a_refusal_does_not_show_the_value() -> None:
    """What is wrong may be a secret, so the refusal names the place only."""
    with pytest.raises(MessageRefused) as caught:
        protocol.check(a_log() | {"level": "hunter2hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b'{"kind":"log"', b"\xff\xfe", b"NaN", b'{"kind":1,"kind":2}', b"[" * 100000],
)
def test_what_is_no_json_is_refused(line: bytes) -> None:
    """Broken text, bytes that are no text and nesting without end are InvalidJson."""
    with pytest.raises(InvalidJson):
        protocol.decode(line)


@pytest.mark.parametrize("line", [b"[]", b"1", b"null", b"{}", b'{"kind":"x"}', b'{"kind":[]}'])
def test_json_that_is_no_message_is_refused(line: bytes) -> None:
    """JSON of another shape is MessageRefused."""
    with pytest.raises(MessageRefused):
        protocol.decode(line)


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def test_what_agents_say_has_a_limit_of_depth() -> None:
    """A message of exactly the limit passes, and one level more is refused on both sides."""
    full = a_log(fields={"x": nested(protocol.DEPTH_MAX - 2)})
    assert protocol.decode(protocol.encode(full)) == full
    for deep in (protocol.DEPTH_MAX - 1, 480, 900):
        message = a_log(fields={"x": nested(deep)})
        with pytest.raises(MessageRefused, match="deeper than 100"):
            protocol.decode(json.dumps(message).encode())
        with pytest.raises(MessageRefused, match="deeper than 100"):
            protocol.encode(message)
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(MessageRefused, match="deeper than 100"):
        protocol.encode(a_log(fields={"x": circle}))


def test_commands_may_hold_what_agents_said() -> None:
    """An answer of the greatest depth fits into the inputs of the next command."""
    command = a_command(inputs={"goal": "x", "before": nested(protocol.DEPTH_MAX)})
    assert protocol.decode(protocol.encode(command)) == command


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (an_event(payload={"tests": {"status": "pass"}, "\ud800": 1}), 'event.payload["\\ud800"]'),
        (an_event(payload={"tests": {"status": "pass"}, "x": "\ud800"}), "event.payload.x"),
        (a_log("\ud800"), "log.message"),
        (a_command() | {"inputs": {"goal": "\ud800"}}, "command.inputs.goal"),
    ],
)
def test_text_that_cannot_be_written_is_refused(message: dict[str, Any], path: str) -> None:
    """Half of a surrogate pair is rejected on receipt, before it is recorded."""
    with pytest.raises(MessageRefused) as caught:
        protocol.decode(json.dumps(message).encode())
    assert caught.value.path == path
    assert caught.value.message.isascii()


def test_lines_have_a_limit() -> None:
    """A line of exactly the limit passes, and one byte more is refused on both sides."""
    spare = LINE_BYTES_MAX - len(protocol.encode(a_log("")))
    full = protocol.encode(a_log("x" * spare))
    assert len(full) == LINE_BYTES_MAX
    assert protocol.decode(full)["kind"] == "log"
    with pytest.raises(MessageRefused, match="at most 262144"):
        protocol.encode(a_log("x" * (spare + 1)))
    with pytest.raises(MessageRefused, match="at most 262144"):
        protocol.decode(full + b" ")


def test_values_that_json_does_not_have_are_refused() -> None:
    """A set, a NaN or an unpaired surrogate inside a payload does not go out."""
    for value in ({1}, float("nan"), "\ud800", b"bytes"):
        with pytest.raises((MessageRefused, NotCanonical)):
            protocol.encode(a_log(fields={"value": value}))


def test_a_command_carries_the_key_of_its_work() -> None:
    """The key is the one that every implementation computes from the same work."""
    known = "ik:b8fcdfb6c6cc98ee3581a3884827c27501af9087d1f7d630559bffb7179cf924"
    assert a_command()["idempotency_key"] == known
    assert a_command(message_id="other", deadline="2027" + AT[4:])["idempotency_key"] == known


def test_schemas_are_shipped() -> None:
    """Each kind has a JSON Schema that is closed, and another kind has none."""
    for kind in protocol.KINDS:
        schema = json.loads(protocol.schema(kind))
        assert schema["additionalProperties"] is False
        assert schema["properties"]["kind"] == {"const": kind}
    with pytest.raises(InvalidArgument):
        protocol.schema("../log")


def test_two_events_do_not_end_a_command() -> None:
    """Progress and artifacts on the way are passing; everything else ends the command."""
    names = json.loads(protocol.schema("event"))["properties"]["event"]["enum"]
    passing = {name for name in names if not protocol.is_terminal({"event": name})}
    assert passing == {"builder.progress", "artifact.produced"}


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_line_breaks_the_reader(line: bytes) -> None:
    """Whatever comes is a message or a refusal, never another exception."""
    with contextlib.suppress(InvalidArgument):
        protocol.decode(line)
