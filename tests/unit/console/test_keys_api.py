"""The key inspector: paste a body, see its canonical form and its key, and why another differs."""

import hashlib
import json
from typing import Any

import httpx
import pytest

from onceward.console import key_inspection
from onceward.console.keys_http import keys_router
from onceward.keys import idempotency_key
from tests.support.console_requests import Asking, error_of

PATH = "/api/console/keys/inspect"
COMMAND = {
    "kind": "command",
    "action": "implement",
    "task_id": "T-0042",
    "snapshot_id": "snap-abc123",
    "inputs": {"goal": "implement feature X"},
}
KEY = "ik:b8fcdfb6c6cc98ee3581a3884827c27501af9087d1f7d630559bffb7179cf924"


@pytest.fixture
def asking() -> Asking:
    return Asking(keys_router())


def inspected(asking: Asking, **body: Any) -> Any:
    response = asking.act(PATH, None, **body)
    assert response.status_code == 200, response.text
    return response.json()


def sent(asking: Asking, text: str | bytes) -> httpx.Response:
    return asking.ask("POST", PATH, content=text, headers={"content-type": "application/json"})


def test_a_command_shows_its_parts_and_its_key(asking: Asking) -> None:
    """The known answer, each part as canonical text, and nothing to compare with."""
    found = inspected(asking, **COMMAND)
    assert found["key"] == KEY
    canonical = {"inputs": '{"goal":"implement feature X"}', "expected_outputs": "[]"}
    assert found["canonical"] == canonical
    assert (found["lint"], found["explain"], found["other_key"]) == ([], None, None)
    assert found["as_of"].endswith("Z")


def test_what_looks_ephemeral_is_named(asking: Asking) -> None:
    """In the inputs and in the expected outputs, each with its place and why."""
    inputs = {"goal": "x", "meta": {"started_at": "2026-02-06T12:00:00Z"}}
    found = inspected(
        asking, **{**COMMAND, "inputs": inputs, "expected_outputs": [{"path": "/tmp/out"}]}
    )
    assert [each["path"] for each in found["lint"]] == [
        "inputs.meta.started_at",
        "expected_outputs[0].path",
    ]
    assert all(each["why"] for each in found["lint"])


def test_two_commands_are_compared_by_place(asking: Asking) -> None:
    """Which part, where in it, and what stands there on either side; order does not matter."""
    other = {
        "action": "review",
        "task_id": "T-0042",
        "snapshot_id": "snap-abc123",
        "inputs": {"goal": "implement feature X", "items": [1, {"price": 2}]},
    }
    found = inspected(asking, **COMMAND, other=other)
    assert found["other_key"] == idempotency_key(**other)  # type: ignore[arg-type]
    assert found["explain"] == {
        "same": False,
        "is_cut": False,
        "differences": [
            {"part": "action", "path": "action", "a": '"implement"', "b": '"review"'},
            {"part": "inputs", "path": "inputs.items", "a": None, "b": '[1,{"price":2}]'},
        ],
    }
    same = {name: COMMAND[name] for name in ("inputs", "snapshot_id", "task_id", "action")}
    found = inspected(asking, **COMMAND, other={**same, "expected_outputs": []})
    assert (found["explain"]["same"], found["other_key"]) == (True, KEY)


def test_long_differences_are_cut(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text beside another is not readable."""
    monkeypatch.setattr(key_inspection, "SIDE_CHARACTERS_MAX", 4)
    fields = {name: value for name, value in COMMAND.items() if name != "kind"}
    found = inspected(asking, **COMMAND, other={**fields, "task_id": "T-0042-and-more"})
    (difference,) = found["explain"]["differences"]
    assert difference["b"] == '"T-0…'


def test_any_value_has_a_canonical_form_and_a_digest(asking: Asking) -> None:
    """Keys sorted, numbers as ECMAScript writes them; null is a value."""
    found = inspected(asking, kind="json", value={"b": 1.0, "a": [True, None]})
    written = '{"a":[true,null],"b":1}'
    assert found["canonical"] == {"value": written}
    assert found["sha256"] == hashlib.sha256(written.encode()).hexdigest()
    assert found["key"] is None
    assert inspected(asking, kind="json", value=None)["canonical"] == {"value": "null"}


def test_pasted_text_is_read_as_keys_are(asking: Asking) -> None:
    """Big numbers are not changed on the way, and doubled names are not lost."""
    text = '{"goal": "implement feature X"}'
    fields = {name: value for name, value in COMMAND.items() if name != "inputs"}
    assert inspected(asking, **fields, inputs_text=text)["key"] == KEY
    found = inspected(asking, kind="json", value_text="9007199254740993")
    assert found["canonical"] == {"value": "9007199254740992"}
    doubled = asking.act(PATH, None, kind="json", value_text='{"a":1,"a":2}')
    assert error_of(doubled) == (400, "INVALID_JSON", "value_text")
    assert "'a' appears twice" in doubled.json()["error"]["message"]
    assert sent(asking, '{"kind":"json","value":{"a":1,"a":2}}').status_code == 400


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"kind": "other"}, None),
        ({"action": ""}, "action"),
        ({"action": None}, "action"),
        ({"action": 1}, "action"),
        ({"task_id": "a\nb"}, "task_id"),
        ({"inputs": None}, "inputs"),
        ({"inputs": [1]}, "inputs"),
        ({"inputs": {"a": 1}, "inputs_text": "{}"}, "inputs"),
        ({"inputs": None, "inputs_text": "{"}, "inputs_text"),
        ({"inputs": None, "inputs_text": "[]"}, "inputs"),
        ({"expected_outputs": {"a": 1}}, "expected_outputs"),
        ({"unknown": 1}, "unknown"),
        ({"other": {"action": "a"}}, "other.task_id"),
        (
            {"other": {"action": "", "task_id": "t", "snapshot_id": "s", "inputs": {}}},
            "other.action",
        ),
        ({"other": {"action": "a", "task_id": "t", "snapshot_id": "s"}}, "other.inputs"),
        (
            {"other": {"action": "a", "task_id": "t", "snapshot_id": "s", "inputs_text": "nope"}},
            "other.inputs_text",
        ),
    ],
)
def test_bad_input_names_the_field(
    asking: Asking, changed: dict[str, Any], field: str | None
) -> None:
    """Every refusal is a 400 that says what to correct."""
    status, code, named = error_of(asking.act(PATH, None, **{**COMMAND, **changed}))
    assert (status, code in ("INVALID_ARGUMENT", "INVALID_JSON")) == (400, True)
    if field is not None:
        assert (named or "").removeprefix("command.") == field


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (json.dumps({**COMMAND, "inputs": {"a": "\ud800"}}), "inputs.a"),
        (json.dumps({**COMMAND, "inputs": {"\ud800": 1}}), None),
        (json.dumps({**COMMAND, "action": "\ud800"}), "action"),
        (json.dumps({"kind": "json", "value": ["\ud800"]}), "value[0]"),
        ('{"kind":"json","value":NaN}', None),
        ('{"kind":"json","value":1e999}', None),
        ('{"kind":"json","value":' + "[" * 600 + "]" * 600 + "}", None),
        ('{"kind":"json","value":' + "[" * 100_000 + "]" * 100_000 + "}", None),
        ('{"kind":"json","value":' + "1" * 5_000 + "}", None),
        ('{"kind":"json"', None),
        ("[]", None),
        ("null", None),
        ("", None),
        (b"\xff", None),
    ],
)
def test_what_has_no_canonical_form_is_refused(
    asking: Asking, text: str | bytes, field: str | None
) -> None:
    """Half characters, endless nesting and numbers that are none are a 400, never a 500."""
    status, _, named = error_of(sent(asking, text))
    assert status == 400
    if field is not None:
        assert (named or "").removeprefix("command.").removeprefix("json.") == field
