"""Encoding: JSON of what other tools wrote, nested as deeply as those liked.

For what was read and is passed on as it stands; keys and records of our own are `canonical`'s.
"""

from __future__ import annotations

import json
from typing import Any, Final

import orjson

from onceward.errors import InvalidArgument

#: So many levels from the top are tried as a whole before they are taken apart: what is too deep
#: is one entry of a page or of an export, and the others are written at full speed.
_TRIED_LEVELS: Final = 4
#: An integer of more digits may be too large for a float.
_FLOAT_DIGITS_MAX: Final = 308


def is_encodable(text: str) -> bool:
    """Say whether a text can be written: it holds no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def well_formed(field: str, text: str) -> str:
    """Return the text of a field, or refuse it by name."""
    if not is_encodable(text):
        message = f"{field}: holds half of a surrogate pair"
        raise InvalidArgument(message, fix="pass well-formed Unicode", field=field)
    return text


def read_json(text: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Read JSON; an integer too large for a float becomes text. Raises ValueError for no JSON."""
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
    """Return the JSON of a value, which stays as it is."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _encoded_deep(value)


def _encoded_deep(value: object) -> bytes:
    """Write what is nested more deeply than the encoder goes, piece by piece.

    The reader of files takes four times the depth that the encoder does, and what cannot be
    written would stand in the way of everything behind it. What is no JSON at any depth is still
    refused, with the encoder's TypeError.
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
                if not isinstance(each, (dict, list, tuple)):
                    raise
        rest += reversed([(part, level + 1) for part in _parts(each)])
    return b"".join(pieces)


def _parts(whole: dict[object, object] | list[object] | tuple[object, ...]) -> list[object]:
    """Return what stands in an object or an array, and the signs between, in order."""
    parts: list[object] = []
    if isinstance(whole, dict):
        for name, inner in whole.items():
            if not isinstance(name, str):
                message = f"Dict key must be str, not {name!r:.60}"
                raise TypeError(message)
            parts += [_COMMA, name, _COLON, inner]
    else:
        for inner in whole:
            parts += [_COMMA, inner]
    opening, closing = _BRACES if isinstance(whole, dict) else _BRACKETS
    return [opening, *parts[1:], closing]


_BRACES: Final = (orjson.Fragment(b"{"), orjson.Fragment(b"}"))
_BRACKETS: Final = (orjson.Fragment(b"["), orjson.Fragment(b"]"))
_COMMA: Final = orjson.Fragment(b",")
_COLON: Final = orjson.Fragment(b":")
