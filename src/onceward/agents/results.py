"""Results: what a handler returns, and which event that is from which agent.

Owns the answers an agent can give. Knows neither how they travel nor how they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from onceward.errors import InvalidArgument

#: Which event a status is, from which agent, and whether the event carries it as its `status`.
_EVENTS: Final[dict[tuple[str, str], tuple[str, bool]]] = {
    ("builder", "completed"): ("builder.completed", False),
    ("reviewer", "approved"): ("review.completed", True),
    ("reviewer", "changes_requested"): ("review.completed", True),
    ("spec_maintainer", "updated"): ("spec.updated", False),
    ("spec_maintainer", "no_changes_needed"): ("spec.no_changes_needed", False),
    ("spec_maintainer", "changes_requested"): ("spec.changes_requested", False),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What came of a command."""

    #: completed, approved, changes_requested, updated or no_changes_needed.
    status: str
    #: What the orchestrator, and the next agent, may want to know; plain JSON.
    payload: Mapping[str, Any] = field(default_factory=dict)
    #: Paths of the files that were made or changed, relative to the workspace.
    artifacts: Sequence[str] = ()
    #: Paths of all files that the result depends on, if that is known. If the inputs carry the
    #: digest of each, as `{"path": …, "sha256": …}`, other runs reuse the result.
    read: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Refuse one path where a list of paths belongs: it would be a list of letters."""
        for name, value in (("artifacts", self.artifacts), ("read", self.read)):
            if isinstance(value, str):
                message = f"{name}: must be a list of paths"
                raise InvalidArgument(message, fix="put the path into a list", field=name)


def completed(
    *,
    tests: Literal["pass", "fail", "unchecked", "unchanged"] = "unchecked",
    allowed_failures: Sequence[str] = (),
    artifacts: Sequence[str] = (),
    payload: Mapping[str, Any] | None = None,
) -> Result:
    """Return a builder's answer; failing tests are fine if each is among `allowed_failures`.

    Tests that did not run are `unchecked`; those that pass without any change are `unchanged`.
    """
    ran: dict[str, Any] = {"status": tests}
    if allowed_failures:
        ran["allowed_failures"] = list(allowed_failures)
    return Result(
        status="completed", payload={**(payload or {}), "tests": ran}, artifacts=artifacts
    )


def approved(
    *,
    artifacts: Sequence[str] = (),
    payload: Mapping[str, Any] | None = None,
    read: Sequence[str] | None = None,
) -> Result:
    """Return a reviewer's yes."""
    return Result(status="approved", payload=payload or {}, artifacts=artifacts, read=read)


def changes_requested(
    comments: Sequence[Any],
    *,
    artifacts: Sequence[str] = (),
    payload: Mapping[str, Any] | None = None,
    read: Sequence[str] | None = None,
) -> Result:
    """Return a reviewer's, or a spec maintainer's, wishes: texts, or objects of your own."""
    listed = [comments] if isinstance(comments, str) else list(comments)
    return Result(
        status="changes_requested",
        payload={**(payload or {}), "comments": listed},
        artifacts=artifacts,
        read=read,
    )


def spec_updated(
    *, artifacts: Sequence[str] = (), payload: Mapping[str, Any] | None = None
) -> Result:
    """Return a spec maintainer's answer when the spec was changed."""
    return Result(status="updated", payload=payload or {}, artifacts=artifacts)


def no_changes_needed(*, payload: Mapping[str, Any] | None = None) -> Result:
    """Return a spec maintainer's answer when the spec is right as it is."""
    return Result(status="no_changes_needed", payload=payload or {})


def event_of(agent_type: str, result: Result) -> tuple[str, str | None]:
    """Return the event, and its status if it has one, that tells of this result."""
    found = _EVENTS.get((agent_type, result.status))
    if found is None:
        can = [status for each, status in _EVENTS if each == agent_type]
        message = f"status: a {agent_type} cannot answer {result.status!r}"
        raise InvalidArgument(message, fix=f"answer one of {', '.join(can)}", field="status")
    event, has_status = found
    return event, result.status if has_status else None


def is_success(event: str, payload: Mapping[str, Any]) -> bool:
    """Say whether an answer is worth keeping: neither an error nor tests that fail unexplained."""
    if event == "builder.completed":
        tests = payload["tests"]
        return tests["status"] != "fail" or bool(tests.get("allowed_failures"))
    return event != "error"
