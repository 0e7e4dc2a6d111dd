"""Messages as tests need them: whole, and different where a test says so."""

from typing import Any

from onceward.agents import messages

AT = "2026-01-01T00:00:00.000Z"


def a_command(**changes: Any) -> messages.Message:
    fields: dict[str, Any] = {
        "message_id": "msg_1",
        "correlation_id": "corr_1",
        "task_id": "T-0042",
        "agent_type": "builder",
        "action": "implement",
        "inputs": {"goal": "implement feature X"},
        "snapshot_id": "snap-abc123",
        "deadline": AT,
    }
    return messages.command(**{**fields, **changes})


def an_event(**changes: Any) -> messages.Message:
    fields: dict[str, Any] = {
        "message_id": "msg_2",
        "correlation_id": "corr_1",
        "task_id": "T-0042",
        "agent_type": "builder",
        "event": "builder.completed",
        "payload": {"tests": {"status": "pass"}},
        "occurred_at": AT,
    }
    return messages.event(**{**fields, **changes})


def a_heartbeat(**changes: Any) -> messages.Message:
    fields: dict[str, Any] = {
        "agent_type": "builder",
        "seq": 1,
        "status": "ready",
        "pid": 42,
        "uptime_s": 0.5,
        "last_activity_at": AT,
    }
    return messages.heartbeat(**{**fields, **changes})


def a_log(text: str = "hello", **changes: Any) -> messages.Message:
    return messages.log(**{"level": "info", "message": text, "timestamp": AT, **changes})
