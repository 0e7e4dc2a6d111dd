"""Metrics: what a real Prometheus parser reads of a store and of a process."""

from __future__ import annotations

import re
import threading
from importlib import resources
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from onceward.client import Onceward
from onceward.errors import StoreUnavailable
from onceward.retries import Failure
from onceward.retries import RetryMessage as Kept
from onceward.stores import Transaction
from onceward.system import ManualClock
from onceward.workers import App, Message, Worker
from onceward.workers import metrics as metrics_module
from onceward.workers.alert_models import DEFAULT_RULES
from onceward.workers.alerts import AlertEvaluator
from onceward.workers.handler_timings import HandlerTimings
from onceward.workers.metrics import MetricsPage
from tests.support.list_source import ListSource

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
FAILURE = Failure(type="ValueError", message="no")


class Scraped:
    """A page, as Prometheus has it."""

    def __init__(self, page: bytes) -> None:
        self.families = {each.name: each for each in text_string_to_metric_families(page.decode())}
        self.samples = {
            (sample.name, *sample.labels.values()): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __getitem__(self, key: str | tuple[str, ...]) -> float:
        return self.samples[key if isinstance(key, tuple) else (key,)]

    def __contains__(self, key: tuple[str, ...]) -> bool:
        return key in self.samples

    @property
    def names(self) -> set[str]:
        """Every name that a query could use."""
        return {key[0] for key in self.samples}


def scrape(ow: Onceward, **options: Any) -> Scraped:
    return Scraped(MetricsPage(lambda: ow, **options).page())


def measured(ow: Onceward, cursor: str, **row: Any) -> None:
    rows = orjson.dumps([{"cursor": cursor, "processed": 0, **row}]).decode()
    ow.store.run_in_own_transaction(lambda tx: tx.query("measure_write", rows=rows))


def full_page(ow: Onceward) -> Scraped:
    """A page with something of everything, after real work."""
    app = App(ow)

    @app.consumer("numbers", source=ListSource(1, 2, b"not json"))
    def handle(message: Message, tx: Transaction) -> None:
        pass

    worker, timings = Worker(app, threads=1), HandlerTimings()
    worker.run(once=True)
    timings.observe("numbers", 0.003)
    measured(ow, "numbers", messages=30, seconds=12.5, rate=60.0)
    return scrape(ow, telemetry=worker.telemetry, timings=timings)


def test_every_cursor_exports_its_state(ow: Onceward) -> None:
    """Position, lag, rate, errors, steals, parked and dead, by name."""
    ow.cursors.acquire("c", "w0", 60)
    lease = ow.cursors.acquire("c", "w0", 60)
    assert lease is not None
    lease.checkpoint("1200", count=7)
    lease.fail()
    measured(ow, "c", messages=30, seconds=12.5, rate=60.0)
    with ow.transaction() as tx:
        ow.retries.parked.park(tx, Kept(cursor="c", position="1", raw=b""), failure=FAILURE)
        ow.dead.add(tx, Kept(cursor="c", position="2", raw=b""), FAILURE)
        ow.dead.add(tx, Kept(cursor="c", position="3", raw=b""), FAILURE)
    page = scrape(ow)
    assert page["onceward_up"] == 1
    assert page["cursor_last_position", "c"] == 1200
    assert page["cursor_lag_seconds", "c"] == pytest.approx(12.5, abs=3)
    assert page["cursor_processed_rate_per_minute", "c"] == 60
    assert page["cursor_error_count", "c"] == 1
    assert page["cursor_lease_steal_count", "c"] == 0
    assert page["onceward_cursor_lag_messages", "c"] == 30
    assert page["onceward_cursor_drain_seconds", "c"] == 30
    assert page["onceward_cursor_measure_age_seconds", "c"] == pytest.approx(0, abs=3)
    assert page["onceward_cursor_processed_total", "c"] == 7
    assert page["onceward_cursor_parked_messages", "c"] == 1
    assert page["onceward_cursor_dead_letters", "c"] == 2
    assert page["onceward_cursor_held", "c"] == 1
    assert page["onceward_cursor_paused", "c"] == 0
    for family in page.families.values():
        assert all(
            set(each.labels) <= {"cursor_name", "kind", "version"} for each in family.samples
        )


POSITIONS = {
    "7": 7.0,
    "-3.5": -3.5,
    "0042": 42.0,
    "12-9": None,
    "": None,
    "1e5": None,
    "٣": None,
    "1_000": None,
    "nan": None,
    "9" * 5000: None,
    " 7": None,
    "7\n": None,
}


def test_only_positions_that_are_numbers_are_shown(ow: Onceward) -> None:
    """Any other would have to be a label, a new series with every message."""
    for number, position in enumerate(POSITIONS):
        lease = ow.cursors.acquire(f"c{number}", "w")
        assert lease is not None
        lease.checkpoint(position)
    page = scrape(ow)
    for number, value in enumerate(POSITIONS.values()):
        assert page.samples.get(("cursor_last_position", f"c{number}")) == value
        assert page["cursor_error_count", f"c{number}"] == 0


def test_unknown_values_are_left_out(ow: Onceward) -> None:
    """Never measured, or measured without a lag: no series, not a zero that calms."""
    ow.cursors.acquire("never", "w")
    ow.cursors.acquire("blind", "w")
    measured(ow, "blind", messages=None, seconds=None, rate=None)
    page = scrape(ow)
    for name in ("never", "blind"):
        assert ("cursor_error_count", name) in page
        for metric in ("cursor_lag_seconds", "onceward_cursor_lag_messages"):
            assert (metric, name) not in page
    assert ("onceward_cursor_measure_age_seconds", "blind") in page


def test_names_of_any_kind_are_labels(ow: Onceward) -> None:
    """Quotes, newlines and letters of any language; our own cursors are left out."""
    names = ['a"b', "a\\b", "a\nb", "läufer", "a{b}=1"]
    for name in (*names, "~alerts", "~slot/1"):
        ow.cursors.acquire(name, "w")
    page = scrape(ow)
    found = [key[1] for key in page.samples if key[0] == "cursor_error_count"]
    assert sorted(found) == sorted(names)


def test_alerts_that_fire_are_counted(ow: Onceward) -> None:
    """Each kind has a number, 0 when none fires."""
    assert scrape(ow)["onceward_alerts_firing", "lag"] == 0
    ow.cursors.acquire("c", "w")
    with ow.transaction() as tx:
        tx.execute("update cursor_positions set error_count = 99")
    AlertEvaluator(ow, DEFAULT_RULES).evaluate()
    page = scrape(ow)
    assert page["onceward_alerts_firing", "errors"] == 1
    assert page["onceward_alerts_firing", "dead"] == 0


def test_a_process_exports_what_it_has_done(ow: Onceward) -> None:
    """Counters of its own work, and how long its handlers took."""
    page = full_page(ow)
    assert page["onceward_messages_handled_total", "numbers"] == 2
    assert page["onceward_messages_dead_total", "numbers"] == 1
    assert page["onceward_messages_failed_total", "numbers"] == 0
    assert page["onceward_messages_retried_total", "numbers"] == 0
    assert page["onceward_handler_seconds_bucket", "numbers", "0.0025"] == 0
    assert page["onceward_handler_seconds_bucket", "numbers", "0.005"] == 1
    assert page["onceward_handler_seconds_bucket", "numbers", "+Inf"] == 1
    assert page["onceward_handler_seconds_count", "numbers"] == 1
    assert page["onceward_handler_seconds_sum", "numbers"] == 0.003


def test_the_store_is_asked_a_few_questions_however_many_cursors(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One each for cursors, measures, parked, dead and alerts; none reads history."""
    for number in range(20):
        ow.cursors.acquire(f"c{number}", "w")
    asked: list[str] = []
    read = ow.store.read

    def counting(name: str, /, **params: object) -> Any:
        asked.append(name)
        return read(name, **params)

    monkeypatch.setattr(ow.store, "read", counting)
    scrape(ow)
    wanted = ["alert_counts", "cursor_list", "dead_count", "measure_list", "parked_count"]
    assert sorted(asked) == wanted


def test_a_dead_store_leaves_a_page(ow: Onceward) -> None:
    """What the process knows is there, and that the store is not."""
    app = App(ow)
    app.consumer("numbers", source=ListSource(1))(lambda _: None)
    worker = Worker(app, threads=1)
    worker.run(once=True)

    def gone() -> Onceward:
        raise StoreUnavailable

    page = Scraped(MetricsPage(gone, telemetry=worker.telemetry).page())
    assert page["onceward_up"] == 0
    assert page["onceward_messages_handled_total", "numbers"] == 1
    assert not [key for key in page.samples if key[0].startswith("cursor_")]


def test_a_slow_store_is_not_waited_for_nor_asked_twice(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page comes in time; while the query hangs, no second one is started."""
    monkeypatch.setattr(metrics_module, "STORE_SECONDS_MAX", 0.05)
    answer, asked, clock = threading.Event(), [], ManualClock()

    def slow() -> Onceward:
        asked.append(1)
        answer.wait(60)
        return ow

    page = MetricsPage(slow, clock=clock).page
    assert [Scraped(page())["onceward_up"] for _ in range(3)] == [0, 0, 0]
    assert len(asked) == 1
    # One that hangs for good is given up, a few times.
    for _ in range(10):
        clock.advance(seconds=metrics_module.GIVE_UP_SECONDS + 1)
        page()
    assert len(asked) == 1 + metrics_module.HANGING_MAX
    answer.set()
    monkeypatch.setattr(metrics_module, "STORE_SECONDS_MAX", 20.0)
    page()
    assert Scraped(page())["onceward_up"] == 1


def test_without_a_store_there_is_still_a_page() -> None:
    """A console beside which no store was made yet."""
    page = Scraped(MetricsPage(None).page())
    assert page.names == {"onceward_build_info"}


def metrics_of(expression: str) -> set[str]:
    """The metric names in a PromQL expression: words that are neither functions nor labels."""
    bare = re.sub(r"\bby \([^)]*\)|\{[^}]*\}|\[[^\]]*\]", "", expression)
    return {word for word in re.findall(r"[a-z_]+(?!\w|\s*\()", bare) if "_" in word}


def test_the_shipped_rules_name_metrics_that_exist(ow: Onceward) -> None:
    """A rule about a metric that is not exported would never fire."""
    text = (resources.files("onceward.workers") / "prometheus-rules.yml").read_text()
    (group,) = yaml.safe_load(text)["groups"]
    names = full_page(ow).names
    used: set[str] = set()
    for rule in group["rules"]:
        assert set(rule) <= {"alert", "expr", "for", "keep_firing_for", "labels", "annotations"}
        assert rule["annotations"]["action"].startswith("onceward ")
        found = metrics_of(rule["expr"])
        assert found, rule
        used |= found
    assert used <= names, used - names
    for kind in ("lag_seconds", "steal_count", "error_count", "parked_messages", "dead_letters"):
        assert any(name.endswith(kind) for name in used)


def test_every_metric_is_documented(ow: Onceward) -> None:
    """The reference lists each with its type and what it means, and no other."""
    page = full_page(ow)
    text = REFERENCE.read_text()
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (\w+) \|", text, re.MULTILINE))
    suffix = {"counter": "_total"}
    exported = {
        f"{family.name}{suffix.get(family.type, '')}": family.type
        for family in page.families.values()
    }
    assert rows == exported
