"""JSON messages: encode rows and values of a source as message bytes, and parse their times."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import orjson

#: Larger numbers are milliseconds: as seconds since 1970 they would be beyond the year 5000.
_SECONDS_MAX: Final = 1e11
_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATETIME


def row_json(names: Sequence[str], values: Iterable[Any]) -> bytes:
    """Return a row as a JSON object; NaN and infinities become text."""
    row = dict(zip(names, map(_finite, values), strict=True))
    return orjson.dumps(row, default=_to_text, option=_OPTIONS)


def to_json(value: object) -> bytes:
    """Return a value as JSON: times in UTC with a Z, bytes as base64, decimals as text."""
    return orjson.dumps(value, default=_to_text, option=_OPTIONS)


def parse_time(value: object) -> datetime | None:
    """Return the time of an ISO 8601 text or of seconds since 1970; None for other values."""
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            seconds = value if abs(value) < _SECONDS_MAX else value / 1000
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None  # Messages are arbitrary, and their times are only displayed.
    return None


def _finite(value: Any) -> Any:  # noqa: ANN401 - whatever a column holds
    if type(value) is not float or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _to_text(value: object) -> str:
    """Return the text for a value of a type that JSON does not have."""
    if isinstance(value, datetime):
        # Without a zone the instant is unknown, so no Z is added.
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
