"""Typed values: encode typed Python arguments as canonical bytes, for the keys of calls.

Encodes the value itself, without coercing it to an annotation. Equivalent values have the same
bytes: class names are omitted, a tuple is a list, a UUID, a date and an enum are their JSON text.
Plain JSON is encoded as by `canonical_json`.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import sys
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from onceward.errors import NotCanonical
from onceward.keys.canonical import (
    DEPTH_MAX,
    FLATTER,
    INTEGER_MAX,
    Path,
    builtin_json,
    canonical_json,
    written_path,
)

#: Prefix of our own object keys; it is doubled in user keys.
TAG: Final = "$"
#: A decimal that needs more digits than this is written with an exponent.
_DIGITS_SHOWN: Final = 40
_MICROSECONDS: Final = timedelta(microseconds=1)
_BUILT_IN: Final = (str, int, float, list, tuple, dict, set, frozenset, bytes, bytearray)


def value_json(value: object, *, root: str = "") -> bytes:
    """Return the canonical bytes of a typed value, the same for equivalent values.

    Raises NotCanonical with the path, below `root`, of an ambiguous value, such as a datetime
    without a zone.
    """
    written = builtin_json(value, root=root)
    if written is not None and b'"$' not in written:
        return written
    try:
        plain = _plain(value, (None, root) if root else None, ())
    except RecursionError as exc:
        raise NotCanonical(root or "value", "is nested too deeply", fix=FLATTER) from exc
    return canonical_json(plain, root=root)


def _plain(value: Any, path: Path, above: tuple[int, ...]) -> Any:  # noqa: ANN401 - anything
    """Return a value as built-in JSON types; `above` are the ids of the containers around it."""
    if value is None or value is True or value is False:
        return value
    parts = _parts(value, path)
    if parts is None:
        return _leaf(value, path, above)
    if id(value) in above:
        raise NotCanonical(written_path(path), "contains itself", fix="pass a value without cycles")
    if len(above) > DEPTH_MAX:
        problem = f"is nested deeper than {DEPTH_MAX} levels"
        raise NotCanonical(written_path(path), problem, fix=FLATTER)
    inside = (*above, id(value))
    if not isinstance(parts, Mapping):
        items = []
        for index, item in enumerate(parts):
            items.append(_plain(item, (path, index), inside))
        return sorted(items, key=canonical_json) if isinstance(value, AbstractSet) else items
    pairs = []
    for name, item in parts.items():
        key = name if type(name) is str else _plain(name, path, inside)
        pairs.append((key, _plain(item, (path, str(key)), inside)))
    return _object(pairs, path)


def _parts(value: Any, path: Path) -> Mapping[Any, Any] | Iterable[Any] | None:  # noqa: ANN401 - anything
    """Return the items of a container, by name or in order; None for a scalar."""
    kind = type(value)
    if kind is dict or kind is list:
        return value  # type: ignore[no-any-return]  # the most frequent ones
    if isinstance(value, (Enum, type)):
        return None
    if dataclasses.is_dataclass(value):
        if isinstance(value, _BUILT_IN):
            problem = f"is a {kind.__name__}, both a dataclass and a built-in type"
            raise NotCanonical(written_path(path), problem, fix="pass its fields as a dict")
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if _is_model(value):
        return None if kind.__pydantic_root_model__ else _fields(value, path)
    if isinstance(value, (Mapping, list, tuple, AbstractSet)):
        return value
    return None


def _is_model(value: object) -> bool:
    """Return whether this is a pydantic model, without importing pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.BaseModel)


def _fields(model: Any, path: Path) -> dict[str, Any]:  # noqa: ANN401 - a model
    """Return all fields of a model, including excluded and extra ones.

    Private attributes and computed fields are not included.
    """
    held = vars(model)
    fields = {name: held[name] for name in type(model).model_fields if name in held}
    extra = getattr(model, "__pydantic_extra__", None) or {}
    if not fields.keys().isdisjoint(extra):
        problem = f"has the field {min(fields.keys() & extra.keys())!r} twice"
        raise NotCanonical(
            written_path(path), problem, fix="pass a dict in which each name occurs once"
        )
    return {**fields, **extra}


def _object(pairs: list[tuple[Any, Any]], path: Path) -> dict[str, Any]:
    """Return a JSON object; keys that are not text give a tagged list of pairs."""
    if all(isinstance(key, str) for key, _ in pairs):
        found = {f"{TAG}{key}" if key.startswith(TAG) else key: item for key, item in pairs}
        if len(found) < len(pairs):
            problem = "has two keys that are the same text"
            raise NotCanonical(written_path(path), problem, fix="use keys that differ as text")
        return found
    return _tagged("dict", sorted(([key, item] for key, item in pairs), key=canonical_json))


def _tagged(kind: str, content: object) -> dict[str, Any]:
    return {f"{TAG}{kind}": content}


def _leaf(value: Any, path: Path, above: tuple[int, ...]) -> Any:  # noqa: ANN401, PLR0911 - one for each type
    """Return a scalar, or a value that wraps another one, as a built-in JSON type."""
    if isinstance(value, Enum):
        return _plain(value.value, path, above)
    if _is_model(value):
        return _plain(vars(value).get("root"), path, above)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return _integer(int.__int__(value), path)
    if isinstance(value, float):
        return _finite(float.__float__(value), path)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _tagged("bytes", base64.b64encode(bytes(value)).decode())
    if isinstance(value, (datetime, date, time, timedelta)):
        return _moment(value, path)
    if isinstance(value, Decimal):
        return _decimal(value, path)
    return _other(value, path)


def _integer(value: int, path: Path) -> int | dict[str, Any]:
    if abs(value) <= INTEGER_MAX:
        return value
    try:
        return _tagged("int", str(value))
    except ValueError as exc:  # Python's own limit, against slow conversions.
        digits = f"is an integer of more than {sys.get_int_max_str_digits()} digits"
        raise NotCanonical(written_path(path), digits, fix="pass it as bytes") from exc


def _finite(value: float, path: Path) -> float:
    if not isfinite(value):
        raise NotCanonical(
            written_path(path), f"is {value}, which JSON does not have", fix="pass None"
        )
    return value


def _decimal(value: Decimal, path: Path) -> str:
    """Encode a decimal without trailing zeros: 1.50 is 1.5. Never rounds."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise NotCanonical(written_path(path), f"is {value}, which is no number", fix="pass None")
    written = "".join(map(str, digits)).lstrip("0")
    kept = written.rstrip("0")
    if not kept:
        return "0"
    exponent += len(written) - len(kept)
    point = len(kept) + exponent
    if exponent == 0 or (exponent > 0 and point <= _DIGITS_SHOWN):
        text = kept + "0" * exponent
    elif 0 < point < len(kept):
        text = f"{kept[:point]}.{kept[point:]}"
    elif -_DIGITS_SHOWN < point <= 0:
        text = f"0.{'0' * -point}{kept}"
    else:
        text = f"{kept}E{exponent:+d}"
    return f"-{text}" if sign else text


def _moment(value: datetime | date | time | timedelta, path: Path) -> str:
    # pandas' types are datetimes with an additional field.
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        raise NotCanonical(written_path(path), "has nanoseconds", fix="round it to microseconds")
    if isinstance(value, timedelta):
        count = value // _MICROSECONDS
        seconds, rest = divmod(abs(count), 1_000_000)
        return f"{'-' if count < 0 else ''}PT{seconds}.{rest:06}S"
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            fix = "pass a datetime with a zone, such as datetime.now(UTC)"
            raise NotCanonical(written_path(path), "is a datetime without a zone", fix=fix)
        try:
            return datetime.isoformat(value.astimezone(UTC)).replace("+00:00", "Z")
        except OverflowError as exc:
            problem = "is beyond the years 1 to 9999 in UTC"
            raise NotCanonical(written_path(path), problem, fix="pass a time within them") from exc
    if isinstance(value, time) and value.tzinfo is not None and value.utcoffset() is None:
        problem = "is a time whose zone needs a date"
        raise NotCanonical(written_path(path), problem, fix="pass a datetime")
    return time.isoformat(value) if isinstance(value, time) else date.isoformat(value)


def _other(value: Any, path: Path) -> Any:  # noqa: ANN401 - a JSON value
    """Return the text of an id, path or address, or the digest of a secret; reject other types."""
    kind = type(value)
    if isinstance(value, (UUID, PurePath)):
        return str(value)
    if callable(getattr(kind, "get_secret_value", None)):
        secret = value_json(value.get_secret_value(), root=written_path(path))
        return _tagged("secret", hashlib.sha256(secret).hexdigest())
    if callable(getattr(kind, "unicode_string", None)):
        return str(value.unicode_string())
    if any(base.__module__ == "ipaddress" for base in kind.__mro__):
        return str(value)
    problem = f"is a {kind.__name__}, which has no canonical form"
    raise NotCanonical(written_path(path), problem, fix="pass text, a number, a list or a dict")
