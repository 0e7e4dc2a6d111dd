"""Encoding: whatever the reader reads can be written, at any depth, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.keys import encoding
from onceward.keys.encoding import encoded


@dataclass(frozen=True, kw_only=True, slots=True)
class Outer:
    name: str
    inner: Any


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text()
    | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize("levels", [1, 253, 254, 255, 256, 500, 1000])
@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ("[1,", ",{}]")])
def test_every_depth_that_can_be_read_can_be_written(
    levels: int, opening: str, closing: str
) -> None:
    """The text comes back as it was, with what stands beside and inside, and nothing is changed."""
    deep = f"{opening * levels}null{closing * levels}"
    text = f'{{"items":[{{"id":"a"}},{{"id":"b","extra":{deep},"c":[]}},{{}}],"next":"7"}}'
    value = orjson.loads(text)
    assert encoded(value).decode() == text
    assert encoded(value).decode() == text
    assert encoded(orjson.loads(deep)).decode() == deep


@pytest.mark.parametrize("levels", [1, 10, 500])
def test_a_dataclass_is_an_object_of_its_fields(levels: int) -> None:
    """At any depth, and with what the encoder alone would find too deep inside."""
    deep = orjson.loads("[" * levels + "]" * levels)
    value: Any = Outer(name="a", inner=[Outer(name="b", inner=deep)])
    plain: Any = {"name": "a", "inner": [{"name": "b", "inner": deep}]}
    for _ in range(6):
        value, plain = [value], [plain]
    assert encoded(value) == encoded(plain)


@given(VALUES)
def test_piece_by_piece_is_the_same_as_at_once(value: Any) -> None:
    """The slow way writes what the fast way does."""
    assert encoding._encoded_deep([[[[[value]]]]]) == orjson.dumps([[[[[value]]]]])


@pytest.mark.parametrize("wrong", [object(), b"x", {1: 2}, 2**70])
def test_what_is_no_json_is_refused_at_any_depth(wrong: object) -> None:
    """It is a mistake of ours, and not written as something else."""
    for levels in (0, 10, 400):
        value = wrong
        for _ in range(levels):
            value = [value]
        with pytest.raises(TypeError):
            encoded(value)
