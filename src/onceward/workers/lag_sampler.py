"""Lag sampler: measure the lag of a process's cursors in the background, and store it.

Cursors without partitions are measured periodically, partitions only while they were active
recently, so that ten thousand idle ones cost nothing. Nothing is measured per message.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import orjson

from onceward.client import Onceward
from onceward.errors import OncewardError
from onceward.stores import Row, Transaction
from onceward.system import Clock, Randomness, SystemClock, SystemRandomness, timestamp
from onceward.workers.periodic import repeating
from onceward.workers.source_protocol import Lag, Measurable, Source

#: Approximate interval between measurements of a cursor, over all processes.
MEASURE_SECONDS: Final = 10.0
#: A partition is measured for this long after its last activity, so that the last value is idle.
RECENT_SECONDS: Final = 30.0
#: How often a process checks which cursors are due.
TICK_SECONDS: Final = 1.0
#: Time limit of the final measurements at shutdown.
FINAL_SECONDS_MAX: Final = 2.0
#: Cursors per commit.
BATCH_MAX: Final = 500
#: Time constant of the rate's moving average: a jump shows soon, a pause between batches does not.
RATE_MEMORY_SECONDS: Final = 60.0
#: The first rate is computed over at least this time.
_FIRST_SECONDS_MIN: Final = 5.0
HELD_BACK_CHARACTERS_MAX: Final = 500
#: Samples that one process stores per second; with many cursors each has fewer.
SAMPLES_PER_SECOND_MAX: Final = 10
#: A longer position is not stored in a sample.
POSITION_CHARACTERS_MAX: Final = 200
_log: Final = logging.getLogger("onceward.workers")


class _SampledCursor:
    """One cursor that this process measures."""

    __slots__ = ("active_at", "due", "is_partition", "source")

    def __init__(self, source: Source, due: float, *, is_partition: bool) -> None:
        self.source = source
        self.is_partition = is_partition
        self.due = due
        #: When it was last active.
        self.active_at = -math.inf


class LagSampler:
    """Measures the cursors of one process and stores the results."""

    def __init__(
        self, ow: Onceward, *, clock: Clock | None = None, randomness: Randomness | None = None
    ) -> None:
        """Start without cursors."""
        self._ow = ow
        self._clock = clock or SystemClock()
        self._randomness = randomness or SystemRandomness()
        self._mutex = threading.Lock()
        #: Serializes the thread's measurements and the final one.
        self._measure_lock = threading.Lock()
        self._cursors: dict[str, _SampledCursor] = {}
        #: Cursors without partitions, and recently active partitions.
        self._watched: set[str] = set()
        self._unmeasurable: set[str] = set()
        self._recorded_lag_due = -math.inf

    def add(self, name: str, source: Source, *, is_partition: bool) -> None:
        """Add a cursor; a partition is measured once it was active."""
        with self._mutex:
            due = self._clock.monotonic() + MEASURE_SECONDS * self._randomness.fraction()
            self._cursors[name] = _SampledCursor(source, due, is_partition=is_partition)
            if not is_partition:
                self._watched.add(name)

    def mark_active(self, name: str) -> None:
        """Record a poll cycle that was not idle. Cheap."""
        with self._mutex:
            known = self._cursors.get(name)
            if known is not None:
                known.active_at = self._clock.monotonic()
                self._watched.add(name)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure in a thread while the block runs, and a last time at its end."""
        with repeating("measuring", self._tick):
            yield
        with suppress(OncewardError):
            self.measure(is_last=True)

    def measure(self, *, is_last: bool = False) -> int:
        """Measure due cursors, or with `is_last` all watched ones; return how many."""
        # The thread may be stuck in a store that does not answer; shutdown does not wait for it.
        if not self._measure_lock.acquire(timeout=FINAL_SECONDS_MAX if is_last else -1):
            return 0
        try:
            total = 0
            self._watch_recorded_lag()
            names = self._due(is_last=is_last)
            until = self._clock.monotonic() + FINAL_SECONDS_MAX if is_last else math.inf
            for first in range(0, len(names), BATCH_MAX):
                total += self._measure(names[first : first + BATCH_MAX], until)
            return total
        finally:
            self._measure_lock.release()

    def _tick(self) -> float:
        self.measure()
        return TICK_SECONDS

    def _watch_recorded_lag(self) -> None:
        """Watch cursors with recorded lag: the process that measured them may have died."""
        now = self._clock.monotonic()
        if now < self._recorded_lag_due:
            return
        self._recorded_lag_due = now + MEASURE_SECONDS
        for name, _ in self._ow.store.read("alert_lag"):
            self.mark_active(name)

    def _due(self, *, is_last: bool) -> list[str]:
        """Return the cursors to measure now, and set when each is due again."""
        now = self._clock.monotonic()
        due = []
        with self._mutex:
            for name in sorted(self._watched):
                known = self._cursors[name]
                if not is_last and known.due > now:
                    continue
                due.append(name)
                known.due = now + MEASURE_SECONDS * (0.9 + 0.2 * self._randomness.fraction())
                if known.is_partition and now - known.active_at > RECENT_SECONDS:
                    self._watched.discard(name)
        return due

    def _measure(self, names: list[str], until: float) -> int:
        # Another process may measure the same cursors: the second one skips fresh values.
        seconds = MEASURE_SECONDS / 2 if until == math.inf else 0.0
        named = orjson.dumps(names).decode()
        rows = self._ow.store.read("measure_due", names=named, seconds=seconds)
        taken = []
        for row in rows:
            if self._clock.monotonic() > until:
                break
            if (measured := self._measure_cursor(row)) is not None:
                taken.append(measured)
        if taken:
            self._record(taken)
        return len(taken)

    def _record(self, taken: list[dict[str, Any]]) -> None:
        """Store measurements, and periodically one per cursor as a sample, in one commit."""
        rows = orjson.dumps(taken).decode()
        names = orjson.dumps([each["cursor"] for each in taken]).decode()
        apart = max(MEASURE_SECONDS, len(self._watched) / SAMPLES_PER_SECOND_MAX)

        def write(tx: Transaction) -> None:
            tx.query("measure_write", rows=rows)
            tx.query(
                "sample_add",
                names=names,
                # Measurements come a little earlier or later than planned.
                seconds=0.8 * apart,
                characters=POSITION_CHARACTERS_MAX,
            )

        self._ow.store.run_in_own_transaction(write)

    def _measure_cursor(self, row: Row) -> dict[str, Any] | None:
        """Measure one cursor; return None when its source fails."""
        name, position, processed, age, old_position, old_messages, old_seconds, *more = row
        old_processed, old_rate, parked, parked_seconds = more
        try:
            lag = _lag(self._cursors[name].source, position)
        except Exception as exc:  # noqa: BLE001 - a user's source; measure the other cursors
            self._warn_once(name, exc)
            return None
        self._unmeasurable.discard(name)
        seconds: float | None = None
        if lag is not None:
            was_behind = old_messages != 0 and old_seconds is not None
            is_stuck = lag.messages != 0 and was_behind and position == old_position
            # Without timestamps: at an unchanged position, messages have waited at least this long.
            seconds = old_seconds + age if is_stuck else 0.0
        return {
            "cursor": name,
            "position": position,
            "messages": None if lag is None or lag.messages is None else lag.messages + parked,
            "seconds": seconds,
            "parked_seconds": parked_seconds,
            "oldest_at": timestamp(lag.oldest_at) if lag and lag.oldest_at else None,
            "held_back_by": _truncated(lag.held_back_by) if lag else None,
            "processed": processed,
            "rate": None if age is None else _rate(processed - old_processed, age, old_rate),
        }

    def _warn_once(self, name: str, error: Exception) -> None:
        """Log a failure once, until a measurement succeeds."""
        if name in self._unmeasurable:
            return
        self._unmeasurable.add(name)
        facts = {"action": "lag_measurement_failed", "cursor": name, "error": repr(error)}
        text = "lag measurement failed"
        _log.warning("%s on %s: %s", text, name, error, extra={"event": text, "facts": facts})


def _lag(source: Source, position: str | None) -> Lag | None:
    """Return the lag after a position, or None if the source cannot report it."""
    if not isinstance(source, Measurable):
        return None
    lag = source.lag(position)
    if lag.messages == 0:
        return replace(lag, oldest_at=None)
    if lag.messages is None and lag.oldest_at is None and not source.read(position, 1):
        # The source cannot count, but an empty read proves that there is no lag.
        return replace(lag, messages=0)
    return lag


def _truncated(text: str | None) -> str | None:
    return text[:HELD_BACK_CHARACTERS_MAX] if text else None


def _rate(processed: int, seconds: float, before: float | None) -> float:
    """Return messages per minute as a moving average with the previous rate."""
    processed = max(0, processed)
    if before is None:
        return 60.0 * processed / max(seconds, _FIRST_SECONDS_MIN)
    seconds = max(seconds, 0.001)
    weight = 1.0 - math.exp(-seconds / RATE_MEMORY_SECONDS)
    return before + weight * (60.0 * processed / seconds - before)
