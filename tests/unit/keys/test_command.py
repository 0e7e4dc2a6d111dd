"""Command keys, what they are made of, and what explain and lint say about them."""

import string
from typing import Any

import pytest

from onceward.errors import InvalidArgument, NotCanonical
from onceward.keys import CommandContent, explain, idempotency_key, lint

BASE: dict[str, Any] = {
    "action": "implement",
    "task_id": "T-0042",
    "snapshot_id": "snap-d0ab7e60b764",
    "inputs": {"goal": "A", "items": [{"price": 1}, {"price": 2}]},
    "expected_outputs": [{"path": "src/main.py", "required": True}],
}


def test_key_form() -> None:
    """A key is `ik:` and 64 hexadecimal digits."""
    key = idempotency_key(**BASE)
    assert key.startswith("ik:")
    assert len(key) == 67
    assert set(key[3:]) <= set(string.hexdigits.lower())


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("action", "review"),
        ("task_id", "T-0043"),
        ("snapshot_id", "snap-d0ab7e60b765"),
        ("inputs", {"goal": "B"}),
        ("expected_outputs", []),
    ],
)
def test_every_part_changes_the_key_and_explain_names_it(part: str, other: Any) -> None:
    """Different work in any part has another key, and the explanation starts with that part."""
    changed = {**BASE, part: other}
    found = explain(BASE, changed)
    assert idempotency_key(**BASE) != idempotency_key(**changed)
    assert not found.same
    assert {difference.component for difference in found.differences} == {part}


def test_ephemeral_fields_do_not_change_the_key() -> None:
    """Message ids, deadlines and priorities are not part of the work."""
    noise = {"message_id": "msg-002", "correlation_id": "c", "deadline": "T+20min", "priority": 9}
    found = explain(BASE, {**BASE, **noise})
    assert found.same
    assert found.differences == ()


def test_explain_names_the_nested_path() -> None:
    """One changed number deep inside the inputs is named where it stands."""
    changed = {**BASE, "inputs": {"goal": "A", "items": [{"price": 1}, {"price": 3}]}}
    (difference,) = explain(BASE, changed).differences
    assert difference.path == "inputs.items[1].price"
    assert (difference.left, difference.right) == ("2", "3")


def test_explain_distinguishes_absent_from_null_and_true_from_one() -> None:
    """What looks alike in Python but differs in JSON is a difference."""
    left = {**BASE, "inputs": {"a": None, "b": True, "c": 1}}
    right = {**BASE, "inputs": {"b": 1, "c": 1.0}}
    found = explain(left, right).differences
    assert [(each.path, each.left, each.right) for each in found] == [
        ("inputs.a", "null", None),
        ("inputs.b", "true", "1"),
    ]


def test_explain_is_bounded() -> None:
    """A thousand differences are cut, and the explanation says so."""
    found = explain(
        {**BASE, "inputs": {str(number): 0 for number in range(1000)}}, {**BASE, "inputs": {}}
    )
    assert found.truncated
    assert len(found.differences) == 100


@pytest.mark.parametrize(
    ("part", "value", "problem"),
    [
        ("action", "", "action: must be non-empty text"),
        ("action", "a\nb", "action: must not contain a newline"),
        ("task_id", 42, "task_id: must be non-empty text"),
        ("snapshot_id", "\ud800", "snapshot_id: contains an unpaired surrogate"),
        ("inputs", [], "inputs: must be a JSON object"),
        ("inputs", None, "inputs: must be a JSON object"),
        ("expected_outputs", "src/main.py", "expected_outputs: must be a JSON array"),
        ("expected_outputs", {}, "expected_outputs: must be a JSON array"),
    ],
)
def test_bad_parts_are_refused_by_name(part: str, value: Any, problem: str) -> None:
    """A malformed part is an error that names the part and the fix."""
    with pytest.raises(InvalidArgument, match=problem) as refused:
        idempotency_key(**{**BASE, part: value})

    assert refused.value.fix


def test_values_inside_are_refused_by_path() -> None:
    """A value without canonical form is named below the part that holds it."""
    with pytest.raises(NotCanonical, match=r"^inputs\.items\[0\]\.at: "):
        idempotency_key(**{**BASE, "inputs": {"items": [{"at": {1, 2}}]}})


def test_a_command_without_a_part_is_refused() -> None:
    """A command message must hold every part but the expected outputs."""
    with pytest.raises(InvalidArgument, match="snapshot_id: is missing"):
        CommandContent.from_mapping({"action": "a", "task_id": "t", "inputs": {}})
    assert CommandContent.from_mapping({**BASE, "expected_outputs": None}).expected_outputs == []


@pytest.mark.parametrize(
    ("inputs", "path"),
    [
        ({"started_at": "x"}, "inputs.started_at"),
        ({"meta": {"startedAt": 1}}, "inputs.meta.startedAt"),
        ({"request_id": "r"}, "inputs.request_id"),
        ({"nonce": 7}, "inputs.nonce"),
        ({"pid": 4711}, "inputs.pid"),
        ({"list": ["2026-02-06T12:00:00Z"]}, "inputs.list[0]"),
        ({"x": "run 550e8400-e29b-41d4-a716-446655440000"}, "inputs.x"),
        ({"out": "/tmp/build-7"}, "inputs.out"),
        ({"t": 1_770_000_000}, "inputs.t"),
        ({"t": 1_770_000_000_123}, "inputs.t"),
        ({"t": 1_770_000_000.5}, "inputs.t"),
    ],
)
def test_lint_warns_about_ephemeral_inputs(inputs: Any, path: str) -> None:
    """What changes between two attempts is found by name or by value."""
    assert [finding.path for finding in lint(inputs)] == [path]


@pytest.mark.parametrize(
    "inputs",
    [
        {"goal": "implement X", "spec_version": "v1.2.3", "round": 2, "previous": "ab" * 32},
        {"snapshot": "snap-d0ab7e60b764", "temperature": 0.7, "max_tokens": 4096, "seed": 42},
        {"path": "src/tmp/file.py", "ids": [1, 2, 3], "started_at": None, "timeout_seconds": 60},
        {"nan": float("nan"), "inf": float("inf")},
    ],
)
def test_lint_leaves_deterministic_inputs_alone(inputs: Any) -> None:
    """Ordinary inputs give no warning."""
    assert lint(inputs) == []


def test_lint_survives_endless_inputs() -> None:
    """A value that holds itself is looked at once."""
    loop: dict[str, Any] = {"nonce": 1}
    loop["self"] = loop
    assert [finding.path for finding in lint(loop)] == ["inputs.nonce"]
