"""Handler results: what a handler returns, and the event that each result becomes.

Defines the answers of each type of agent. Knows neither transport nor cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from onceward.errors import InvalidArgument

#: By agent type and status: the event, and whether it carries the status in its `status` field.
_EVENTS: Final[dict[tuple[str, str], tuple[str, bool]]] = {
    ("builder", "completed"): ("builder.completed", False),
    ("reviewer", "approved"): ("review.completed", True),
    ("reviewer", "changes_requested"): ("review.completed", True),
    ("spec_maintainer", "updated"): ("spec.updated", False),
    ("spec_maintainer", "no_changes_needed"): ("spec.no_changes_needed", False),
    ("spec_maintainer", "changes_requested"): ("spec.changes_requested", False),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class HandlerResult:
    """The result of a command."""

    #: completed, approved, changes_requested, updated or no_changes_needed.
    status: str
    #: Details for the orchestrator and the next agent; plain JSON.
    payload: Mapping[str, Any] = field(default_factory=dict)
    #: Paths of files that were created or changed, relative to the workspace.
    artifacts: Sequence[str] = ()
    #: Paths of all files that the result depends on, if known. Other runs reuse the result if the
    #: inputs contain the digest of each, as `{"path": …, "sha256": …}`.
    read: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Refuse a single path instead of a list of paths: it would be read as characters."""
        for name, value in (("artifacts", self.artifacts), ("read", self.read)):
            if isinstance(value, str):
                message = f"{name}: is one path, not a list of paths"
                fix = f'pass a list, such as {name}=["src/a.py"]'
                raise InvalidArgument(message, fix=fix, field=name)


def completed(
    *,
    tests: Literal["pass", "fail", "unchecked", "unchanged"] = "unchecked",
    allowed_failures: Sequence[str] = (),
    artifacts: Sequence[str] = (),
    payload: Mapping[str, Any] | None = None,
) -> HandlerResult:
    """Return a builder's answer; failing tests must each be in `allowed_failures`.

    Tests that did not run are `unchecked`; tests that pass without any change are `unchanged`.
    """
    ran: dict[str, Any] = {"status": tests}
    if allowed_failures:
        ran["allowed_failures"] = list(allowed_failures)
    return HandlerResult(
        status="completed", payload={**(payload or {}), "tests": ran}, artifacts=artifacts
    )


def approved(
    *,
    artifacts: Sequence[str] = (),
    payload: Mapping[str, Any] | None = None,
    read: Sequence[str] | None = None,
) -> HandlerResult:
    """Return a reviewer's approval."""
    return HandlerResult(status="approved", payload=payload or {}, artifacts=artifacts, read=read)


def changes_requested(
    comments: Sequence[Any],
    *,
    artifacts: Sequence[str] = (),
    payload: Mapping[str, Any] | None = None,
    read: Sequence[str] | None = None,
) -> HandlerResult:
    """Return a reviewer's or spec maintainer's change requests: texts, or JSON objects."""
    listed = [comments] if isinstance(comments, str) else list(comments)
    return HandlerResult(
        status="changes_requested",
        payload={**(payload or {}), "comments": listed},
        artifacts=artifacts,
        read=read,
    )


def spec_updated(
    *, artifacts: Sequence[str] = (), payload: Mapping[str, Any] | None = None
) -> HandlerResult:
    """Return a spec maintainer's answer after changing the spec."""
    return HandlerResult(status="updated", payload=payload or {}, artifacts=artifacts)


def no_changes_needed(*, payload: Mapping[str, Any] | None = None) -> HandlerResult:
    """Return a spec maintainer's answer if the spec needs no change."""
    return HandlerResult(status="no_changes_needed", payload=payload or {})


def event_of(agent_type: str, result: HandlerResult) -> tuple[str, str | None]:
    """Return the event for this result, and the event's status if it has one."""
    found = _EVENTS.get((agent_type, result.status))
    if found is None:
        can = [status for each, status in _EVENTS if each == agent_type]
        words = " or ".join(can)
        message = f"status: a {agent_type} cannot answer {result.status!r:.60}, only {words}"
        raise InvalidArgument(message, fix="return a result with such a status", field="status")
    event, has_status = found
    return event, result.status if has_status else None


def is_success(event: str, payload: Mapping[str, Any]) -> bool:
    """Return whether an answer may be cached: no error and no disallowed test failure."""
    if event == "builder.completed":
        tests = payload["tests"]
        return tests["status"] != "fail" or bool(tests.get("allowed_failures"))
    return event != "error"
