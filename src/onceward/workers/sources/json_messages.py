"""JSON messages: encode what a source finds as the bytes of a message; parse times in it."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import orjson

#: Seconds since 1970 that would be beyond the year 5000: they are milliseconds.
_SECONDS_MAX: Final = 1e11
_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATETIME


def row_json(names: Sequence[str], values: Iterable[Any]) -> bytes:
    """Return a row as a JSON object; infinities and what is not a number as text."""
    row = dict(zip(names, map(_finite, values), strict=True))
    return orjson.dumps(row, default=_text, option=_OPTIONS)


def to_json(value: object) -> bytes:
    """Return a value as JSON: moments in UTC with a Z, bytes as base64, decimals as text."""
    return orjson.dumps(value, default=_text, option=_OPTIONS)


def moment(value: object) -> datetime | None:
    """Return the moment that a text in ISO form or seconds since 1970 name, or None."""
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            seconds = value if abs(value) < _SECONDS_MAX else value / 1000
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None  # A message may hold anything; its time is for people only.
    return None


def _finite(value: Any) -> Any:  # noqa: ANN401 - whatever a column holds
    if type(value) is not float or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _text(value: object) -> str:
    """Return the text that stands for a value JSON has no form for."""
    if isinstance(value, datetime):
        # With a zone it is a moment; without one the moment is unknown, so none is made up.
        if value.tzinfo is None:
            return value.isoformat(timespec="microseconds")
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b64encode(value).decode()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    raise TypeError
