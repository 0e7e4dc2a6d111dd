"""The table of benchmarks: how ratios are made, judged, and said."""

import pytest

from bench import cells
from bench.table import Beside, Row, bound, growth, limit
from bench.timing import Run, turns
from bench.units import milli, per_second


def row(ours: tuple[float, ...], *besides: Beside) -> Row:
    return Row(work="some work", ours=ours, shown=per_second, besides=besides)


def peer(seconds: tuple[float, ...], goal: float, why: str = "") -> Beside:
    return Beside(kind="peer", name="Other 1.0", seconds=seconds, goal=goal, why=why)


def test_a_ratio_is_the_median_of_each_repetition_with_its_neighbour() -> None:
    """A repetition in which the machine was busy for both sides does not move the ratio."""
    beside = peer((3.0, 30.0, 2.0), 3)
    compared = row((1.0, 10.0, 1.0), beside)
    assert compared.ratio(beside) == (3, 2, 3)
    assert compared.is_met(beside)


@pytest.mark.parametrize(
    ("beside", "is_met"),
    [
        (peer((2.0,), 2), True),
        (peer((2.0,), 2.1), False),
        (limit("a loop", (0.5,), 0.5), True),
        (limit("a loop", (0.5,), 0.6), False),
        (growth("with less", (0.5,), 2), True),
        (growth("with less", (0.5,), 1.9), False),
        (bound(1.0), True),
        (bound(0.9), False),
        (limit("a loop", (0.5,)), None),
    ],
)
def test_goals_are_judged_by_their_kind(beside: Beside, is_met: bool | None) -> None:
    """Peers and limits are to be reached, growth and bounds are not to be passed."""
    assert row((1.0,), beside).is_met(beside) is is_met


def test_a_missed_goal_is_reported_with_its_reason_and_a_met_one_is_not() -> None:
    """What was lost stands in the table as lost; the reason is printed only then."""
    lost, won = peer((0.1,), 2, why="Its client is faster."), peer((0.3,), 2, why="unread")
    parts = {"Once": [row((0.1,), lost), row((0.1,), won)]}
    (said,) = cells.misses(parts)
    assert said == (
        "some work: 1.00 times as fast as Other 1.0; the goal was ≥ 2. Its client is faster."
    )
    assert cells.tally(parts) == "2 goals, 1 met, 1 missed"
    assert cells.cells(parts["Once"][0])[-1] == "≥ 2 missed"


def test_a_missing_peer_is_named_in_its_row_and_has_no_ratio() -> None:
    """Without a peer there is no ratio, and no goal is met or missed."""
    absent = Beside(kind="peer", name="Other", goal=2, missing="Other cannot be installed")
    measured = row((0.1,), absent, limit("a loop", (0.05,), 0.4))
    shown = dict(zip(cells.HEADS, cells.cells(measured), strict=True))
    assert shown["peer"] == "Other cannot be installed"
    assert shown["times as fast"] == ""
    assert shown["goal"] == "≥ 40% met"
    assert measured.missing == ["Other cannot be installed"]
    assert cells.record("Once", measured)["beside"][0]["ratio"] is None


def test_a_row_reads_the_same_for_people_and_machines() -> None:
    """Every column is filled from the same medians."""
    besides = (peer((0.4, 0.4, 0.4), 3), limit("a loop", (0.1, 0.08, 0.09), 0.8))
    full = row((0.1, 0.1, 0.1), *besides, growth("with less", (0.1, 0.1, 0.1), 1.3))
    assert cells.cells(full) == [
        "some work",
        "10/s",
        "Other 1.0, 2/s",
        "4.00 (4.00 to 4.00)",
        "90% (80 to 100) of a loop, 11/s",
        "1.00 (1.00 to 1.00); with less 10/s",
        "≥ 3 met, ≥ 80% met, ≤ 1.3 met",
    ]
    found = cells.record("Once", full)
    assert [each["kind"] for each in found["beside"]] == ["peer", "limit", "growth"]
    assert found["beside"][0]["ratio"]["median"] == 4


def test_a_bound_shows_how_far_the_repetitions_lie_apart() -> None:
    """Without a peer, the spread is that of our own times."""
    timed = Row(work="start", ours=(0.01, 0.03, 0.02), shown=milli, besides=(bound(0.02),))
    ours, goal = cells.cells(timed)[1], cells.cells(timed)[-1]
    assert ours == "20.00 ms (10.00 ms to 30.00 ms)"
    assert goal == "≤ 20.00 ms met"


def test_rounds_take_turns() -> None:
    """Each side is measured once before any is measured again."""
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = turns({"a": lambda: side("a"), "b": lambda: side("b")}, 3)
    assert order == ["a", "b"] * 3
    assert found == {"a": (1, 3, 5), "b": (2, 4, 6)}


def test_a_whole_run_repeats_at_least_three_times() -> None:
    """A median of fewer is refused; a quick run only shows that everything works."""
    with pytest.raises(AssertionError):
        Run().repetitions(2)
    assert Run().repetitions() >= 3
    assert Run(is_quick=True).size(1_000, quick=1) == 1
