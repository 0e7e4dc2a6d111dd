"""Runs a part of the suite a third time: on PostgreSQL through PgBouncer in transaction mode."""

from __future__ import annotations

import pytest

from tests.support.pgbouncer import POOLER

#: Modules of each subsystem that keeps state in a session or a transaction, or might.
THROUGH_POOLER = frozenset(
    {
        "test_cursors",
        "test_cursors_guards",
        "test_dual",
        "test_isolation",
        "test_joined_calls",
        "test_outcomes",
        "test_outcomes_once",
        "test_outcomes_store",
        "test_outcomes_tx",
        "test_retries",
        "test_retries_parked",
        "test_savepoints",
        "test_stores",
        "test_table_source",
        "test_worker",
        "test_worker_once",
    }
)
#: Its tasks hold more transactions open on one loop than the pooler has sessions.
NEEDS_MORE_SESSIONS = "test_async_calls_in_transactions_are_serialized"


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Add an engine to the chosen modules, before pytest looks at the marks of their tests."""
    module = metafunc.module.__name__.rpartition(".")[2]
    marks = metafunc.definition.iter_markers("parametrize")
    has_engines = any("ow_url" in mark.args[0] for mark in marks)
    is_chosen = module in THROUGH_POOLER and metafunc.function.__name__ != NEEDS_MORE_SESSIONS
    if "ow_url" not in metafunc.fixturenames or has_engines:
        return
    if is_chosen:
        engines = ["sqlite", "postgres", *POOLER]
        mark = pytest.mark.parametrize("ow_url", engines, indirect=True)
        metafunc.definition.add_marker(mark)


@pytest.fixture
def ow_url(ow_url: str, request: pytest.FixtureRequest) -> str:
    """Return the URL of a new store; through PgBouncer where that is asked for."""
    if getattr(request, "param", "") != "pooler":
        return ow_url
    url: str = request.getfixturevalue("pgbouncer").url(ow_url)
    return url
