"""Protocol: the messages between orchestrator and agents, one JSON object per line.

Validates every message, sent or received, against the shipped JSON Schemas, and encodes and decodes
lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

from jsonschema_rs import Draft202012Validator

from onceward.agents.line_reader import LINE_BYTES_MAX
from onceward.errors import InvalidArgument, MessageRefused, NotCanonical, OncewardError
from onceward.keys.canonical import compact_json, join_path, loads
from onceward.keys.command import idempotency_key

Message = dict[str, Any]

AGENT_TYPES: Final = ("builder", "reviewer", "spec_maintainer")
KINDS: Final = ("command", "event", "heartbeat", "log")
#: The messages between a dispatcher and a chat agent; see `chat_messages.py`.
CHAT_KINDS: Final = ("message", "output", "done", "error", "heartbeat", "log")
#: Events that do not end a command; every other event does.
PROGRESS_EVENTS: Final = frozenset({"builder.progress", "artifact.produced"})

#: Maximum nesting of messages from agents. Commands may be deeper: they embed agents' answers.
DEPTH_MAX: Final = 100

_SHOWN_CHARACTERS: Final = 200
#: The fix for a message that is too long or nested too deeply.
SEND_LESS: Final = "send less: write large content to a file, and send its path"


def encode(
    message: Mapping[str, Any],
    *,
    line_bytes_max: int = LINE_BYTES_MAX,
    kinds: Sequence[str] = KINDS,
) -> bytes:
    """Return the message as one line; raise MessageRefused if it violates schema or size."""
    check(message, kinds=kinds)
    line = compact_json(message, root=str(message["kind"])) + b"\n"
    if len(line) > line_bytes_max:
        problem = f"takes {len(line)} bytes, and a line has at most {line_bytes_max}"
        raise MessageRefused(str(message["kind"]), problem, fix=SEND_LESS)
    return line


def decode(
    line: bytes, *, line_bytes_max: int = LINE_BYTES_MAX, kinds: Sequence[str] = KINDS
) -> Message:
    """Return the message of a line; raise MessageRefused or InvalidJson.

    A returned message can be encoded again: JSON that cannot, such as lone surrogates, is refused.
    """
    if len(line) > line_bytes_max:
        problem = f"has {len(line)} bytes; at most {line_bytes_max} are allowed"
        raise MessageRefused(path="line", problem=problem, fix=SEND_LESS)
    message = loads(line)
    if not isinstance(message, dict):
        raise MessageRefused(
            path="line", problem="is JSON, but not an object", fix="send one object per line"
        )
    check(message, kinds=kinds)
    try:
        compact_json(message, root=str(message["kind"]))
    except NotCanonical as exc:
        problem = exc.message.removeprefix(f"{exc.path}: ")
        raise MessageRefused(_truncated(exc.path), problem, fix=exc.fix) from exc
    return message


def check(message: Mapping[str, Any], *, kinds: Sequence[str] = KINDS) -> Message:
    """Return the message if it matches the schema of its kind; raise MessageRefused otherwise."""
    kind = message.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        fix = f"set kind to one of {', '.join(kinds)}"
        raise MessageRefused(path="kind", problem="is missing or unknown", fix=fix)
    plain = message if isinstance(message, dict) else dict(message)
    if kind != "command" and _is_too_deep(plain):
        problem = f"is nested deeper than {DEPTH_MAX} levels"
        raise MessageRefused(kind, problem, fix=SEND_LESS)
    try:
        wrong = next(_validator(kind).iter_errors(plain), None)
    except ValueError as exc:  # Values that are not JSON, such as bytes or a set.
        raise MessageRefused(kind, _truncated(str(exc)), fix="send JSON values only") from exc
    if wrong is not None:
        path = kind
        for step in wrong.instance_path:
            path = join_path(path, step)
        fix = f"follow agents/schemas/{kind}.json of the Python package onceward"
        raise MessageRefused(path, _truncated(wrong.message), fix=fix)
    return plain


def schema(kind: str) -> str:
    """Return the shipped JSON Schema of a kind of message."""
    known = dict.fromkeys((*KINDS, *CHAT_KINDS))
    if kind not in known:
        message = f"kind: {kind!r:.60} is not a kind of message, so it has no schema"
        raise InvalidArgument(message, fix=f"pass one of {', '.join(known)}", field="kind")
    file = resources.files("onceward.agents") / "schemas" / f"{kind}.json"
    return file.read_text(encoding="utf-8")


def message_and_fix(error: OncewardError) -> str:
    """Return an error in one text, since messages between processes have no field for its fix."""
    return f"{error.message} (fix: {error.fix})" if error.fix else error.message


def is_terminal(event: Mapping[str, Any]) -> bool:
    """Return whether this event ends its command."""
    return event["event"] not in PROGRESS_EVENTS


def _is_container(value: object) -> bool:
    return isinstance(value, (Mapping, list, tuple))


def _is_too_deep(message: Message) -> bool:
    """Return whether a message is nested too deeply or is circular. Depth first, not recursive."""
    stack: list[tuple[object, int]] = [(message, 1)]
    while stack:
        value, depth = stack.pop()
        if depth > DEPTH_MAX:
            return True
        if isinstance(value, Mapping):
            stack += [(each, depth + 1) for each in value.values() if _is_container(each)]
        elif isinstance(value, (list, tuple)):
            stack += [(each, depth + 1) for each in value if _is_container(each)]
    return False


@cache
def _validator(kind: str) -> Draft202012Validator:
    # Masked, because an error message with the value could contain secrets.
    return Draft202012Validator(schema(kind), mask="the value")


def _truncated(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


# --- constructors; None fields are omitted -------------------------------------------------------


def command(  # noqa: PLR0913 - a command has that many fields
    *,
    message_id: str,
    correlation_id: str,
    task_id: str,
    agent_type: str,
    action: str,
    inputs: Mapping[str, Any],
    snapshot_id: str,
    deadline: str,
    expected_outputs: Sequence[Mapping[str, Any]] = (),
    attempt: int = 1,
    max_attempts: int = 3,
    priority: int = 5,
    agent_id: str | None = None,
    context: Mapping[str, Any] | None = None,
) -> Message:
    """Return a command with its idempotency key; `context` is not part of the key."""
    key = idempotency_key(
        action=action,
        task_id=task_id,
        snapshot_id=snapshot_id,
        inputs=inputs,
        expected_outputs=expected_outputs,
    )
    return {
        "kind": "command",
        "message_id": message_id,
        "correlation_id": correlation_id,
        "task_id": task_id,
        "idempotency_key": key,
        "to": agent(agent_type, agent_id),
        "action": action,
        "inputs": dict(inputs),
        "expected_outputs": [dict(each) for each in expected_outputs],
        "version": {"snapshot_id": snapshot_id},
        "deadline": deadline,
        "retry": {"attempt": attempt, "max_attempts": max_attempts},
        "priority": priority,
        **({"context": dict(context)} if context else {}),
    }


def event(  # noqa: PLR0913 - an event has that many fields
    *,
    message_id: str,
    correlation_id: str,
    task_id: str,
    agent_type: str,
    event: str,
    payload: Mapping[str, Any],
    occurred_at: str,
    status: str | None = None,
    artifacts: Sequence[Mapping[str, Any]] | None = None,
    snapshot_id: str | None = None,
    agent_id: str | None = None,
) -> Message:
    """Return an event."""
    return _without_none(
        kind="event",
        message_id=message_id,
        correlation_id=correlation_id,
        task_id=task_id,
        **{"from": agent(agent_type, agent_id)},
        event=event,
        status=status,
        payload=dict(payload),
        artifacts=None if artifacts is None else [dict(each) for each in artifacts],
        observed_version=None if snapshot_id is None else {"snapshot_id": snapshot_id},
        occurred_at=occurred_at,
    )


def heartbeat(  # noqa: PLR0913 - a heartbeat has that many fields
    *,
    agent_type: str,
    seq: int,
    status: str,
    pid: int,
    uptime_s: float,
    last_activity_at: str,
    task_id: str | None = None,
    agent_id: str | None = None,
) -> Message:
    """Return a heartbeat."""
    return _without_none(
        kind="heartbeat",
        agent=agent(agent_type, agent_id),
        seq=seq,
        status=status,
        pid=pid,
        uptime_s=uptime_s,
        last_activity_at=last_activity_at,
        task_id=task_id,
    )


def log(
    *, level: str, message: str, timestamp: str, fields: Mapping[str, Any] | None = None
) -> Message:
    """Return a log message."""
    return _without_none(
        kind="log",
        level=level,
        message=message,
        fields=None if fields is None else dict(fields),
        timestamp=timestamp,
    )


def agent(agent_type: str, agent_id: str | None = None) -> Message:
    """Return the fields that identify an agent in a message."""
    return _without_none(agent_type=agent_type, agent_id=agent_id)


def _without_none(**fields: object) -> Message:
    return {name: value for name, value in fields.items() if value is not None}
