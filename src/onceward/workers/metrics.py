"""Metrics: what Prometheus reads, of a store and of this process.

The store is asked five short questions for each page, in a thread of their own: one that is dead or
slow costs a page nothing but what only the store knows.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from onceward.cursors import CursorState
from onceward.cursors.models import LIST_ROWS_MAX, OWN_PREFIX, state_of
from onceward.handle import Onceward
from onceward.seams import Clock, SystemClock
from onceward.version import __version__
from onceward.workers.alert_models import KINDS
from onceward.workers.alerts import Alerts
from onceward.workers.measures import Measure, Measures
from onceward.workers.reports import Counts, Reports
from onceward.workers.timings import BUCKETS, Timings

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
#: A page waits so long for the store.
STORE_SECONDS_MAX: Final = 3.0
#: A question that was not answered for so long is given up, and asked anew.
GIVE_UP_SECONDS: Final = 30.0
#: Questions that were given up and may still hang somewhere.
HANGING_MAX: Final = 4
_NUMBER: Final = re.compile(r"-?[0-9]{1,300}(\.[0-9]{1,300})?")


class _Cursor(NamedTuple):
    """All that the store says about one cursor."""

    state: CursorState
    measure: Measure | None
    parked: int
    dead: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Readings:
    """What the store answered."""

    cursors: tuple[_Cursor, ...]
    #: Alerts that fire, by kind.
    firing: Mapping[str, int]


class _Gauge(NamedTuple):
    """A number for each cursor; None where nobody knows."""

    name: str
    help: str
    value: Callable[[_Cursor], float | None]


def _position(cursor: _Cursor) -> float | None:
    """Return a position that is a number as one; any other is nobody's business here."""
    text = cursor.state.position
    if text is None or not _NUMBER.fullmatch(text):
        return None
    return float(text)


def _measured(value: Callable[[Measure], float | None]) -> Callable[[_Cursor], float | None]:
    return lambda cursor: None if cursor.measure is None else value(cursor.measure)


#: Of every cursor; `docs/reference/metrics.md` says more.
CURSOR_GAUGES: Final = (
    _Gauge("cursor_last_position", "Position, where it is a number.", _position),
    _Gauge(
        "cursor_processed_rate_per_minute",
        "Messages processed in a minute, lately.",
        _measured(lambda measure: measure.rate_per_minute),
    ),
    _Gauge(
        "cursor_lag_seconds",
        "Age of the oldest message that is not processed, parked or not; 0 when there is none.",
        _measured(lambda measure: measure.lag_seconds),
    ),
    _Gauge(
        "cursor_error_count",
        "Failed attempts since the last message that succeeded.",
        lambda cursor: cursor.state.error_count,
    ),
    _Gauge(
        "cursor_lease_steal_count",
        "How often a worker took over from another whose lease ran out.",
        lambda cursor: cursor.state.steal_count,
    ),
    _Gauge(
        "onceward_cursor_lag_messages",
        "Messages that are not processed, parked ones among them.",
        _measured(lambda measure: measure.messages),
    ),
    _Gauge(
        "onceward_cursor_drain_seconds",
        "How long it takes to catch up at the present rate.",
        _measured(lambda measure: measure.drain_seconds),
    ),
    _Gauge(
        "onceward_cursor_measure_age_seconds",
        "How long ago a worker last looked how far behind the cursor is.",
        _measured(lambda measure: measure.age_seconds),
    ),
    _Gauge(
        "onceward_cursor_parked_messages",
        "Messages that failed, or wait behind one, and will be tried again.",
        lambda cursor: cursor.parked,
    ),
    _Gauge(
        "onceward_cursor_dead_letters",
        "Messages that were given up and wait for a person.",
        lambda cursor: cursor.dead,
    ),
    _Gauge("onceward_cursor_held", "1 while a worker holds it.", lambda each: each.state.is_held),
    _Gauge("onceward_cursor_paused", "1 while it is paused.", lambda each: each.state.is_paused),
)
#: Of this process, by cursor: the field of its counts, and what it means.
PROCESS_COUNTERS: Final = (
    ("onceward_messages_handled", "Messages whose effects are committed.", "processed"),
    ("onceward_messages_failed", "Attempts that failed.", "failed"),
    ("onceward_messages_retried", "Messages that succeeded after a failure.", "retried"),
    ("onceward_messages_dead", "Messages that were given up.", "dead"),
)


def read_store(ow: Onceward) -> Readings:
    """Ask the store for all there is to show; looks at what is, never at history."""
    measures = Measures(ow).list()
    parked = {row[0]: row[1] for row in ow.store.read("parked_count")}
    dead = ow.dead.count()
    rows = ow.store.read("cursor_list", after="", limit=LIST_ROWS_MAX)
    cursors = tuple(
        _Cursor(state_of(row), measures.get(name), parked.get(name, 0), dead.get(name, 0))
        for row in rows
        if not (name := row[0]).startswith(OWN_PREFIX)
    )
    return Readings(cursors=cursors, firing=Alerts(ow).firing())


class Metrics:
    """The page of one process."""

    def __init__(
        self,
        ow: Callable[[], Onceward] | None,
        *,
        reports: Reports | None = None,
        timings: Timings | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Show a store, which `ow` opens or has opened, and what this process has counted."""
        self._questions = _Questions(ow, clock or SystemClock()) if ow else None
        self._reports = reports
        self._timings = timings

    def page(self) -> bytes:
        """Return the text that Prometheus reads; never raises because of the store."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(self._families))
        return generate_latest(registry)

    def _families(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("onceward_build_info", "Always 1.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        if self._questions is not None:
            readings = self._questions.ask()
            up = GaugeMetricFamily("onceward_up", "1 when the store answered in time, else 0.")
            up.add_metric([], readings is not None)
            yield up
            if readings is not None:
                yield from _store_families(readings)
        if self._reports is not None:
            yield from _count_families(self._reports.counts.copy())
        if self._timings is not None:
            yield _timing_family(self._timings)


class _Collector(Collector):
    """What the library wants to have collected."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return self._families()


def _store_families(readings: Readings) -> Iterator[Metric]:
    for gauge in CURSOR_GAUGES:
        family = GaugeMetricFamily(gauge.name, gauge.help, labels=["cursor_name"])
        for cursor in readings.cursors:
            value = gauge.value(cursor)
            if value is not None and math.isfinite(value):
                family.add_metric([cursor.state.name], value)
        yield family
    help_text = "Messages processed in the cursor's whole life, by whomever."
    total = CounterMetricFamily("onceward_cursor_processed", help_text, labels=["cursor_name"])
    for cursor in readings.cursors:
        total.add_metric([cursor.state.name], cursor.state.processed_count)
    yield total
    firing = GaugeMetricFamily("onceward_alerts_firing", "Alerts that fire now.", labels=["kind"])
    for kind in KINDS:
        firing.add_metric([kind], readings.firing.get(kind, 0))
    yield firing


def _count_families(counts: Mapping[str, Counts]) -> Iterator[Metric]:
    for name, help_text, field in PROCESS_COUNTERS:
        said = f"{help_text} In this process."
        family = CounterMetricFamily(name, said, labels=["cursor_name"])
        for cursor, each in counts.items():
            family.add_metric([cursor], getattr(each, field))
        yield family


def _timing_family(timings: Timings) -> Metric:
    help_text = "How long handlers took, in this process."
    family = HistogramMetricFamily("onceward_handler_seconds", help_text, labels=["consumer"])
    ends = [*map(str, BUCKETS), "+Inf"]
    for consumer, timing in timings.by_consumer.copy().items():
        total, buckets = 0, []
        for end, count in zip(ends, list(timing.counts), strict=True):
            total += count
            buckets.append((end, float(total)))
        family.add_metric([consumer], buckets, sum_value=timing.seconds)
    return family


class _Question(threading.Thread):
    """One round of questions to the store, and its answer."""

    def __init__(self, ow: Callable[[], Onceward], asked: float) -> None:
        super().__init__(name="onceward-metrics", daemon=True)
        self._ow = ow
        self.asked = asked
        self.answer: Readings | None = None
        self.is_over = threading.Event()

    def run(self) -> None:
        """Ask."""
        try:
            self.answer = read_store(self._ow())
        except Exception:  # noqa: BLE001, S110 - the page says so; whoever works with the store tells why
            pass
        finally:
            self.is_over.set()


class _Questions:
    """Asks the store once for all who want to know at the same time."""

    def __init__(self, ow: Callable[[], Onceward], clock: Clock) -> None:
        self._ow = ow
        self._clock = clock
        self._mutex = threading.Lock()
        self._question: _Question | None = None
        self._hanging: list[_Question] = []

    def ask(self) -> Readings | None:
        """Return the answer, or None when there is none in time."""
        with self._mutex:
            question = self._current()
        question.is_over.wait(STORE_SECONDS_MAX)
        return question.answer

    def _current(self) -> _Question:
        """Return the question that is asked now; a store that is slow is not asked twice."""
        now = self._clock.monotonic()
        question = self._question
        if question is not None and not question.is_over.is_set():
            self._hanging = [each for each in self._hanging if not each.is_over.is_set()]
            if now - question.asked < GIVE_UP_SECONDS or len(self._hanging) >= HANGING_MAX:
                return question
            self._hanging.append(question)
        self._question = question = _Question(self._ow, now)
        question.start()
        return question
