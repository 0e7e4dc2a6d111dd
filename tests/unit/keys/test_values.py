"""Keys of values: equal ones have equal bytes, different ones differ, unclear ones are refused."""

from __future__ import annotations

import enum
import json
import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, localcontext
from ipaddress import ip_address
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    PrivateAttr,
    RootModel,
    SecretBytes,
    SecretStr,
    computed_field,
)

from onceward.errors import NotCanonical
from onceward.keys import canonical_json
from onceward.keys.values import value_json

ID = UUID("0d5c4a3e-6d0e-4a6b-9a53-0a1f7e3b2c11")
T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    BIG = 3


class Word(enum.StrEnum):
    RED = "red"


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "a lie"


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Money:
    amount: Decimal
    currency: str = "EUR"
    seen: list[int] = field(default_factory=list, compare=False, repr=False)


@dataclass
class Fee(Money):
    kind: str = "fee"


class Order(BaseModel):
    id: int
    token: str = Field(default="t", exclude=True)
    _cached: int = PrivateAttr(default=0)

    @computed_field  # type: ignore[prop-decorator]  # as pydantic wants it
    @property
    def label(self) -> str:
        return f"order {self.id}"


class Gift(Order):
    note: str = ""


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: int = Field(alias="ID")


class Box(BaseModel, Generic[T]):
    content: T


class Numbers(RootModel[list[int]]):
    pass


class Login(BaseModel):
    password: SecretStr


class Stubborn:
    """Equal to everything, and without a hash."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


def noon(zone: str, fold: int = 0, hour: int = 12) -> datetime:
    return datetime(2026, 10, 25, hour, 30, tzinfo=ZoneInfo(zone), fold=fold)


class Later(datetime):
    """A subclass, as some libraries have one."""


EQUAL: list[Any] = [
    ((1, 2), [1, 2]),
    (1, 1.0),
    (0.0, -0.0),
    (Point(1, 2), [1, 2]),
    (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
    (MappingProxyType({"a": 1}), {"a": 1}),
    (Text("x"), "x"),
    (Color.RED, "red"),
    (Word.RED, "red"),
    (Size.BIG, 3),
    (ID, str(ID)),
    (date(2026, 2, 3), "2026-02-03"),
    (Decimal("1E+2"), Decimal(100)),
    pytest.param(Decimal("1.50"), Decimal("1.5"), id="decimal"),
    (Decimal("-0.0"), Decimal("0E+7")),
    (Decimal("1E+1000"), Decimal("10E+999")),
    (noon("Europe/Berlin"), noon("Europe/Berlin").astimezone(UTC)),
    (Later(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    (timedelta(days=1), timedelta(hours=24)),
    ({3, 1, 2}, frozenset({2, 3, 1})),
    ({"b", "a"}, ["a", "b"]),
    ({Color.RED: 1}, {"red": 1}),
    ({Size.BIG: 1}, {3: 1}),
    ({1: "a", 2: "b"}, {2: "b", 1: "a"}),
    (Money(Decimal("1.0")), {"amount": "1", "currency": "EUR", "seen": []}),
    (Order(id=1), {"id": 1, "token": "t"}),
    (Box[int](content=1), Box[Any](content=1)),
    (Numbers([1, 2]), [1, 2]),
    (Open.model_validate({"ID": 1, "more": "x"}), {"id": 1, "more": "x"}),
    (bytearray(b"ab"), b"ab"),
    (memoryview(b"ab"), b"ab"),
    (PurePosixPath("/tmp/a"), "/tmp/a"),
    (ip_address("::1"), "::1"),
    (HttpUrl("http://a.test/"), "http://a.test/"),
]

DIFFERENT: list[Any] = [
    (1, True),
    (1, "1"),
    (None, "null"),
    ({1: "a"}, {"1": "a"}),
    ({None: 1}, {"None": 1}),
    ({(1, 2): "a"}, {"(1, 2)": "a"}),
    ({True: 1}, {1: 1}),
    ({True}, {1}),
    ([], {}),
    (2**53 + 1, str(2**53 + 1)),
    (2**53 + 1, float(2**53)),
    (2**60, 2**60 + 1),
    (10**400, 10**400 + 1),
    (10**400, {"$int": str(10**400)}),
    (b"ab", "ab"),
    (b"ab", {"$bytes": "YWI="}),
    pytest.param(2**60, {"$int": str(2**60)}, id="tag"),
    ({"$int": "1"}, {"$$int": "1"}),
    ({"a": {"$x": 1}}, {"a": {"$$x": 1}}),
    ({1: 2}, {"$dict": [[1, 2]]}),
    (Login(password=SecretStr("a")), Login(password=SecretStr("b"))),
    pytest.param(Order(id=1), Order(id=1, token="u"), id="excluded"),
    (Order(id=1), Gift(id=1)),
    (Money(Decimal(1)), Fee(Decimal(1))),
    (Money(Decimal(1)), Money(Decimal(1), seen=[1])),
    (Decimal("1." + "0" * 40 + "1"), Decimal(1)),
    (Decimal("-1.5"), Decimal("1.5")),
    (Decimal("0.015"), Decimal("0.15")),
    (Decimal("1E-50"), Decimal("1E-51")),
    (noon("Europe/Berlin"), noon("Europe/London")),
    (noon("Europe/Berlin", hour=2), noon("Europe/Berlin", fold=1, hour=2)),
    (datetime(2026, 1, 1, microsecond=1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    (timedelta(microseconds=1), timedelta(0)),
    (timedelta(seconds=-1), timedelta(seconds=1)),
    (time(1), time(1, tzinfo=UTC)),
    (time(1, 2), time(1, 2, 3)),
]


def numbered(cases: Sequence[object]) -> list[str]:
    """Return ids that every process of a test run makes alike: some values show their address."""
    return [str(number) for number in range(len(cases))]


@pytest.mark.parametrize(("one", "other"), EQUAL, ids=numbered(EQUAL))
def test_h51_equal_values_have_one_encoding(one: Any, other: Any) -> None:
    """What means the same has the same bytes, at the top and inside of others."""
    assert value_json(one) == value_json(other)
    assert value_json({"a": [one]}) == value_json({"a": (other,)})


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=numbered(DIFFERENT))
def test_h51_different_values_have_different_encodings(one: Any, other: Any) -> None:
    """Different values have different bytes, at the top and inside of others."""
    assert value_json(one) != value_json(other)
    assert value_json({"a": [one]}) != value_json({"a": [other]})


@pytest.mark.parametrize(
    "value",
    [
        None,
        "x",
        "$5",
        1.5,
        2.0,
        1e300,
        -7,
        [1, [True, None]],
        {"é": {"a": [{}]}},
        {"b": 1, "a": "$"},
    ],
    ids=repr,
)
def test_plain_json_encodes_as_canonical_json(value: Any) -> None:
    """Keys of plain arguments are those of canonical JSON."""
    assert value_json(value) == canonical_json(value)


def looped(kind: Any) -> Any:
    """Return a value that contains itself, inside of a list or an object."""
    inner: Any = kind()
    inner.append(inner) if kind is list else inner.update(self=inner)
    return inner


def looped_dataclass() -> Money:
    money = Money(Decimal(1))
    money.seen.append(money)  # type: ignore[arg-type]
    return money


def deep(levels: int) -> Any:
    value: Any = 1.0
    for _ in range(levels):
        value = [value]
    return value


@dataclass
class Both(list):  # type: ignore[type-arg]
    x: int = 1


class Nano(datetime):
    nanosecond = 5


UNCLEAR: list[tuple[Any, str]] = [
    (datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None), "without a zone"),
    (Nano(2026, 1, 1, tzinfo=UTC), "nanoseconds"),
    (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))), "beyond the years"),
    (time(1, tzinfo=ZoneInfo("Europe/Berlin")), "needs a date"),
    (math.nan, "is nan"),
    (-math.inf, "is -inf"),
    (Decimal("NaN"), "no number"),
    (Decimal("sNaN"), "no number"),
    (Decimal("-Infinity"), "no number"),
    (1 + 2j, "is a complex"),
    (object(), "is a object"),
    (int, "is a type"),
    (Stubborn(), "is a Stubborn"),
    ("\ud800", "surrogate"),
    (10**5000, "digits"),
    ({ID: 1, str(ID): 2}, "two keys"),
    (looped(list), "contains itself"),
    (looped(dict), "contains itself"),
    (looped_dataclass(), "contains itself"),
    (deep(600), "nested"),
    (deep(100_000), "nested"),
    (Both(), "both a dataclass and"),
    (Open.model_validate({"ID": 1, "id": 2}), "twice"),
]


@pytest.mark.parametrize(("value", "problem"), UNCLEAR, ids=lambda each: repr(type(each)))
def test_values_without_one_meaning_are_refused_by_path(value: Any, problem: str) -> None:
    """The error names the place and the problem; nothing is guessed."""
    with pytest.raises(NotCanonical, match=problem) as refused:
        value_json({"items": [value]}, root="charge")
    assert refused.value.path.startswith("charge")


def test_nesting_that_canonical_json_takes_is_taken() -> None:
    """Four hundred levels of plain JSON are no problem."""
    assert value_json(deep(400)) == canonical_json(deep(400))


def test_secrets_are_encoded_by_digest() -> None:
    """No part of a secret is in the bytes; the same secret has the same digest."""
    written = value_json([SecretStr("hunter2"), SecretBytes(b"hunter2")])
    assert b"hunter2" not in written
    assert written == value_json([SecretStr("hunter2"), SecretBytes(b"hunter2")])


def test_private_attributes_and_computed_fields_do_not_count() -> None:
    """What a model works out for itself is no argument."""
    one, other = Order(id=1), Order(id=1)
    other._cached = 7
    assert value_json(one) == value_json(other) == b'{"id":1,"token":"t"}'


def test_a_decimal_is_never_rounded() -> None:
    """The precision and the capitals of the current context change no key."""
    value = Decimal("123456789.123456789")
    with localcontext() as context:
        context.prec, context.capitals = 3, 0
        assert json.loads(value_json([value, Decimal("1E+90")])) == ["123456789.123456789", "1E+90"]
