"""Canonical JSON: encode equal values as the same bytes (RFC 8785).

Ordinary data takes a fast path through orjson. Other data takes an exact path, which also reports
the path of an invalid value. Both return the same bytes.
"""

from __future__ import annotations

import enum
import json
import marshal
import math
import re
from collections import Counter
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any, Final

import orjson

from onceward.errors import InvalidJson, NotCanonical

#: Version of the rules for all keys; increases when the key of the same work would change.
RULES_VERSION: Final = 1
#: The largest integer that every JSON reader parses exactly; its negative is the smallest.
INTEGER_MAX: Final = 2**53
#: How deep lists and objects may be nested.
DEPTH_MAX: Final = 500
#: The fix for a value that is nested too deeply.
FLATTER: Final = f"nest at most {DEPTH_MAX} levels"

_STRICT: Final = (
    orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_STRICT_SORTED: Final = _STRICT | orjson.OPT_SORT_KEYS
_PLAIN: Final = frozenset({str, int, float})
_SCALARS: Final = frozenset({str, int, bool, type(None)})
_NOT_FINITE: Final = re.compile(rb"[\xf0-\xff][\x7f\xff]", re.DOTALL)
_HIGH: Final = re.compile(rb"[\xee\xef]")
_WHOLE_FLOAT: Final = re.compile(rb"\.0(?![0-9])")
#: How orjson begins an exponent; a version that leaves out the sign takes the exact path for any e.
_EXPONENTS: Final = (b"e+", b"e-") if orjson.dumps([1e16, 1e-7]) == b"[1e+16,1e-7]" else (b"e",)
_ASTRAL: Final = re.compile(rb"[\xf0-\xf4]")
#: Path of a value: the path of its container, and the last step.
Path = tuple["Path", "str | int"] | None


def canonical_json(value: object, *, root: str = "") -> bytes:
    """Return the canonical bytes of `value`, the same for every equal value.

    Raises NotCanonical with the path, below `root`, of a value that JSON cannot represent exactly.
    """
    return _encode(value, root, sort=True)


def compact_json(value: object, *, root: str = "") -> bytes:
    """Return JSON under the same rules, but with object keys in their original order."""
    return _encode(value, root, sort=False)


def builtin_json(value: object, *, root: str = "") -> bytes | None:
    """Return the canonical bytes of a value of built-in JSON types only; None for other types.

    Subclasses count as other types: they may have state that JSON does not show.
    """
    fast = _fast(value, sort=True)
    return fast if fast is None or _is_exact(fast) else _exact(value, root, sort=True)


def scalars_json(names: tuple[str, ...], values: tuple[object, ...]) -> bytes | None:
    """Return the canonical bytes of an object without floats and containers, else None.

    The names must be ASCII. orjson writes texts and integers as RFC 8785 does.
    """
    if not _SCALARS.issuperset(map(type, values)):
        return None
    try:
        return orjson.dumps(dict(zip(names, values, strict=True)), option=_STRICT_SORTED)
    except TypeError:  # A large integer, or an unpaired surrogate.
        return None


def _encode(value: object, root: str, *, sort: bool) -> bytes:
    fast = _fast(value, sort=sort)
    return fast if fast is not None and _is_exact(fast) else _exact(value, root, sort=sort)


def _fast(value: object, *, sort: bool) -> bytes | None:
    try:
        fast = orjson.dumps(value, option=_STRICT_SORTED if sort else _STRICT)
        return fast if _has_plain_types(value, fast) else None
    except (TypeError, ValueError):
        return None


def _exact(value: object, root: str, *, sort: bool) -> bytes:
    out: list[str] = []
    try:
        _write(value, (None, root) if root else None, out, depth=0, sort=sort)
    except RecursionError as exc:
        raise NotCanonical(root or "value", "is nested too deeply", fix=FLATTER) from exc
    return "".join(out).encode()


def _has_plain_types(value: Any, fast: bytes) -> bool:  # noqa: ANN401 - whatever orjson took
    """Return whether `value`, encoded by orjson, has only JSON types: no UUID, Enum or NaN.

    marshal raises ValueError for types that are not exactly built-in, and is fast; its output is
    only searched. orjson writes NaN and infinity as null; the last two bytes of such a float reveal
    them. A false match only costs the exact path.
    """
    walked = marshal.dumps(value)
    if b"null" not in fast or not (b"\x7f" in walked or b"\xff" in walked):
        return True
    return _NOT_FINITE.search(walked) is None


def _is_exact(fast: bytes) -> bool:
    """Return whether orjson's output conforms to RFC 8785.

    It does not for floats that ES6 writes without `.0` or with another exponent, nor for keys that
    UTF-8 and UTF-16 sort differently: a character beyond U+FFFF beside one from U+E000 up.
    """
    if not fast.isascii() and _HIGH.search(fast) and _ASTRAL.search(fast):
        return False
    if not _looks_other(fast):
        return True
    # The match may be inside a string: check again between the strings.
    bare = fast.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in fast else fast
    return not _looks_other(b",".join(bare.split(b'"')[::2]))


def _looks_other(written: bytes) -> bool:
    """Return whether these bytes may contain an integral float or an exponent of orjson."""
    # A single byte is found ten times as fast as two, and is usually absent.
    if b"." in written and b".0" in written and _WHOLE_FLOAT.search(written):
        return True
    if b"e" not in written:
        return False
    return any(mark in written for mark in _EXPONENTS)


def _write(value: Any, path: Path, out: list[str], *, depth: int, sort: bool) -> None:  # noqa: ANN401 - anything
    """Append the exact form of `value`; errors name `path`."""
    if isinstance(value, (list, tuple)):
        _check_depth(depth, path)
        separator = "["
        for index, item in enumerate(value):
            out.append(separator)
            separator = ","
            _write(item, (path, index), out, depth=depth + 1, sort=sort)
        out.append("]" if value else "[]")
    elif isinstance(value, dict):
        _check_depth(depth, path)
        separator = "{"
        for name in _names(value, path, sort=sort):
            below = (path, name)
            out += (separator, _string(name, below), ":")
            separator = ","
            _write(value[name], below, out, depth=depth + 1, sort=sort)
        out.append("}" if value else "{}")
    else:
        out.append(_leaf(value, path))


def _check_depth(depth: int, path: Path) -> None:
    if depth > DEPTH_MAX:
        problem = f"is nested deeper than {DEPTH_MAX} levels"
        raise NotCanonical(written_path(path), problem, fix=FLATTER)


def _names(value: dict[Any, Any], path: Path, *, sort: bool) -> list[str]:
    for name in value:
        if type(name) is not str and (not isinstance(name, str) or isinstance(name, enum.Enum)):
            problem = f"has the key {name!r:.60}, which is not a string"
            raise NotCanonical(written_path(path), problem, fix="use strings as keys")
    if not sort:
        return list(value)
    if "".join(value).isascii():
        return sorted(value)
    # Lone surrogates pass here; writing the key raises an error with its path.
    return sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def _leaf(value: object, path: Path) -> str:
    """Encode a scalar, or raise NotCanonical."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if type(value) not in _PLAIN and isinstance(value, enum.Enum):
        raise NotCanonical(written_path(path), "is an Enum", fix="send its value")
    if isinstance(value, str):
        return _string(value, path)
    if isinstance(value, int):
        if abs(value) > INTEGER_MAX:
            raise NotCanonical(
                written_path(path), "is an integer beyond ±2^53", fix="send it as text"
            )
        return int.__repr__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            problem = f"is {value}, which JSON does not have"
            raise NotCanonical(written_path(path), problem, fix="send null or text")
        return es6_number(value)
    problem = f"is a {type(value).__name__}, which JSON does not have"
    raise NotCanonical(
        written_path(path), problem, fix="send JSON values: text, numbers, lists, objects"
    )


def _string(value: str, path: Path) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        problem = "contains an unpaired surrogate"
        raise NotCanonical(written_path(path), problem, fix="send well-formed Unicode") from exc
    # The standard library's escapes are RFC 8785's: the short ones, and \u00xx in lower case.
    return encode_basestring(value)


def es6_number(value: float) -> str:
    """Write a finite float as ECMAScript does: the shortest digits that read back the same."""
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, power = repr(abs(float(value))).partition("e")
    integral, _, fraction = mantissa.partition(".")
    digits = (integral + fraction).lstrip("0")
    leading_zeros = len(integral + fraction) - len(digits)
    # The value is 0.DIGITS times ten to this power.
    point = len(integral) + int(power or 0) - leading_zeros
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"


def written_path(path: Path) -> str:
    """Write a path like the code that would reach it: `inputs.items[3].price`."""
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    text = ""
    for step in reversed(steps):
        text = join_path(text, step)
    return text or "value"


def join_path(path: str, step: str | int) -> str:
    """Return the written path one step further down."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if not step.isidentifier():
        return f"{path}[{json.dumps(step)}]"
    return f"{path}.{step}" if path else step


def loads(text: bytes | str) -> object:
    """Parse JSON so that canonical bytes survive a round trip.

    Integers beyond ±2^53 become floats. Raises InvalidJson for repeated keys, NaN, numbers too
    large for a float, bytes that are not UTF-8, and nesting that is too deep.
    """
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        return json.loads(
            decoded,
            parse_int=_integer,
            parse_float=_finite,
            parse_constant=_no_constant,
            object_pairs_hook=_unique,
        )
    except UnicodeDecodeError as exc:
        message = f"not UTF-8 at byte {exc.start}, so not JSON"
        raise InvalidJson(message, fix="send the JSON encoded as UTF-8") from exc
    except json.JSONDecodeError as exc:
        message = f"not JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}"
        raise InvalidJson(message, fix="correct it there; send exactly one JSON value") from exc
    except RecursionError as exc:
        message = "not acceptable JSON: nested too deeply"
        raise InvalidJson(message, fix=FLATTER) from exc


def _integer(digits: str) -> int | float:
    if len(digits) <= 17 and abs(number := int(digits)) <= INTEGER_MAX:
        return number
    return _finite(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        message = f"not acceptable JSON: the number {digits[:40]} is too large"
        raise InvalidJson(message, fix="send the number as text")
    return number


def _no_constant(name: str) -> object:
    message = f"not JSON: {name} is not a JSON value"
    raise InvalidJson(message, fix="send null or text")


def _unique(pairs: list[tuple[str, object]]) -> Mapping[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = next(name for name, count in counts.items() if count > 1)
        message = f"not acceptable JSON: the key {repeated!r:.60} appears twice in one object"
        raise InvalidJson(message, fix="remove or rename one of the two")
    return found
