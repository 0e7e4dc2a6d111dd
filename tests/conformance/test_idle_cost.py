"""What runs while nothing happens costs the same, however much happened before."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import onceward
from docs.make.source import parse
from onceward.client import Onceward
from onceward.console.change_detectors import detectors_of
from onceward.console.counts import CountSampler
from onceward.console.health_history import HealthHistory
from onceward.dispatch.conversations import Chats
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.groups import Groups
from onceward.dispatch.models import Group
from onceward.stores.postgres import transaction as postgres_transaction
from onceward.stores.queries import Engine, query
from onceward.stores.sqlite import transaction as sqlite_transaction
from onceward.system import ManualClock
from onceward.workers import App
from onceward.workers.alert_delivery import AlertSender
from onceward.workers.alert_models import DEFAULT_RULES
from onceward.workers.alerts import AlertEvaluator
from onceward.workers.metrics import read_store
from onceward.workers.pruning import PRUNE_SECONDS, Pruner
from onceward.workers.retention import Retention
from tests.support.console_over_store import context_of
from tests.support.list_source import ListSource
from tests.support.long_history import cost, write_history, write_last_entries
from tests.support.running_worker import at_work
from tests.support.waiting import until

SMALL = 1_000
LARGE, LARGE_PROVED = 20_000, 200_000
RATIO_MAX = 1.3
#: An index of 2·10⁵ rows is a page deeper than one of 10³, and some queries descend for each of ten
#: cursors. SQLite's instructions are counted in tens.
SLACK = {"postgres": 25, "sqlite": 40}
ALL = '["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"]'
DAY = 86400.0
#: Every query that runs while nothing happens, with what it is asked.
IDLE: dict[str, Mapping[str, Any]] = {
    # Workers: every poll.
    "parked_due_cursors": {},
    "parked_next": {"cursor": "c1"},
    "parked_number": {"cursor": "c1"},
    "parked_due": {"cursor": "c1", "limit": 100},
    "cursor_show": {"name": "c1"},
    "cursor_renew": {"name": "c1", "worker": "w", "epoch": 1, "seconds": 60.0},
    "cursor_release": {"name": "c1", "worker": "w", "epoch": 1},
    "attempt_list": {"cursor": "c1"},
    "cursor_history": {"name": "c1", "limit": 3},
    "worker_beat": {"worker": "w", "host": "h", "pid": 1, "consumers": "[]", "version": "0"},
    "worker_stop": {"worker": "w"},
    # The lag: every ten seconds.
    "alert_lag": {},
    "measure_due": {"names": ALL, "seconds": 5.0},
    "measure_write": {"rows": "[]"},
    "sample_add": {"names": ALL, "seconds": 8.0, "characters": 200},
    # Alerts.
    "cursor_acquire": {
        "name": "~alerts",
        "worker": "w",
        "seconds": 60.0,
        "version": 1,
        "may_take_over": True,
    },
    "cursor_guard": {"name": "c1", "worker": "w", "epoch": 1},
    "alert_open": {},
    "alert_errors": {},
    "alert_steals": {"window": 600.0},
    "alert_parked": {},
    "alert_dead": {"window": 600.0},
    "alert_unsent": {"limit": 100},
    "alert_prune": {"days": 30},
    # Pruning.
    "grant_prune": {"seconds": 7 * DAY, "most": 10**6, "limit": 500},
    "rejected_write_prune": {"seconds": 7 * DAY, "most": 10**6, "limit": 500},
    "sample_prune": {"seconds": DAY, "ahead": 3600.0, "limit": 500},
    "worker_prune": {"seconds": DAY, "limit": 500},
    "history_window": {"seconds": 90 * DAY, "after": 0, "limit": 500},
    "history_prune": {"seconds": 90 * DAY, "after": 0, "upto": 500},
    "dead_prune": {"seconds": 30 * DAY, "limit": 500},
    "dead_expire": {"seconds": 90 * DAY, "limit": 500, "actor": "onceward", "reason": "r"},
    "outcome_expire": {"batch": 500},
    "outcome_remove": {"batch": 500},
    # The console.
    "area_change_cursors": {},
    "area_change_workers": {},
    "area_change_outcomes": {},
    "area_change_dead": {},
    "area_change_alerts": {},
    "area_change_memory": {},
    "area_change_dispatch": {},
    "area_change_audit": {},
    "area_count_dead": {},
    "area_count_outcomes": {},
    "area_count_alerts": {},
    "area_count_parked": {},
    "area_count_conversations": {},
    "overview_leases": {},
    "overview_lag": {},
    # Metrics, at every scrape.
    "measure_list": {"limit": 10_000},
    "parked_count": {},
    "dead_count": {},
    "cursor_list": {"after": "", "limit": 10_000},
    "alert_counts": {},
    # Chat: every poll of the dispatcher, and of who waits for news.
    "dual_positions": {"dual": "dispatch"},
    "dispatch_message_new": {"after": 10**9, "limit": 500},
    "dispatch_group_nudged": {},
    "dispatch_group_agents": {},
    "dispatch_message_last": {"group": "g1", "upto": 10**12},
    "dual_groups": {"dual": "dispatch"},
    "dispatch_outbox_open": {},
    "dispatch_conversation_start": {"group": "g1", "upto": 10**12, "limit": 1, "offset": 0},
    "dispatch_group_show": {"name": "g1"},
    "dispatch_group_positions": {"group": "g1", "arrived": 10**12, "read": 10**9},
    "dual_group": {"dual": "dispatch", "group": "g1"},
    "dispatch_count_between": {"group": "g1", "after": 10**9, "upto": 10**12, "limit": 1000},
    "dispatch_delivery_running": {},
    "dispatch_delivery_list": {"group": "g1", "limit": 1},
    "dispatch_outbox_unsent": {"group": "g1"},
}


@pytest.mark.prove
def test_h64_idle_queries_cost_the_same_after_a_long_past(ow: Onceward, prove: bool) -> None:
    """Twenty or two hundred times the history, and no query that runs while idle costs more."""
    for number in range(10):
        ow.cursors.acquire(f"c{number}", "w")
    write_history(ow, 1, SMALL)
    before = {name: cost(ow, name, params) for name, params in IDLE.items()}
    write_history(ow, SMALL + 1, LARGE_PROVED if prove else LARGE)
    after = {name: cost(ow, name, params) for name, params in IDLE.items()}
    most = {name: RATIO_MAX * before[name] + SLACK[ow.store.engine] for name in IDLE}
    grown = {name: (before[name], after[name]) for name in IDLE if after[name] > most[name]}
    assert not grown, f"cost with {SMALL} rows, and with many: {grown}"


def test_h64_pruning_history_costs_the_same_however_much_of_it_stays(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last take-over of every cursor stays, and is not read again every minute."""
    monkeypatch.setattr("onceward.workers.pruning.BATCHES_MAX", 1)
    write_last_entries(ow, 1, SMALL)
    before = cost_of_pruning_history(ow, monkeypatch)
    write_last_entries(ow, SMALL + 1, LARGE)
    after = cost_of_pruning_history(ow, monkeypatch)
    assert 0 < after <= RATIO_MAX * before + SLACK[ow.store.engine], (before, after)


def cost_of_pruning_history(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return what the queries about cursors' history cost in one look."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def noting(original: Callable[..., Any]) -> Callable[..., Any]:
        def note(name: str, /, **params: Any) -> Any:
            if name.startswith("history_"):
                asked.append((name, params))
            return original(name, **params)

        return note

    with monkeypatch.context() as patch:
        for way in ("read", "write_query"):
            patch.setattr(ow.store, way, noting(getattr(ow.store, way)))
        prune(ow, Path())
    return sum(cost(ow, name, params) for name, params in asked)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of our own queries that run from now on."""
    names: set[str] = set()

    def noted(engine: Engine, name: str) -> str:
        names.add(name)
        return query(engine, name)

    for module in (postgres_transaction, sqlite_transaction):
        monkeypatch.setattr(module, "query", noted)
    return names


def work(ow: Onceward, _: Path) -> None:
    """Let a worker with nothing to do look a few times, measure, and end."""
    app = App(ow)
    app.consumer("c", source=ListSource(), poll_seconds=0.01)(len)
    with at_work(app) as worker:
        until(lambda: worker.queue.take_count > 3)


def raise_alerts(ow: Onceward, _: Path) -> None:
    AlertEvaluator(ow, DEFAULT_RULES).evaluate()
    AlertSender(ow, DEFAULT_RULES).deliver()


def prune(ow: Onceward, _: Path) -> None:
    clock = ManualClock()
    pruning = Pruner(ow, Retention(dead_letters_days=90), clock=clock)
    clock.advance(seconds=2 * PRUNE_SECONDS)
    pruning.run_if_due()


def look(ow: Onceward, _: Path) -> None:
    for each in detectors_of(context_of(ow)).values():
        each()


def dispatch(ow: Onceward, place: Path) -> None:
    """Let a dispatcher with nothing to do look a few times, and a reader wait for news."""
    dispatcher = Dispatcher(ow, home=place, poll_seconds=0.01)
    rounds = 0
    see = dispatcher.arrivals.see

    def counted() -> Any:
        nonlocal rounds
        rounds += 1
        return see()

    dispatcher.arrivals.see = counted  # type: ignore[method-assign]
    dispatcher.start()
    until(lambda: rounds > 3)
    Chats(ow, dispatcher).fingerprint("g1")
    dispatcher.stop(seconds=60)


#: What runs again and again, by the module that has the loop.
LOOPS: dict[str, Callable[[Onceward, Path], object]] = {
    "console/change_feed.py": look,
    "console/counts.py": lambda ow, _: CountSampler(lambda: ow).count(),
    "console/health_history.py": lambda ow, _: HealthHistory(lambda: ow).measure(),
    "dispatch/dispatcher.py": dispatch,
    "workers/alert_delivery.py": raise_alerts,
    "workers/metrics.py": lambda ow, _: read_store(ow),
    "workers/pruning.py": prune,
    "workers/worker.py": work,
}
#: Modules that begin threads beside, and why they are not above.
OTHER_THREADS = {
    "console/throttled_loop.py": "runs what others give it",
    "cursors/heartbeat.py": "renews leases, by name, one query",
    "cursors/fence_log.py": "writes what happened, then ends",
    "dispatch/agent_runner.py": "runs an agent",
    "dispatch/conversation_long_poll.py": "looks as `dispatch` does above, by `Chats.fingerprint`",
    "http/long_poll.py": "each notifier polls in its own module",
    "lab/feedback_long_poll.py": "looks at files",
    "memory/outage_recovery.py": "probes only while the store is away, one query",
    "outcomes/heartbeat.py": "renews claims, by key, one query",
    "workers/background_thread.py": "runs what others give it",
    "workers/worker_processes.py": "watches its parent process",
    "workers/http.py": "answers requests",
    "workers/lag_sampler.py": "a part of `work` above",
    "workers/postgres_notify.py": "waits for a connection to say something",
    "workers/worker_registry.py": "a part of `work` above",
    "workers/periodic.py": "runs what others give it",
    "workers/sources/journal.py": "looks at a file",
    "workers/wakeups.py": "waits for a file or a connection to change",
    "workers/store_monitor.py": "closes a store",
}


def _begins_threads(path: Path) -> bool:
    for node in ast.walk(parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in (
                "repeating",
                "background_thread",
                "ThrottledLoop",
            ):
                return True
            if isinstance(called, ast.Attribute) and called.attr == "Thread":
                return True
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            if bases & {"ChatNotifier", "FeedbackNotifier", "Notifier", "Thread"}:
                return True
    return False


def test_h64_covers_every_query_that_runs_while_idle(
    ow: Onceward, ran: set[str], tmp_path: Path
) -> None:
    """A query that runs in a loop, and whose cost is not measured, fails here."""
    Groups(ow.store).add(Group(name="g1", channel="chat", command=("true",)))
    ran.clear()
    for idle in LOOPS.values():
        idle(ow, tmp_path)
    assert {"parked_due_cursors", "area_change_dead", "grant_prune", "alert_dead"} <= ran
    unmeasured = sorted(ran - IDLE.keys())
    assert not unmeasured, f"measure them above, with what they are asked: {unmeasured}"


def test_h64_knows_every_loop() -> None:
    """A module that begins a thread and asks the store belongs above, or has a reason here."""
    source = Path(onceward.__file__).parent
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if _begins_threads(path) and path.parts[-2] not in ("testing", "demo", "cli", "agents")
    }
    assert found == LOOPS.keys() | OTHER_THREADS.keys()
