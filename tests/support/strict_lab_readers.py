"""Strict readers: programs that share the Lab's files and take nothing but what they know."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from onceward.journal import Journal, Record

_Check = Callable[[Any], bool]
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _time(value: Any) -> bool:
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def _version(value: Any) -> bool:
    return type(value) is int and value >= 1


def _percent(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value <= 100)


def _number(value: Any) -> bool:
    return value is None or type(value) in (int, float)


def _record(value: Any) -> bool:
    return isinstance(value, dict)


def _list_of(check: _Check) -> _Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _exactly(checks: Mapping[str, _Check], needed: tuple[str, ...] = ()) -> _Check:
    """Take an object with these keys, each of its kind, and no other."""
    return lambda value: (
        isinstance(value, dict)
        and all(name in value for name in needed)
        and all(name in checks and checks[name](each) for name, each in value.items())
    )


_RATINGS = ("overall", "hook", "pacing", "script", "visuals", "motion", "captions", "sync")
_PERCENTS = ("syncRating", "captionOverall", "proxyScoreOverall")
_NUMBERS = ("meanDriftMs", "maxDriftMs", "captionCoverageRatio", "ocrConfidenceMean")
_LINKS = ("sessionId", "runId", "experimentId", "variantId", "topic", "videoPath", "artifactsDir")
_REPORTS = ("syncReportPath", "captionReportPath", "scorePath")

FEEDBACK = _exactly(
    {
        "schemaVersion": _version,
        "id": _text,
        "createdAt": _time,
        **dict.fromkeys(_LINKS, _text),
        "ratings": _exactly(
            dict.fromkeys(_RATINGS, lambda each: each is not None and _percent(each))
        ),
        "notes": _text,
        "tags": _list_of(_text),
        "autoMetricsSnapshot": _exactly(
            {**dict.fromkeys(_PERCENTS, _percent), **dict.fromkeys(_NUMBERS, _number)}
        ),
        "answers": _record,
        "reports": _exactly(dict.fromkeys(_REPORTS, _text)),
        "extra": _record,
    },
    ("id", "createdAt"),
)
_VARIANT = ("variantId", "label", "runId")
_QUESTION = {"id": _text, "prompt": _text, "type": lambda each: each in ("yes_no_unsure", "text")}
EXPERIMENT = _exactly(
    {
        "schemaVersion": _version,
        **dict.fromkeys(("experimentId", "sessionId", "baselineRunId", "name"), _text),
        **dict.fromkeys(("hypothesis", "topic"), _text),
        "createdAt": _time,
        "variants": _list_of(_exactly(dict.fromkeys(_VARIANT, _text), _VARIANT)),
        "status": lambda each: each in ("queued", "running", "done", "failed"),
        "winner": _exactly({"variantId": _text, "reason": _text}, ("variantId",)),
        "questions": _list_of(_exactly(_QUESTION, ("id", "prompt"))),
        "answers": _record,
        "updatedAt": _time,
    },
    ("experimentId", "sessionId", "createdAt", "name", "baselineRunId", "variants"),
)


def read_all(path: Path, is_one: _Check) -> list[Record]:
    """Return every record of a file, having refused the first line that is not exactly one."""
    records = Journal(path).read().items
    assert len(records) == len(path.read_bytes().splitlines())
    for each in records:
        assert is_one(each), each
    return records
