"""Stable keys: refusals, and time that does not explode."""

import time
from typing import Any

import pytest

from onceward import keys
from onceward.errors import InvalidArgument


@pytest.mark.parametrize(
    ("function", "arguments", "field"),
    [
        ("error_key", {"message": 7}, "message"),
        ("error_key", {"message": "   "}, "message"),
        ("error_key", {"message": "abc1234 550e8400-e29b-41d4-a716-446655440000"}, "message"),
        ("warning_key", {"message": "\ud800"}, "message"),
        ("run_key", {"started_at": "yesterday", "fingerprint": "x"}, "started_at"),
        ("run_key", {"started_at": "2026-02-06T12:00:00Z", "fingerprint": ""}, "fingerprint"),
        ("fp8", {"cmd": "x", "cwd": "", "exit_code": "0"}, "exit_code"),
        ("fp8", {"cmd": "x", "cwd": "", "exit_code": True}, "exit_code"),
        ("fp8", {"cmd": None, "cwd": "", "exit_code": 0}, "cmd"),
        ("dependency_key", {"name": ""}, "name"),
        ("file_key", {"path": ""}, "path"),
        ("doc_key", {"url": None}, "url"),
        ("fix_key", {"issue": "", "strategy": "s", "changes": []}, "issue"),
    ],
)
def test_bad_parts_are_refused_by_name(
    function: str, arguments: dict[str, Any], field: str
) -> None:
    """A part that is no text, or nothing, is an error that names it."""
    with pytest.raises(InvalidArgument, match=f"^{field}: ") as refused:
        getattr(keys, function)(**arguments)

    assert refused.value.fix


def test_the_same_problem_seen_twice_has_one_key() -> None:
    """Two sightings that differ in time, place, commit and version are the same problem."""
    first = "2026-02-06T12:00:00Z build abc1234 of v1.2.3 failed in /home/a/x.py:10:2"
    second = "2026-03-01T08:30:00Z build def5678 of v1.3.0 failed in /srv/ci/x.py:99:1"
    assert keys.error_key(first) == keys.error_key(second)


def test_envelope_fingerprint_ignores_nothing_but_time() -> None:
    """Every part of an observation but its time makes it another observation."""
    base = {"type": "doc.note", "mode": "m", "repo": "r", "branch": "b", "data": {"a": 1}}
    known = keys.envelope_fingerprint(**base)  # type: ignore[arg-type]
    for part, other in [("type", "x"), ("mode", None), ("repo", "x"), ("branch", "x"), ("data", 1)]:
        assert keys.envelope_fingerprint(**{**base, part: other}) != known  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "unit", ["1.2.3", "a", "/", "1", ".", ":1", "deadbeef1", "1.2.3aaa_", "0x", "-", "c:\\", "a://"]
)
def test_normalising_takes_linear_time(unit: str) -> None:
    """No repetition makes the patterns run away."""
    began = time.process_time()
    keys.normalize_message(unit * 20_000)
    assert time.process_time() - began < 20
