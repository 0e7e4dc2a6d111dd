"""Envelopes: what is accepted, what is rejected with which error, and what never raises."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.errors import InvalidArgument
from onceward.keys import envelope_fingerprint
from onceward.memory import envelope
from onceward.memory.envelope import FIELDS
from onceward.system.redaction import Redactor

TS = "2026-02-06T12:00:00Z"
PLACE = {"mode": "debugger@2", "repo": "acme/shop", "branch": "main"}
ISSUE = {"normalizedKey": "boom", "kind": "KeyError", "message": "Boom", "detector": "pytest"}
#: One right fact of each kind, with everything it may hold.
WHOLE: dict[str, dict[str, Any]] = {
    "command.exec": {
        "cmd": "pytest -q",
        "cwd": "/src",
        "exitCode": -9,
        "durationMs": 1.5,
        "stdoutHead": "out",
        "stderrHead": "",
    },
    "error.capture": {**ISSUE, "context": {"file": "a.py"}},
    "warning.capture": {**ISSUE, "context": "while testing"},
    "fix.apply": {"strategy": "pin it", "changes": ["a.py", {"b": 1}], "result": "proposed"},
    "fix.outcome": {
        "fixId": "fix#err#boom#12345678",
        "status": "partially_effective",
        "verificationMethod": "pytest -q",
        "durationToVerify": 0,
        "sideEffects": [],
    },
    "doc.note": {
        "url": "https://example.org/a",
        "title": "A",
        "site": "example",
        "author": "Ada",
        "published_at": "2024",
        "accessed_at": "2026-02-06",
        "archive_url": "https://example.org/b",
        "excerpt": "x" * 500,
    },
    "run.summary": {"summary": "", "keyEvents": ["a"], "success": False, "durationMs": 3},
}
OPTIONAL = {
    "command.exec": {"cwd", "durationMs", "stdoutHead", "stderrHead"},
    "error.capture": {"context"},
    "warning.capture": {"context"},
    "doc.note": {"title", "site", "author", "published_at", "archive_url", "excerpt"},
}


def written(kind: str = "command.exec", data: Any = None, **more: Any) -> str:
    found = {"type": kind, "ts": TS, **PLACE, "data": WHOLE[kind] if data is None else data}
    return json.dumps({**found, **more})


def refused(content: str) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        envelope.check(content, "o[0]")
    assert caught.value.fix
    json.dumps(caught.value.to_dict()).encode()  # It can be sent to the caller.
    return caught.value


@pytest.mark.parametrize("kind", WHOLE)
def test_every_kind_is_taken_with_all_that_it_may_hold(kind: str) -> None:
    """The seven types are known, and a whole fact of each is right."""
    assert set(WHOLE) == envelope.KINDS == set(FIELDS)
    found = envelope.check(written(kind), "o[0]")
    assert (found.kind, found.ts, found.data) == (kind, TS, WHOLE[kind])
    assert envelope.parse(written(kind)) == found


EACH_FIELD = [(kind, name) for kind in WHOLE for name in WHOLE[kind]]


def test_what_is_required_must_be_there_and_the_rest_need_not() -> None:
    """A missing field is named, unless its kind can do without it."""
    for kind, name in EACH_FIELD:
        less = {key: value for key, value in WHOLE[kind].items() if key != name}
        if name in OPTIONAL.get(kind, ()):
            envelope.check(written(kind, less), "o[0]")
        else:
            assert refused(written(kind, less)).context["field"] == f"o[0].data.{name}"


def test_a_value_of_the_wrong_kind_is_refused_by_its_path() -> None:
    """Neither null nor a list of numbers is ever right."""
    for kind, name in EACH_FIELD:
        for wrong in (None, [1], True if name != "success" else 1):
            error = refused(written(kind, {**WHOLE[kind], name: wrong}))
            assert error.context["field"] == f"o[0].data.{name}"
            assert f"o[0].data.{name}: must be" in error.message


@pytest.mark.parametrize(
    ("kind", "name", "wrong"),
    [
        ("command.exec", "cmd", ""),
        ("command.exec", "exitCode", 1.5),
        ("command.exec", "durationMs", -1),
        ("command.exec", "stdoutHead", "é" * 4097),
        ("command.exec", "stderrHead", "x" * 8193),
        ("fix.apply", "result", "maybe"),
        ("fix.outcome", "status", "verified"),
        ("fix.outcome", "durationToVerify", "2m"),
        ("doc.note", "url", "example.org/a"),
        ("doc.note", "url", "https://example.org/a b"),
        ("doc.note", "accessed_at", "yesterday"),
        ("doc.note", "excerpt", "x" * 501),
        ("run.summary", "success", "yes"),
    ],
)
def test_values_outside_of_their_range_are_refused(kind: str, name: str, wrong: object) -> None:
    """What is allowed is said with the refusal."""
    error = refused(written(kind, {**WHOLE[kind], name: wrong}))
    assert error.context["field"] == f"o[0].data.{name}"


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("", "o[0]"),
        ("just text", "o[0]"),
        ("[1]", "o[0]"),
        ("{", "o[0]"),
        ("{} {}", "o[0]"),
        ("{}", "o[0].type"),
        (written(type="error"), "o[0].type"),
        (written(type=["command.exec"]), "o[0].type"),
        (written(ts=None), "o[0].ts"),
        (written(ts="now"), "o[0].ts"),
        (written(ts="2026-02-06"), "o[0].ts"),
        (written(mode=None), "o[0].mode"),
        (written(repo=1), "o[0].repo"),
        (written(branch=[]), "o[0].branch"),
        (written(note="x"), "o[0]"),
        (written(data=[]), "o[0].data"),
        (written(data={**WHOLE["command.exec"], "exit": 1}), "o[0].data.exit"),
        (written(data={**WHOLE["command.exec"], "a b": 1}), 'o[0].data["a b"]'),
        (written(fingerprint="0" * 64), "o[0].fingerprint"),
        (written(fingerprint=None), "o[0].fingerprint"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(content: str, field: str) -> None:
    """The error names the part of the envelope to mend."""
    assert refused(content).context["field"] == field


def test_a_refusal_lists_what_there_is() -> None:
    """Unknown words are answered with the known ones, a wrong fingerprint with the right."""
    assert "doc.note" in refused(written(type="doc")).fix
    unknown = refused(written(data={**WHOLE["command.exec"], "exit": 1}))
    assert "stdoutHead" in unknown.fix
    assert "exitCode" in unknown.fix
    right = envelope.check(written(), "o[0]").fingerprint
    assert right in refused(written(fingerprint="0" * 64)).fix
    assert envelope.check(written(fingerprint=right), "o[0]").fingerprint == right


ODD = [
    '{"a":' * 5_000,
    "[" * 100_000,
    '{"type":"command.exec","data":' + '{"a":' * 300 + "1" + "}" * 300 + "}",
    written(data={"cmd": "x", "exitCode": 12345678901234567890}),
    written(data={"cmd": "x", "exitCode": 0, "durationMs": 2**53 + 1}),
    written(data={"cmd": "x", "exitCode": 0, "durationMs": float("nan")}),
    written(data={"cmd": "x", "exitCode": 0, "durationMs": float("inf")}),
    written()[:-1] + ',"type":"command.exec"}',
    written(data={"cmd": "\ud800", "exitCode": 0}),
    written(data={"cmd": "x", "exitCode": 0, "\udc00": 1}),
    written(ts="\ud800"),
    written()[:-1] + ',"\\ud800":1}',
    written(mode="\ud800"),
    written(branch="\0"),
    written(data={"cmd": "x", "exitCode": 0, "durationMs": 0})[:-3] + "1e999}}",
    '{"' + "a" * 1_000_000,
]


@pytest.mark.parametrize("content", ODD, ids=range(len(ODD)))
def test_odd_json_is_no_envelope_and_no_accident(content: str) -> None:
    """Depth, lost digits, doubled keys, half characters: text in open mode, refused in strict."""
    assert envelope.parse(content) is None
    refused(content)


@given(st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_no_text_makes_parse_raise(value: object) -> None:
    """Whatever is stored as an observation is an envelope or it is not."""
    content = value if isinstance(value, str) else json.dumps({"type": "doc.note", "data": value})
    found = envelope.parse(content)
    assert found is None or isinstance(found, envelope.Envelope)
    with pytest.raises(InvalidArgument):
        envelope.check(content, "o[0]")


def test_parse_is_lenient_about_data_but_not_about_more() -> None:
    """Any data makes an envelope; a key that no envelope has makes it a text like any other."""
    found = envelope.parse('{"type":"doc.note","data":{"any":[1]}}')
    assert found is not None
    assert (found.ts, found.mode, found.data) == (None, None, {"any": [1]})
    assert envelope.parse('\n {"type":"doc.note","data":{"any":[1]}}') == found
    assert envelope.parse('{"type":"doc.note","data":{},"note":"mine"}') is None
    assert envelope.parse('{"type":"doc.note","data":{},"mode":1}') is None
    assert envelope.parse('{"type":"other","data":{}}') is None
    assert envelope.parse('{"type":"doc.note","data":[]}') is None
    assert envelope.parse('{"type":"doc.note"}') is None


def test_the_fingerprint_is_that_of_the_fact_and_not_of_its_time() -> None:
    """Another ts, another order of keys or a given fingerprint change nothing; all else does."""
    found = envelope.parse(written())
    assert found is not None
    data = WHOLE["command.exec"]
    assert found.fingerprint == envelope_fingerprint(type="command.exec", data=data, **PLACE)
    backwards = dict(reversed(json.loads(written()).items()))
    for same in (
        written(ts="2027-01-01T00:00:00Z"),
        json.dumps(backwards),
        written(fingerprint=""),
    ):
        assert (envelope.parse(same) or found).fingerprint == found.fingerprint
    for other in (written(branch="dev"), written(mode=""), written(data={**data, "exitCode": 1})):
        different = envelope.parse(other)
        assert different is not None
        assert different.fingerprint != found.fingerprint


@pytest.mark.parametrize("kind", WHOLE)
def test_what_is_composed_is_right_and_in_order(kind: str) -> None:
    """A composed envelope passes the check, and its keys come in the order of the policy."""
    shuffled = dict(reversed(WHOLE[kind].items()))
    text = envelope.compose(kind, ts=TS, data=shuffled, **PLACE)
    assert envelope.check(text, "o[0]").data == WHOLE[kind]
    keys = ["type", "ts", "mode", "repo", "branch", "fingerprint", "data"]
    assert list(json.loads(text)) == keys
    assert list(json.loads(text)["data"]) == list(WHOLE[kind])


def test_compose_cuts_heads_between_characters_and_leaves_out_nothing_else() -> None:
    """A head of any length fits; half characters in it are replaced; None is left out."""
    data = {
        "cmd": "x",
        "exitCode": 0,
        "cwd": None,
        "stdoutHead": "é" * 9_000,
        "stderrHead": "\ud800",
    }
    found = envelope.parse(envelope.compose("command.exec", ts=TS, data=data, **PLACE))
    assert found is not None
    assert found.data == {"cmd": "x", "exitCode": 0, "stdoutHead": "é" * 4_096, "stderrHead": "?"}


def test_a_cut_head_does_not_end_in_half_a_mark() -> None:
    """The mark of a secret is there whole or not at all, and is not redacted again."""
    for before in range(8_180, 8_193):
        cut = envelope.head("x" * before + "[redacted]" + "y" * 100)
        assert cut.endswith(("x", "[redacted]")) or cut[-1] == "y"
        assert len(cut) <= 8_192


@pytest.mark.parametrize(
    ("kind", "more"),
    [("error", {}), ("doc.note", {"ts": "now"}), ("doc.note", {"data": {"url": object()}})],
)
def test_compose_refuses_what_check_would(kind: str, more: dict[str, Any]) -> None:
    """Nothing wrong is composed."""
    with pytest.raises(InvalidArgument):
        envelope.compose(kind, **{"ts": TS, "data": {"url": "https://a.b/c"}, **PLACE, **more})


def test_an_envelope_without_its_secrets_is_still_one() -> None:
    """Values and fields that name a secret are redacted, and the fingerprint fits again."""
    redactor = Redactor(["hunter2222"])
    data = {**WHOLE["fix.apply"], "changes": [{"api_key": "abc"}, 'PASSWORD="hunter2222"']}
    secret = envelope.compose("fix.apply", ts=TS, data=data, **PLACE)
    clean = envelope.redact(secret, redactor)
    assert envelope.check(clean, "o[0]").data["changes"] == [
        {"api_key": "[redacted]"},
        "PASSWORD=[redacted]",
    ]
    assert envelope.redact(clean, redactor) == clean
    assert "hunter2222" not in envelope.redact(written(fingerprint="hunter2222"), redactor)


def test_what_holds_no_secret_stays_as_it_was_written() -> None:
    """Neither white space nor the order of keys is touched; other text is cleaned as text."""
    content = "\n" + json.dumps(json.loads(written()), indent=2)
    assert envelope.redact(content, Redactor()) == content
    assert envelope.redact('{"password": "abc"}', Redactor()) == '{"password": [redacted]}'
