"""Shapes: what the last measures of a cursor look like, in a word."""

import pytest

from onceward.console.lag_trend import Sample, Shape, shape_of, spark_of


def line(*points: tuple[int, int | None]) -> list[Sample]:
    """Measures ten seconds apart: what was processed in all, and what was left."""
    return [
        Sample(seconds_ago=10.0 * (len(points) - number), processed=processed, left=left)
        for number, (processed, left) in enumerate(points)
    ]


@pytest.mark.parametrize(
    ("shape", "points"),
    [
        ("unknown", []),
        ("unknown", [(1, 5), (2, 5), (3, 5)]),
        ("unknown", [(n, None) for n in range(10)]),
        ("unknown", [(1, None), *((n, 5) for n in range(2, 10))]),
        ("quiet", [(7, 0)] * 6),
        ("quiet", [(n, 0) for n in range(20)]),
        ("quiet", [(n, 3 if n == 5 else 0) for n in range(20)]),
        ("climb", [(n, 10 * n) for n in range(20)]),
        ("climb", [(n, 1000 + 60 * n) for n in range(20)]),
        ("plateau", [(7, 50)] * 10),
        ("plateau", [(7, 50 + n) for n in range(10)]),
        ("plateau", [*((n, 5) for n in range(10)), *((9, 50 + n) for n in range(8))]),
        ("staircase", [(n // 5, 10 * n) for n in range(30)]),
        ("staircase", [(n // 5, 50) for n in range(1, 32)]),
        ("saw-tooth", [(n, (n % 5) * 20) for n in range(30)]),
        ("saw-tooth", [(10 * n, 1000 - 50 * n) for n in range(20)]),
    ],
)
def test_a_line_has_a_shape(shape: Shape, points: list[tuple[int, int | None]]) -> None:
    """It climbs, stands, goes in steps, swings or has nothing to do; else it is unknown."""
    assert shape_of(line(*points)) == shape


def test_a_small_line_shows_what_was_left() -> None:
    """Where that is unknown, it shows what was processed in between, never less than nothing."""
    assert spark_of([]) == []
    assert spark_of(line((1, 3), (2, 0))) == [3, 0]
    assert spark_of(line((1, None), (4, None), (2, None), (9, 4))) == [3, 0, 7]
