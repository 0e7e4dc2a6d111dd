"""Metrics: render the Prometheus page of a store and of this process.

Each page runs five short queries in a separate thread, with a time limit: while the store is down
or slow, the page omits its metrics and is still served.
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

from onceward.client import Onceward
from onceward.cursors import CursorState
from onceward.cursors.models import LIST_ROWS_MAX, OWN_PREFIX, state_of
from onceward.system import Clock, SystemClock
from onceward.version import __version__
from onceward.workers.alert_models import KINDS
from onceward.workers.alerts import Alerts
from onceward.workers.handler_timings import BUCKETS, HandlerTimings
from onceward.workers.lag_records import LagMeasurement, LagRecords
from onceward.workers.telemetry import CursorCounts, Telemetry

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
#: Longest wait of a page for the store.
STORE_SECONDS_MAX: Final = 3.0
#: A query without an answer for this long is abandoned and started again.
GIVE_UP_SECONDS: Final = 30.0
#: Abandoned queries that may still hang.
HANGING_MAX: Final = 4
_NUMBER: Final = re.compile(r"-?[0-9]{1,300}(\.[0-9]{1,300})?")


class _CursorReadings(NamedTuple):
    """What the store knows about one cursor."""

    state: CursorState
    measure: LagMeasurement | None
    parked: int
    dead: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreReadings:
    """The values that a page shows of a store."""

    cursors: tuple[_CursorReadings, ...]
    #: Alerts that fire, by kind.
    firing: Mapping[str, int]


class _Gauge(NamedTuple):
    """A gauge with one value per cursor; None where it is unknown."""

    name: str
    help: str
    value: Callable[[_CursorReadings], float | None]


def _position(cursor: _CursorReadings) -> float | None:
    """Return a numeric position as a number, else None."""
    text = cursor.state.position
    if text is None or not _NUMBER.fullmatch(text):
        return None
    return float(text)


def _of_measurement(
    value: Callable[[LagMeasurement], float | None],
) -> Callable[[_CursorReadings], float | None]:
    return lambda cursor: None if cursor.measure is None else value(cursor.measure)


#: Per cursor; described in `docs/reference/metrics.md`.
CURSOR_GAUGES: Final = (
    _Gauge("cursor_last_position", "Position, if it is a number.", _position),
    _Gauge(
        "cursor_processed_rate_per_minute",
        "Messages processed per minute, recently.",
        _of_measurement(lambda measure: measure.rate_per_minute),
    ),
    _Gauge(
        "cursor_lag_seconds",
        "Age of the oldest unprocessed message, parked ones included; 0 when there is none.",
        _of_measurement(lambda measure: measure.lag_seconds),
    ),
    _Gauge(
        "cursor_error_count",
        "Failed attempts since the last message that succeeded.",
        lambda cursor: cursor.state.error_count,
    ),
    _Gauge(
        "cursor_lease_steal_count",
        "How often a worker took over an expired lease of another.",
        lambda cursor: cursor.state.steal_count,
    ),
    _Gauge(
        "onceward_cursor_lag_messages",
        "Unprocessed messages, parked ones included.",
        _of_measurement(lambda measure: measure.messages),
    ),
    _Gauge(
        "onceward_cursor_drain_seconds",
        "Estimated time to catch up at the current rate.",
        _of_measurement(lambda measure: measure.drain_seconds),
    ),
    _Gauge(
        "onceward_cursor_measure_age_seconds",
        "Age of the last lag measurement.",
        _of_measurement(lambda measure: measure.age_seconds),
    ),
    _Gauge(
        "onceward_cursor_parked_messages",
        "Messages that failed, or are blocked by a failed one, and will be retried.",
        lambda cursor: cursor.parked,
    ),
    _Gauge(
        "onceward_cursor_dead_letters",
        "Dead letters that wait for an operator.",
        lambda cursor: cursor.dead,
    ),
    _Gauge(
        "onceward_cursor_held", "1 while a worker holds its lease.", lambda each: each.state.is_held
    ),
    _Gauge("onceward_cursor_paused", "1 while it is paused.", lambda each: each.state.is_paused),
)
#: Of this process, per cursor: metric, help text, and field of `CursorCounts`.
PROCESS_COUNTERS: Final = (
    ("onceward_messages_handled", "Messages whose effects are committed.", "processed"),
    ("onceward_messages_failed", "Failed attempts.", "failed"),
    ("onceward_messages_retried", "Messages that succeeded after a failure.", "retried"),
    ("onceward_messages_dead", "Messages that became dead letters.", "dead"),
)


def read_store(ow: Onceward) -> StoreReadings:
    """Read the current values of a store; never reads history."""
    measures = LagRecords(ow).list()
    parked = {row[0]: row[1] for row in ow.store.read("parked_count")}
    dead = ow.dead.count()
    rows = ow.store.read("cursor_list", after="", limit=LIST_ROWS_MAX)
    cursors = tuple(
        _CursorReadings(state_of(row), measures.get(name), parked.get(name, 0), dead.get(name, 0))
        for row in rows
        if not (name := row[0]).startswith(OWN_PREFIX)
    )
    return StoreReadings(cursors=cursors, firing=Alerts(ow).firing())


class MetricsPage:
    """Renders the metrics page of one process."""

    def __init__(
        self,
        ow: Callable[[], Onceward] | None,
        *,
        telemetry: Telemetry | None = None,
        timings: HandlerTimings | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Show the store that `ow` returns, and the counters of this process."""
        self._store_queries = _StoreQueries(ow, clock or SystemClock()) if ow else None
        self._telemetry = telemetry
        self._timings = timings

    def page(self) -> bytes:
        """Return the page in Prometheus text format; never raises because of the store."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(self._families))
        return generate_latest(registry)

    def _families(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("onceward_build_info", "Always 1.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        if self._store_queries is not None:
            readings = self._store_queries.query()
            up = GaugeMetricFamily("onceward_up", "1 when the store answered in time, else 0.")
            up.add_metric([], readings is not None)
            yield up
            if readings is not None:
                yield from _store_families(readings)
        if self._telemetry is not None:
            yield from _count_families(self._telemetry.counts.copy())
        if self._timings is not None:
            yield _timing_family(self._timings)


class _Collector(Collector):
    """Adapter to the collector interface of the Prometheus client."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return self._families()


def _store_families(readings: StoreReadings) -> Iterator[Metric]:
    for gauge in CURSOR_GAUGES:
        family = GaugeMetricFamily(gauge.name, gauge.help, labels=["cursor_name"])
        for cursor in readings.cursors:
            value = gauge.value(cursor)
            if value is not None and math.isfinite(value):
                family.add_metric([cursor.state.name], value)
        yield family
    help_text = "Messages processed since the cursor was created, by any worker."
    total = CounterMetricFamily("onceward_cursor_processed", help_text, labels=["cursor_name"])
    for cursor in readings.cursors:
        total.add_metric([cursor.state.name], cursor.state.processed_count)
    yield total
    firing = GaugeMetricFamily("onceward_alerts_firing", "Alerts that are firing.", labels=["kind"])
    for kind in KINDS:
        firing.add_metric([kind], readings.firing.get(kind, 0))
    yield firing


def _count_families(counts: Mapping[str, CursorCounts]) -> Iterator[Metric]:
    for name, help_text, field in PROCESS_COUNTERS:
        text = f"{help_text} In this process."
        family = CounterMetricFamily(name, text, labels=["cursor_name"])
        for cursor, each in counts.items():
            family.add_metric([cursor], getattr(each, field))
        yield family


def _timing_family(timings: HandlerTimings) -> Metric:
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


class _StoreQuery(threading.Thread):
    """One read of the store in a thread, and its result."""

    def __init__(self, ow: Callable[[], Onceward], asked: float) -> None:
        super().__init__(name="onceward-metrics", daemon=True)
        self._ow = ow
        self.started_at = asked
        self.answer: StoreReadings | None = None
        self.is_done = threading.Event()

    def run(self) -> None:
        """Read the store."""
        try:
            self.answer = read_store(self._ow())
        except Exception:  # noqa: BLE001, S110 - the page shows it; users of the store log the cause
            pass
        finally:
            self.is_done.set()


class _StoreQueries:
    """Shares one read of the store among concurrent requests."""

    def __init__(self, ow: Callable[[], Onceward], clock: Clock) -> None:
        self._ow = ow
        self._clock = clock
        self._mutex = threading.Lock()
        self._query: _StoreQuery | None = None
        self._hanging: list[_StoreQuery] = []

    def query(self) -> StoreReadings | None:
        """Return the values, or None when the store does not answer in time."""
        with self._mutex:
            question = self._current()
        question.is_done.wait(STORE_SECONDS_MAX)
        return question.answer

    def _current(self) -> _StoreQuery:
        """Return the read in progress, or start one; a slow store is not queried twice."""
        now = self._clock.monotonic()
        question = self._query
        if question is not None and not question.is_done.is_set():
            self._hanging = [each for each in self._hanging if not each.is_done.is_set()]
            if now - question.started_at < GIVE_UP_SECONDS or len(self._hanging) >= HANGING_MAX:
                return question
            self._hanging.append(question)
        self._query = question = _StoreQuery(self._ow, now)
        question.start()
        return question
