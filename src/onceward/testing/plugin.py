"""Plugin: pytest fixtures for code that uses Onceward; found by pytest when Onceward is installed.

A test that takes `ow` runs twice, on SQLite and on PostgreSQL, each time with a store of its own.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from onceward.client import Onceward
    from onceward.testing.moving_time import MovingTime
    from onceward.testing.postgres import PostgresServer

_numbers = itertools.count(1)
#: Why the PostgreSQL server did not start.
_not_started: list[Exception] = []


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need a PostgreSQL server that failed to start; the first one says why."""
    callspec = getattr(item, "callspec", None)
    is_for_it = callspec is not None and callspec.params.get("ow_url") == "postgres"
    if _not_started and (is_for_it or "postgres_server" in getattr(item, "fixturenames", ())):
        pytest.skip("PostgreSQL did not start, as an earlier test says")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Start a PostgreSQL server for this test process, with a template database."""
    from onceward.errors import StoreUnavailable  # noqa: PLC0415 - not for every test run
    from onceward.stores import migrate, open_store  # noqa: PLC0415 - not for every test run
    from onceward.testing.postgres import PostgresServer  # noqa: PLC0415 - the same

    try:
        server = PostgresServer(is_synced=False)
        server.start()
    except StoreUnavailable as exc:
        _not_started.append(exc)
        pytest.fail(f"{exc.message}; fix: {exc.fix}", pytrace=False)
    store = open_store(server.new_database("onceward_template"))
    migrate(store)
    store.close()
    yield server
    server.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a template database file, because creating the schema for every test is slower."""
    from onceward.client import open as open_handle  # noqa: PLC0415 - not for every test run

    path = tmp_path_factory.mktemp("template") / "onceward.db"
    with open_handle(f"sqlite:///{path}"):
        return path


@pytest.fixture(params=["sqlite", "postgres"])
def ow_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of a new store, on each engine in turn."""
    if request.param == "sqlite":
        template: Path = request.getfixturevalue("sqlite_template")
        yield f"sqlite:///{shutil.copy(template, tmp_path / 'onceward.db')}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = f"test_{os.getpid()}_{next(_numbers)}"
    yield server.new_database(name, like="onceward_template")
    server.drop_database(name)


@pytest.fixture
def ow(ow_url: str) -> Iterator[Onceward]:
    """Open a new store; on SQLite its clock stands still until `ow_time` advances it."""
    from onceward.client import open as open_handle  # noqa: PLC0415 - not for every test run
    from onceward.system import ManualClock  # noqa: PLC0415 - the same

    with open_handle(ow_url, clock=ManualClock()) as handle:
        yield handle


@pytest.fixture
def ow_time(ow: Onceward) -> MovingTime:
    """Return the clock of `ow`, which a test can advance."""
    from onceward.testing.moving_time import MovingTime  # noqa: PLC0415 - not for every test run

    return MovingTime(ow.store)


@pytest.fixture(name="crash_everywhere")
def _crash_everywhere(ow_url: str) -> Callable[..., Any]:
    """Return `onceward.testing.crash_everywhere`, on each engine in turn."""
    from onceward.testing import crash_everywhere  # noqa: PLC0415 - not for every test run

    return partial(crash_everywhere, url=ow_url)


@pytest.fixture(name="assert_idempotent")
def _assert_idempotent(ow_url: str) -> Callable[..., Any]:
    """Return `onceward.testing.assert_idempotent`, on each engine in turn."""
    from onceward.testing import assert_idempotent  # noqa: PLC0415 - not for every test run

    return partial(assert_idempotent, url=ow_url)


@pytest.fixture(name="zombie")
def _zombie(ow_url: str) -> Callable[..., Any]:
    """Return `onceward.testing.zombie`, on each engine in turn."""
    from onceward.testing import zombie  # noqa: PLC0415 - not for every test run

    def on_engine(what: Any, /, **options: Any) -> AbstractContextManager[Any]:  # noqa: ANN401 - as `zombie`
        return zombie(what, **({"url": ow_url, **options} if callable(what) else options))

    return on_engine
