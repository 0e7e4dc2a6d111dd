"""Measures: how far behind each cursor was when a worker last looked, kept in the store.

Any process can show them, a dead worker's too: a measure that is not renewed ages, and what it
left behind grows older with it. `measuring` takes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import orjson

from onceward.cursors.models import LIST_ROWS_MAX
from onceward.handle import Onceward
from onceward.stores import Row

#: A measured rate counts for so long; afterwards what was processed since is the better answer.
RATE_SECONDS_MAX: Final = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """How far behind one cursor is, as far as anybody knows."""

    cursor: str
    #: Messages after its position, and parked ones, when it was measured; None when nobody can
    #: tell, or the cursor was moved by hand since.
    messages: int | None
    #: How long the oldest of them has waited by now, 0 when there was none; None when nobody can
    #: tell.
    lag_seconds: float | None
    #: When that message came to be, if its source knows.
    oldest_at: str | None
    #: What keeps its source from giving more, such as an old transaction.
    held_back_by: str | None
    #: Messages processed in a minute, lately; None after a single measure.
    rate_per_minute: float | None
    measured_at: str
    #: How long ago that was, by the store's own clock.
    age_seconds: float

    @property
    def drain_seconds(self) -> float | None:
        """Return how long it takes to catch up at this rate; None when that is unknown or never."""
        if self.messages == 0:
            return 0.0
        if self.messages is None or not self.rate_per_minute:
            return None
        return 60.0 * self.messages / self.rate_per_minute


class Measures:
    """What was measured of the cursors of one store."""

    def __init__(self, ow: Onceward) -> None:
        """Read them from this store."""
        self._ow = ow

    def of(self, names: Iterable[str]) -> dict[str, Measure]:
        """Return the measures of these cursors, by name; nothing for those never measured."""
        named = orjson.dumps(sorted(set(names))).decode()
        return _by_name(self._ow.store.read("measure_named", names=named))

    def list(self, pattern: str = "*") -> dict[str, Measure]:
        """Return all there are, by name."""
        found = _by_name(self._ow.store.read("measure_list", limit=LIST_ROWS_MAX))
        return {name: each for name, each in found.items() if fnmatchcase(name, pattern)}


def _by_name(rows: Iterable[Row]) -> dict[str, Measure]:
    return {row[0]: _measure(row) for row in rows}


def _measure(row: Row) -> Measure:
    name, messages, seconds, oldest_at, held_back_by, rate, measured_at, age, since, is_moved = row
    if is_moved:
        messages = seconds = oldest_at = None
    return Measure(
        cursor=name,
        messages=messages,
        lag_seconds=_lag_seconds(messages, seconds, age),
        oldest_at=oldest_at,
        held_back_by=held_back_by,
        rate_per_minute=_rate(rate, age, since),
        measured_at=measured_at,
        age_seconds=age,
    )


def _lag_seconds(messages: int | None, seconds: float | None, age: float) -> float | None:
    """Let what was left behind grow older, whoever was to look after it."""
    if messages == 0:
        return 0.0
    return None if seconds is None else seconds + age


def _rate(rate: float | None, age: float, since: int) -> float | None:
    if age <= RATE_SECONDS_MAX:
        return rate
    return max(0.0, 60.0 * since / age)
