"""Lenient JSON: read and write JSON of other tools, with any depth of nesting.

For data that is passed on unchanged; our own keys and records use `canonical`.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, Final

import orjson

from onceward.errors import InvalidArgument

#: Up to this level every part is first tried in one piece: usually a single entry of a page or of
#: an export is too deep, and the others are encoded at full speed.
_TRIED_LEVELS: Final = 4
#: An integer of more digits may be too large for a float.
_FLOAT_DIGITS_MAX: Final = 308


def is_encodable(text: str) -> bool:
    """Return whether a text can be encoded: it has no unpaired surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def well_formed(field: str, text: str) -> str:
    """Return the text of a field; raise InvalidArgument if it cannot be encoded."""
    if not is_encodable(text):
        message = f"{field}: contains an unpaired surrogate"
        raise InvalidArgument(message, fix="pass well-formed Unicode", field=field)
    return text


def read_json(text: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Parse JSON; an integer too large for a float becomes text. Raises ValueError if invalid."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text, parse_int=_integer, parse_constant=_no_constant)


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _FLOAT_DIGITS_MAX else digits


def _no_constant(name: str) -> object:
    message = f"{name} is not a JSON value"
    raise ValueError(message)


def encoded(value: object) -> bytes:
    """Return the JSON of a value; a dataclass is an object of its fields."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _encoded_deep(value)


def _encoded_deep(value: object) -> bytes:
    """Encode values that are nested deeper than the encoder's limit, piece by piece.

    The parser accepts four times the encoder's depth, and an entry that cannot be encoded would
    block all entries after it. Values that are not JSON still raise the encoder's TypeError.
    """
    pieces: list[bytes] = []
    rest: list[tuple[object, int]] = [(value, 0)]
    while rest:
        each, level = rest.pop()
        if level < _TRIED_LEVELS or not isinstance(each, (dict, list, tuple)):
            try:
                pieces.append(orjson.dumps(each))
                continue
            except TypeError:
                if is_dataclass(each):
                    each = {part.name: getattr(each, part.name) for part in fields(each)}
                if not isinstance(each, (dict, list, tuple)):
                    raise
        rest += reversed([(part, level + 1) for part in _parts(each)])
    return b"".join(pieces)


def _parts(container: dict[object, object] | list[object] | tuple[object, ...]) -> list[object]:
    """Return the parts of an object or an array, with the punctuation between, in order."""
    parts: list[object] = []
    if isinstance(container, dict):
        for name, inner in container.items():
            if not isinstance(name, str):
                message = f"Dict key must be str, not {name!r:.60}"
                raise TypeError(message)
            parts += [_COMMA, name, _COLON, inner]
    else:
        for inner in container:
            parts += [_COMMA, inner]
    opening, closing = _BRACES if isinstance(container, dict) else _BRACKETS
    return [opening, *parts[1:], closing]


_BRACES: Final = (orjson.Fragment(b"{"), orjson.Fragment(b"}"))
_BRACKETS: Final = (orjson.Fragment(b"["), orjson.Fragment(b"]"))
_COMMA: Final = orjson.Fragment(b",")
_COLON: Final = orjson.Fragment(b":")
