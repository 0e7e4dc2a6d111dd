"""Canonical JSON against RFC 8785's own examples, and against what it must refuse."""

import dataclasses
import datetime as dt
import enum
import json
import math
import struct
import uuid
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import pytest

from onceward.errors import InvalidJson, NotCanonical
from onceward.keys import canonical_json, compact_json, loads
from onceward.keys.canonical import DEPTH_MAX, es6_number

# RFC 8785, section 3.2.2.
SAMPLE = r"""{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}"""
SAMPLE_CANONICAL = (
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
    r'"string":"€$\u000f\nA' + "'" + r'B\"\\\\\"/"}'
)
# RFC 8785, section 3.2.3.
SORTING = {
    "\u20ac": "Euro Sign",
    "\r": "Carriage Return",
    "\ufb33": "Hebrew Letter Dalet With Dagesh",
    "1": "One",
    "\U0001f600": "Emoji: Grinning Face",
    "\u0080": "Control",
    "\u00f6": "Latin Small Letter O With Diaeresis",
}
SORTED_NAMES = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
# RFC 8785, appendix B.
NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Point:
    x: int


def test_rfc_8785_sample_object() -> None:
    """The RFC's first example gives the RFC's bytes."""
    assert canonical_json(loads(SAMPLE)) == SAMPLE_CANONICAL.encode()


def test_rfc_8785_sorting_is_by_utf_16_code_units() -> None:
    """An astral character sorts before U+FB33, as its surrogates do."""
    assert list(json.loads(canonical_json(SORTING))) == SORTED_NAMES


def test_rfc_8785_numbers() -> None:
    """Each number of the RFC's appendix is written as the appendix says."""
    for bits, written in NUMBERS:
        value = struct.unpack(">d", bytes.fromhex(bits))[0]
        assert es6_number(value) == written
        assert canonical_json([value]) == f"[{written}]".encode()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        ((1, (2,)), "[1,[2]]"),
        (OrderedDict(z=1, a=2), '{"a":2,"z":1}'),
        (2**53, "9007199254740992"),
        (-(2**53), "-9007199254740992"),
        (1.0, "1"),
        ([1.5, None], "[1.5,null]"),
        ({"a.0": ".0,", 'q".0,': "1e5"}, '{"a.0":".0,","q\\".0,":"1e5"}'),
        ("back\\", '"back\\\\"'),
        (["\\", 1.0], '["\\\\",1]'),
        ({}, "{}"),
        ([], "[]"),
        ("", '""'),
        (None, "null"),
    ],
)
def test_values_have_one_form(value: Any, written: str) -> None:
    """Allowed values are written compactly, sorted, with ES6 numbers."""
    assert canonical_json(value) == written.encode()


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"items": [{"price": 1}, {"price": math.nan}]}, "inputs.items[1].price"),
        ({"x": math.inf}, "inputs.x"),
        ({"x": [-math.inf, None]}, "inputs.x[0]"),
        ({"n": 2**53 + 1}, "inputs.n"),
        ({"n": -(2**53) - 1}, "inputs.n"),
        ({"n": 10**400}, "inputs.n"),
        ({"id": uuid.uuid4()}, "inputs.id"),
        ({"at": dt.datetime.now(dt.UTC)}, "inputs.at"),
        ({"day": dt.date.today()}, "inputs.day"),  # noqa: DTZ011 - any date will do
        ({"c": Colour.RED}, "inputs.c"),
        ({"c": Level.LOW}, "inputs.c"),
        ({Colour.RED: 1}, "inputs"),
        ({1: 1}, "inputs"),
        ({None: 1}, "inputs"),
        ({"p": Point(1)}, "inputs.p"),
        ({"b": b"x"}, "inputs.b"),
        ({"s": {1, 2}}, "inputs.s"),
        ({"d": Decimal(1)}, "inputs.d"),
        ({"s": "\ud800"}, "inputs.s"),
        ({"\udc00": 1}, 'inputs["\\udc00"]'),
        ({"a b": {"c": float("nan")}}, 'inputs["a b"].c'),
    ],
)
def test_what_json_cannot_carry_is_refused_by_path(value: Any, path: str) -> None:
    """A value without a canonical form is named by its place, whatever fast encoders make of it."""
    with pytest.raises(NotCanonical) as refused:
        canonical_json(value, root="inputs")

    assert refused.value.path == path
    assert refused.value.message.startswith(f"{path}: ")


def test_endless_values_are_refused() -> None:
    """A value that holds itself, or is nested without end, is an error and not a crash."""
    loop: list[Any] = []
    loop.append(loop)
    deep: list[Any] = []
    for _ in range(DEPTH_MAX + 1):
        deep = [deep]
    for value in (loop, deep):
        with pytest.raises(NotCanonical, match="nested deeper"):
            canonical_json(value)


def test_deep_values_within_the_limit_are_written() -> None:
    """Nesting beyond the fast encoder's own limit takes the exact path."""
    deep: list[Any] = []
    for _ in range(DEPTH_MAX):
        deep = [deep]
    assert canonical_json(deep) == b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1)


def test_compact_json_keeps_the_order_of_keys() -> None:
    """Records are written under the same rules, their keys as they came."""
    assert compact_json({"b": 1.0, "a": "é"}) == '{"b":1,"a":"é"}'.encode()
    with pytest.raises(NotCanonical):
        compact_json({"b": math.nan})


@pytest.mark.parametrize("number", ["9007199254740993", "-9007199254740993", "1" * 300, "1e400"])
def test_large_numbers_read_back_the_same(number: str) -> None:
    """Integers beyond 2^53 become floats, so that canonical bytes are a fixed point."""
    if number == "1e400":
        with pytest.raises(InvalidJson, match="too large"):
            loads(number)
        return
    once = canonical_json(loads(number))
    assert isinstance(loads(number), float)
    assert canonical_json(loads(once)) == once


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1,]", "not JSON"),
        ("NaN", "NaN is not"),
        ("[-Infinity]", "-Infinity is not"),
        ('{"a":1,"a":2}', "'a' appears twice"),
        ("1" * 5000, "too large"),
        (b"\xff", "not UTF-8 at byte 0"),
        ("[" * 100_000, "nested too deeply"),
        ("\ufeff1", "not JSON"),
    ],
)
def test_unacceptable_json_is_refused(text: str | bytes, problem: str) -> None:
    """Broken or ambiguous JSON is one clear error."""
    with pytest.raises(InvalidJson, match=problem):
        loads(text)
