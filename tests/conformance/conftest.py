"""Runs a part of the suite a third time: on PostgreSQL through PgBouncer in transaction mode."""

from __future__ import annotations

import pytest

from tests.support.pgbouncer import POOLER

#: Modules about what a session or a transaction keeps.
THROUGH_POOLER = frozenset(
    {
        "test_cursors_guards",
        "test_isolation",
        "test_joined_calls",
        "test_outcomes_tx",
        "test_savepoints",
        "test_stores",
    }
)
#: Modules of each subsystem that stands on them, which go through it in `make prove`.
PROVEN_THROUGH_POOLER = frozenset(
    {
        "test_cursors",
        "test_dual",
        "test_outcomes",
        "test_outcomes_once",
        "test_outcomes_store",
        "test_retries",
        "test_retries_parked",
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
    has_too_many = metafunc.function.__name__ == NEEDS_MORE_SESSIONS
    if "ow_url" not in metafunc.fixturenames or has_engines or has_too_many:
        return
    pooler = [pytest.param(each, marks=pytest.mark.prove) for each in POOLER]
    if module in THROUGH_POOLER:
        pooler = [pytest.param(each) for each in POOLER]
    elif module not in PROVEN_THROUGH_POOLER or not metafunc.config.getoption("--prove"):
        pooler = []
    if pooler:
        engines = ["sqlite", "postgres", *pooler]
        mark = pytest.mark.parametrize("ow_url", engines, indirect=True)
        metafunc.definition.add_marker(mark)


@pytest.fixture
def ow_url(ow_url: str, request: pytest.FixtureRequest) -> str:
    """Return the URL of a new store; through PgBouncer where that is asked for."""
    if getattr(request, "param", "") != "pooler":
        return ow_url
    url: str = request.getfixturevalue("pgbouncer").url(ow_url)
    return url
