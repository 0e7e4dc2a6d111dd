"""Iterable sources: whatever yields positions is a source."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import orjson
import pytest

from onceward.workers.sources import IterableSource


def numbers(after: str | None) -> Iterator[tuple[str, object]]:
    for number in range(int(after or 0) + 1, 6):
        yield str(number), {"n": number}


def test_a_generator_is_read_after_a_position() -> None:
    """In pages of any size each message comes once."""
    source = IterableSource(numbers)
    after, seen = None, []
    while items := source.read(after, 2):
        seen += [orjson.loads(item.raw)["n"] for item in items]
        after = items[-1].position
    assert seen == [1, 2, 3, 4, 5]


def test_a_list_will_do() -> None:
    """Anything that can be iterated is taken; bytes stay as they are."""
    source = IterableSource(lambda _: [("a", b"\xff raw"), ("b", "text")])
    assert [(item.position, item.raw) for item in source.read(None, 9)] == [
        ("a", b"\xff raw"),
        ("b", b'"text"'),
    ]


def test_generators_are_closed_when_the_page_is_full() -> None:
    """What a generator holds open is given back at once, after an error too."""
    closed: list[str | None] = []

    def careful(after: str | None) -> Iterator[tuple[str, object]]:
        try:
            yield from numbers(after)
            if after == "1":
                raise ConnectionError
        finally:
            closed.append(after)

    kept = []

    def make(after: str | None) -> Iterator[tuple[str, object]]:
        kept.append(careful(after))  # So that only the source closes it.
        return kept[-1]

    source = IterableSource(make)
    assert len(source.read(None, 2)) == 2
    assert closed == [None]
    with pytest.raises(ConnectionError):
        source.read("1", 100)
    assert closed == [None, "1"]


def test_values_that_json_does_not_know_have_one_form() -> None:
    """Moments in UTC with a Z, bytes as base64, decimals and UUIDs as text."""
    given = {
        "moment": datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))),
        "utc": datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC),
        "somewhere": datetime(2026, 1, 1, 12),  # noqa: DTZ001 - that is the point
        "day": date(2026, 1, 1),
        "time": time(12, 30),
        "bytes": b"\x00\xff",
        "price": Decimal("19.90"),
        "uuid": UUID("01234567-89ab-cdef-0123-456789abcdef"),
    }
    (item,) = IterableSource(lambda _: [("1", given)]).read(None, 1)
    assert orjson.loads(item.raw) == {
        "moment": "2026-01-01T10:00:00.000000Z",
        "utc": "2026-01-01T12:00:00.123456Z",
        "somewhere": "2026-01-01T12:00:00.000000",
        "day": "2026-01-01",
        "time": "12:30:00",
        "bytes": "AP8=",
        "price": "19.90",
        "uuid": "01234567-89ab-cdef-0123-456789abcdef",
    }


@pytest.mark.parametrize("value", [object(), {1, 2}, 2**70, "half \ud800", {"v": {3}}])
def test_what_has_no_form_cannot_be_decoded(value: object) -> None:
    """A guess would be a false message; an error would stop the messages after it."""
    given = [("1", 1), ("2", value), ("3", 3)]
    first, second, third = IterableSource(lambda _: given).read(None, 9)
    assert (first.raw, third.raw) == (b"1", b"3")
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(second.raw)
    assert repr(value).encode(errors="backslashreplace") in second.raw
