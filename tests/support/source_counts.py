"""Counting: what holds for every source that can count, whatever it reads."""

from typing import Any


def check_counts(source: Any) -> None:
    """See that a source of three messages counts those between two positions."""
    first, second, third = (item.position for item in source.read(None, 10))
    assert source.count(None, third) == 3
    assert source.count(first, third) == 2
    assert source.count(second, second) == 0
    assert source.count(third, first) == 0
    assert source.count(third, None) == 0
