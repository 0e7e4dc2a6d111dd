"""Typed values, generated: one call for equal arguments, and one answer of one type for all."""

from __future__ import annotations

import enum
import itertools
from collections import Counter
from dataclasses import make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, create_model

from onceward.client import Onceward
from onceward.keys.values import value_json
from tests.support.evidence import Entry, Evidence
from tests.support.proof_length import examples_for


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    BIG = 2


class Kind(NamedTuple):
    """A type, and how its values are made."""

    annotation: Any
    values: st.SearchStrategy[Any]
    is_hashable: bool = True


texts = st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(["$", "$int", "$$x"])
zones = st.integers(-720, 720).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=zones)  # noqa: DTZ001 - these do
LEAVES = [
    Kind(bool, st.booleans()),
    Kind(int, st.integers() | st.integers(-3, 3) | st.sampled_from([2**53 + 1, 10**400])),
    Kind(float, st.floats(allow_nan=False, allow_infinity=False)),
    Kind(str, texts),
    Kind(bytes, st.binary(max_size=4)),
    Kind(Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    Kind(UUID, st.uuids()),
    Kind(date, st.dates()),
    Kind(datetime, moments),
    Kind(time, st.times()),
    Kind(timedelta, st.timedeltas(timedelta(days=-9999), timedelta(days=9999))),
    Kind(Color, st.sampled_from(Color)),
    Kind(Size, st.sampled_from(Size)),
]
leaves = st.sampled_from(LEAVES)
_numbers = itertools.count(1)


def model(fields: list[Kind]) -> Kind:
    """Return a pydantic model with these fields."""
    named = {f"f{number}": kind for number, kind in enumerate(fields)}
    types: dict[str, Any] = {name: (kind.annotation, ...) for name, kind in named.items()}
    made: type[BaseModel] = create_model(f"Model{next(_numbers)}", **types)
    made.model_config["ser_json_bytes"] = made.model_config["val_json_bytes"] = "base64"
    made.model_rebuild(force=True)
    values = {name: kind.values for name, kind in named.items()}
    return Kind(made, st.builds(made, **values), is_hashable=False)


def record(fields: list[Kind]) -> Kind:
    """Return a frozen dataclass with these fields; bytes in one are written as text."""
    safe = [kind if kind.annotation is not bytes else LEAVES[0] for kind in fields]
    names = [(f"f{number}", kind.annotation) for number, kind in enumerate(safe)]
    made = make_dataclass(f"Record{next(_numbers)}", names, frozen=True)
    values = st.tuples(*(kind.values for kind in safe))
    is_hashable = all(kind.is_hashable for kind in safe)
    return Kind(made, values.map(lambda each: made(*each)), is_hashable)


def larger(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    """Return kinds that hold others."""
    hashable = inner.filter(lambda kind: kind.is_hashable)
    return st.one_of(
        inner.map(lambda k: Kind(list[k.annotation], st.lists(k.values, max_size=3), False)),  # type: ignore[name-defined]
        inner.map(
            lambda k: Kind(
                tuple[k.annotation, ...],  # type: ignore[name-defined]
                st.lists(k.values, max_size=3).map(tuple),
                k.is_hashable,
            )
        ),
        inner.map(
            lambda k: Kind(
                dict[str, k.annotation],  # type: ignore[name-defined]
                st.dictionaries(texts, k.values, max_size=3),
                is_hashable=False,
            )
        ),
        inner.map(lambda k: Kind(k.annotation | None, k.values | st.none(), k.is_hashable)),
        hashable.map(lambda k: Kind(set[k.annotation], st.sets(k.values, max_size=3), False)),  # type: ignore[name-defined]
        models,
    )


fields = st.lists(leaves, min_size=1, max_size=3)
models = fields.map(model) | fields.map(record)
kinds = leaves | models | st.recursive(leaves, larger, max_leaves=4)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    """Return a type and two of its values."""
    kind = draw(kinds)
    return kind.annotation, draw(kind.values), draw(kind.values)


def respelled(value: Any) -> Any:
    """Return an equal value that is written in another way."""
    if isinstance(value, list):
        return [respelled(each) for each in value]
    if isinstance(value, dict):
        return {name: respelled(each) for name, each in reversed(value.items())}
    if isinstance(value, Decimal) and value.as_tuple().exponent == 0:
        return Decimal(f"{value}.00")
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, BaseModel):
        return value.model_copy(update={name: respelled(each) for name, each in value})
    return value


@pytest.mark.prove
def test_h51_equal_calls_are_one_and_a_replay_equals_the_first_answer(
    ow: Onceward, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """For every type: equal values equal keys, others other keys, and the same answer again."""
    seen: Counter[str] = Counter()

    @settings(
        max_examples=examples_for(ow, prove=prove, soak=soak, short=60),
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(pairs())
    def hold(drawn: tuple[Any, Any, Any]) -> None:
        annotation, one, other = drawn
        assert (value_json(one) == value_json(other)) == (one == other)
        ran: list[Any] = []

        def work(value: Any) -> Any:
            ran.append(value)
            return value

        work.__annotations__["return"] = annotation
        seen["types"] += 1
        call = ow.once(scope=f"run {seen['types']}")(work)
        first, again = call(one), call(respelled(one))
        assert first == again == one
        assert type(first) is type(again) is type(one)
        assert value_json(first) == value_json(again) == value_json(one)
        assert call(other) == other
        expected = 1 if one == other else 2
        assert len(ran) == expected
        seen["doubled"] += len(ran) - expected
        seen["other arguments"] += expected - 1
        seen["nested"] += not isinstance(annotation, type)

    hold()
    evidence.record(
        Entry(
            campaign="typed arguments and results, generated",
            layer="values",
            claims=("I1", "I2"),
            engine=ow.store.engine,
            schedules=seen["types"],
            faults={"the same call, spelled in another way": seen["types"]},
            doubled=seen["doubled"],
            work=seen["types"] + seen["other arguments"],
            reached={"other arguments": seen["other arguments"], "nested types": seen["nested"]},
        )
    )
