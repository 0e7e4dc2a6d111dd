"""The golden vectors: a key that changes for the same work breaks everyone who stored it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from onceward import keys

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text())


def test_vectors_are_of_these_rules() -> None:
    """A change of a rule changes the rules' version and these vectors together."""
    assert VECTORS["rules_version"] == keys.RULES_VERSION


@pytest.mark.parametrize("vector", VECTORS["canonical"])
def test_canonical(vector: dict[str, str]) -> None:
    """Known JSON has its known canonical form."""
    assert keys.canonical_json(keys.loads(vector["json"])).decode() == vector["canonical"]


@pytest.mark.parametrize("vector", VECTORS["idempotency_key"])
def test_idempotency_key(vector: dict[str, Any]) -> None:
    """Known work has its known key."""
    given = {name: part for name, part in vector.items() if name != "key"}
    assert keys.idempotency_key(**given) == vector["key"]
    assert keys.CommandContent.from_mapping(given).key == vector["key"]


def test_normalize_message() -> None:
    """A message loses what differs between sightings, and no more."""
    for vector in VECTORS["normalize_message"]:
        assert keys.normalize_message(vector["message"]) == vector["normalized"]


def test_stable_key() -> None:
    """A known thing has its known name."""
    for vector in VECTORS["stable"]:
        assert getattr(keys, vector["function"])(**vector["arguments"]) == vector["result"]


def test_known_answers() -> None:
    """The two answers that every implementation of command keys must give."""
    first = keys.idempotency_key(
        action="implement",
        task_id="T-0042",
        snapshot_id="snap-abc123",
        inputs={"goal": "implement feature X"},
        expected_outputs=[],
    )
    second = keys.idempotency_key(
        action="review", task_id="T-0042", snapshot_id="snap-test123", inputs={"goal": "test goal"}
    )
    assert first == "ik:b8fcdfb6c6cc98ee3581a3884827c27501af9087d1f7d630559bffb7179cf924"
    assert second == "ik:a1ad6c69202c31c94f7afebf57c1dd2058181d4b66be7a724052a5e0854ea5e1"


def test_fp8_is_the_hash_of_the_five_parts() -> None:
    """Other programs can recompute a fingerprint from the written rule."""
    head = ("é" * 5000).encode()[:8192]  # 8192 is even, so no character is cut
    expected = hashlib.sha256(b"x|/repo|-9|" + head + b"|").hexdigest()[:8]
    found = keys.fp8(cmd="x", cwd="/repo", exit_code=-9, stdout="é" * 5000)
    assert found == expected


def test_heads_are_cut_between_characters() -> None:
    """A character that straddles 8 KiB is left out whole."""
    assert keys.fp8(cmd="", cwd="", exit_code=0, stdout="a" + "é" * 5000) == keys.fp8(
        cmd="", cwd="", exit_code=0, stdout="a" + "é" * 4095
    )
