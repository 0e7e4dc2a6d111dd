"""Measuring: how one process finds out how far behind its cursors are.

Every cursor without partitions is measured now and then; a partition only while it has had
something to do lately, so that ten thousand idle ones cost nothing. Never per message.
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

from onceward.errors import OncewardError
from onceward.handle import Onceward
from onceward.seams import Clock, Randomness, SystemClock, SystemRandomness, timestamp
from onceward.stores import Row, Transaction
from onceward.workers.rounds import rounds
from onceward.workers.source import Lag, Measurable, Source

#: About how often a cursor is measured, whichever process does it.
MEASURE_SECONDS: Final = 10.0
#: A partition is measured for so long after its last work, so that its last measure is a quiet one.
RECENT_SECONDS: Final = 30.0
#: How often a process looks which of them are due; they are spread out.
LOOK_SECONDS: Final = 1.0
#: An end takes so long for the last measures, and no longer.
LAST_SECONDS_MAX: Final = 2.0
#: In one go, in one commit.
BATCH_MAX: Final = 500
#: What a rate forgets by two thirds: a jump shows soon, a pause between two batches does not.
RATE_MEMORY_SECONDS: Final = 60.0
#: No first rate is made of less time than this.
_FIRST_SECONDS_MIN: Final = 5.0
HELD_BACK_CHARACTERS_MAX: Final = 500
#: Samples that one process keeps in a second: where there are many cursors, each has fewer.
SAMPLES_PER_SECOND_MAX: Final = 10
#: A longer position is not kept in a sample.
POSITION_CHARACTERS_MAX: Final = 200
_log: Final = logging.getLogger("onceward.workers")


class _Known:
    """One cursor of this process."""

    __slots__ = ("due", "is_partition", "source", "worked")

    def __init__(self, source: Source, due: float, *, is_partition: bool) -> None:
        self.source = source
        self.is_partition = is_partition
        self.due = due
        #: When it last had something to do.
        self.worked = -math.inf


class Measuring:
    """The cursors that one process measures."""

    def __init__(
        self, ow: Onceward, *, clock: Clock | None = None, randomness: Randomness | None = None
    ) -> None:
        """Know none."""
        self._ow = ow
        self._clock = clock or SystemClock()
        self._randomness = randomness or SystemRandomness()
        self._mutex = threading.Lock()
        #: One round at a time: the thread's, and the last one at the end.
        self._turn = threading.Lock()
        self._known: dict[str, _Known] = {}
        #: Partitions that had something to do lately, and all that are none.
        self._watched: set[str] = set()
        self._unmeasurable: set[str] = set()
        self._leftovers_due = -math.inf

    def add(self, name: str, source: Source, *, is_partition: bool) -> None:
        """Know a cursor; a partition is measured once it has worked."""
        with self._mutex:
            due = self._clock.monotonic() + MEASURE_SECONDS * self._randomness.fraction()
            self._known[name] = _Known(source, due, is_partition=is_partition)
            if not is_partition:
                self._watched.add(name)

    def worked(self, name: str) -> None:
        """Note that a cursor has something to do: a turn that was not idle. Cheap."""
        with self._mutex:
            known = self._known.get(name)
            if known is not None:
                known.worked = self._clock.monotonic()
                self._watched.add(name)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure in a thread while the block runs, and once more at its end."""
        with rounds("measuring", self._round):
            yield
        with suppress(OncewardError):
            self.measure(is_last=True)

    def measure(self, *, is_last: bool = False) -> int:
        """Measure what is due, or with `is_last` all that is watched; return how many."""
        # The thread may be stuck in a store that does not answer; an end does not wait for it.
        if not self._turn.acquire(timeout=LAST_SECONDS_MAX if is_last else -1):
            return 0
        try:
            total = 0
            self._watch_leftovers()
            names = self._due(is_last=is_last)
            until = self._clock.monotonic() + LAST_SECONDS_MAX if is_last else math.inf
            for first in range(0, len(names), BATCH_MAX):
                total += self._measure(names[first : first + BATCH_MAX], until)
            return total
        finally:
            self._turn.release()

    def _round(self) -> float:
        self.measure()
        return LOOK_SECONDS

    def _watch_leftovers(self) -> None:
        """Watch what is said to be behind: whoever measured it may have died since."""
        now = self._clock.monotonic()
        if now < self._leftovers_due:
            return
        self._leftovers_due = now + MEASURE_SECONDS
        for name, _ in self._ow.store.read("alert_lag"):
            self.worked(name)

    def _due(self, *, is_last: bool) -> list[str]:
        """Return the cursors to measure now, and plan when each is due again."""
        now = self._clock.monotonic()
        due = []
        with self._mutex:
            for name in sorted(self._watched):
                known = self._known[name]
                if not is_last and known.due > now:
                    continue
                due.append(name)
                known.due = now + MEASURE_SECONDS * (0.9 + 0.2 * self._randomness.fraction())
                if known.is_partition and now - known.worked > RECENT_SECONDS:
                    self._watched.discard(name)
        return due

    def _measure(self, names: list[str], until: float) -> int:
        # Another process may know the same cursors: who comes second has nothing to do.
        seconds = MEASURE_SECONDS / 2 if until == math.inf else 0.0
        named = orjson.dumps(names).decode()
        rows = self._ow.store.read("measure_due", names=named, seconds=seconds)
        taken = []
        for row in rows:
            if self._clock.monotonic() > until:
                break
            if (measured := self._take(row)) is not None:
                taken.append(measured)
        if taken:
            self._keep(taken)
        return len(taken)

    def _keep(self, taken: list[dict[str, Any]]) -> None:
        """Write them down, and now and then one of each as a sample, in one commit."""
        rows = orjson.dumps(taken).decode()
        names = orjson.dumps([each["cursor"] for each in taken]).decode()
        apart = max(MEASURE_SECONDS, len(self._watched) / SAMPLES_PER_SECOND_MAX)

        def write(tx: Transaction) -> None:
            tx.query("measure_write", rows=rows)
            tx.query(
                "sample_add",
                names=names,
                # Measures come a little earlier or later than planned.
                seconds=0.8 * apart,
                characters=POSITION_CHARACTERS_MAX,
            )

        self._ow.store.write_apart(write)

    def _take(self, row: Row) -> dict[str, Any] | None:
        """Ask the source of one cursor; None when it fails."""
        name, position, processed, age, old_position, old_messages, old_seconds, *more = row
        old_processed, old_rate, parked, parked_seconds = more
        try:
            lag = _lag(self._known[name].source, position)
        except Exception as exc:  # noqa: BLE001 - a source of the user's; the others are measured
            self._tell(name, exc)
            return None
        self._unmeasurable.discard(name)
        seconds: float | None = None
        if lag is not None:
            was_behind = old_messages != 0 and old_seconds is not None
            is_stuck = lag.messages != 0 and was_behind and position == old_position
            # Without a time of its own, what stands where it stood has waited since then at least.
            seconds = old_seconds + age if is_stuck else 0.0
        return {
            "cursor": name,
            "position": position,
            "messages": None if lag is None or lag.messages is None else lag.messages + parked,
            "seconds": seconds,
            "parked_seconds": parked_seconds,
            "oldest_at": timestamp(lag.oldest_at) if lag and lag.oldest_at else None,
            "held_back_by": _cut(lag.held_back_by) if lag else None,
            "processed": processed,
            "rate": None if age is None else _rate(processed - old_processed, age, old_rate),
        }

    def _tell(self, name: str, error: Exception) -> None:
        """Say so once, until it works again."""
        if name in self._unmeasurable:
            return
        self._unmeasurable.add(name)
        facts = {"action": "measure_failed", "cursor": name, "error": repr(error)}
        text = "cannot measure"
        _log.warning("%s %s: %s", text, name, error, extra={"event": text, "facts": facts})


def _lag(source: Source, position: str | None) -> Lag | None:
    """Return what lies behind a position, None when nobody can tell."""
    if not isinstance(source, Measurable):
        return None
    lag = source.lag(position)
    if lag.messages == 0:
        return replace(lag, oldest_at=None)
    if lag.messages is None and lag.oldest_at is None and not source.read(position, 1):
        # It could not count, but it can be seen that there is nothing to count.
        return replace(lag, messages=0)
    return lag


def _cut(text: str | None) -> str | None:
    return text[:HELD_BACK_CHARACTERS_MAX] if text else None


def _rate(processed: int, seconds: float, before: float | None) -> float:
    """Return messages in a minute, with some memory of the rate before."""
    processed = max(0, processed)
    if before is None:
        return 60.0 * processed / max(seconds, _FIRST_SECONDS_MIN)
    seconds = max(seconds, 0.001)
    weight = 1.0 - math.exp(-seconds / RATE_MEMORY_SECONDS)
    return before + weight * (60.0 * processed / seconds - before)
