"""Lag records: read the last measured lag of each cursor from the store.

Any process can show them, also those of a dead worker: the lag in seconds grows with the age of the
measurement. `lag_sampler` writes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import orjson

from onceward.client import Onceward
from onceward.cursors.models import LIST_ROWS_MAX
from onceward.stores import Row

#: A measured rate is valid this long; afterwards the messages processed since give a better one.
RATE_SECONDS_MAX: Final = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class LagMeasurement:
    """The last measured lag of one cursor."""

    cursor: str
    #: Messages after its position, and parked ones, when it was measured; None when unknown, or
    #: when an operator moved the cursor since.
    messages: int | None
    #: How long the oldest of them has waited by now; 0 when there was none, None when unknown.
    lag_seconds: float | None
    #: When that message was created, if its source knows.
    oldest_at: str | None
    #: What blocks later messages of its source, such as an old transaction.
    held_back_by: str | None
    #: Recent messages processed per minute; None after a single measurement.
    rate_per_minute: float | None
    measured_at: str
    #: Age of the measurement by the store's clock.
    age_seconds: float

    @property
    def drain_seconds(self) -> float | None:
        """Return the estimated time to catch up; None when unknown or never."""
        if self.messages == 0:
            return 0.0
        if self.messages is None or not self.rate_per_minute:
            return None
        return 60.0 * self.messages / self.rate_per_minute


class LagRecords:
    """The lag records of one store."""

    def __init__(self, ow: Onceward) -> None:
        """Read them from this store."""
        self._ow = ow

    def of(self, names: Iterable[str]) -> dict[str, LagMeasurement]:
        """Return the records of these cursors by name; cursors never measured are left out."""
        named = orjson.dumps(sorted(set(names))).decode()
        return _by_name(self._ow.store.read("measure_named", names=named))

    def list(self, pattern: str = "*") -> dict[str, LagMeasurement]:
        """Return all records of cursors that match the pattern, by name."""
        found = _by_name(self._ow.store.read("measure_list", limit=LIST_ROWS_MAX))
        return {name: each for name, each in found.items() if fnmatchcase(name, pattern)}


def _by_name(rows: Iterable[Row]) -> dict[str, LagMeasurement]:
    return {row[0]: _measure(row) for row in rows}


def _measure(row: Row) -> LagMeasurement:
    name, messages, seconds, oldest_at, held_back_by, rate, measured_at, age, since, is_moved = row
    if is_moved:
        messages = seconds = oldest_at = None
    return LagMeasurement(
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
    """Return the lag with the age of the measurement added, unless there was none."""
    if messages == 0:
        return 0.0
    return None if seconds is None else seconds + age


def _rate(rate: float | None, age: float, since: int) -> float | None:
    if age <= RATE_SECONDS_MAX:
        return rate
    return max(0.0, 60.0 * since / age)
