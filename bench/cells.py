"""Format a row of the results, the same for a terminal, the pages and JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.table import Beside, Row
from bench.timing import Spread, spread
from bench.units import times

#: Rows by the part of Onceward that they are about.
Parts = Mapping[str, Sequence[Row]]
HEADS = ("work", "Onceward", "peer", "times as fast", "share of the bare limit", "growth", "goal")
NONE = ""


def cells(row: Row) -> list[str]:
    """Return a row as text, in the order of `HEADS`."""
    return [row.work, _ours(row), *_peer(row), _limit(row), _growth(row), goals(row)]


def _ours(row: Row) -> str:
    bound = row.beside("bound")
    if bound is None:
        return row.shown(spread(row.ours).median)
    median, least, most = row.ratio(bound)
    return f"{row.shown(median)} ({row.shown(least)} to {row.shown(most)})"


def _peer(row: Row) -> tuple[str, str]:
    beside = row.beside("peer")
    if beside is None:
        return NONE, NONE
    if beside.missing:
        return beside.missing, NONE
    return f"{beside.name}, {_theirs(row, beside)}", _range(row.ratio(beside))


def _limit(row: Row) -> str:
    beside = row.beside("limit")
    if beside is None:
        return NONE
    median, least, most = row.ratio(beside)
    share = f"{median:.0%} ({least * 100:.0f} to {most * 100:.0f})"
    return f"{share} of {beside.name}, {_theirs(row, beside)}"


def _growth(row: Row) -> str:
    beside = row.beside("growth")
    if beside is None:
        return NONE
    return f"{_range(row.ratio(beside))}; {beside.name} {_theirs(row, beside)}"


def goals(row: Row) -> str:
    """Return every goal of a row, and whether it was reached."""
    said = [
        f"{goal(row, each)} {'met' if row.is_met(each) else 'missed'}"
        for each in row.besides
        if row.is_met(each) is not None
    ]
    return ", ".join(said)


def goal(row: Row, beside: Beside) -> str:
    """Return a goal as it is written down."""
    assert beside.goal is not None
    if beside.kind == "limit":
        return f"≥ {beside.goal:.0%}"
    if beside.kind == "bound":
        return f"≤ {row.shown(beside.goal)}"
    return f"{'≥' if beside.kind == 'peer' else '≤'} {beside.goal:g}"


def phrase(row: Row, beside: Beside) -> str:
    """Return a comparison in words."""
    if beside.missing:
        return beside.missing
    median = row.ratio(beside).median
    if beside.kind == "peer":
        return f"{times(median)} times as fast as {beside.name}"
    if beside.kind == "limit":
        return f"{median:.0%} of {beside.name}"
    if beside.kind == "growth":
        return f"{times(median)} times as long as {beside.name}"
    return f"{row.shown(median)}, where {goal(row, beside)} was the goal"


def misses(parts: Parts) -> list[str]:
    """Return a sentence for every goal that was not reached."""
    said = []
    for rows in parts.values():
        for row in rows:
            for beside in row.missed:
                wanted = "" if beside.kind == "bound" else f"; the goal was {goal(row, beside)}"
                why = beside.why or "The reason is not known yet."
                said.append(f"{row.work}: {phrase(row, beside)}{wanted}. {why}")
    return said


def tally(parts: Parts) -> str:
    """Return how many goals there were, and how many were reached."""
    verdicts = [row.is_met(each) for rows in parts.values() for row in rows for each in row.besides]
    goals = [each for each in verdicts if each is not None]
    return f"{len(goals)} goals, {sum(goals)} met, {len(goals) - sum(goals)} missed"


def record(part: str, row: Row) -> dict[str, Any]:
    """Return a row for machines."""
    return {
        "part": part,
        "work": row.work,
        "seconds": list(row.ours),
        "shown": row.shown(spread(row.ours).median),
        "beside": [
            {
                "kind": each.kind,
                "name": each.name,
                "seconds": list(each.seconds),
                "ratio": None if each.missing else row.ratio(each)._asdict(),
                "goal": each.goal,
                "is_met": row.is_met(each),
                "missing": each.missing or None,
            }
            for each in row.besides
        ],
    }


def _theirs(row: Row, beside: Beside) -> str:
    return row.shown(spread(beside.seconds).median)


def _range(ratio: Spread) -> str:
    return f"{times(ratio.median)} ({times(ratio.least)} to {times(ratio.most)})"
