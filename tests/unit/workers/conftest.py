"""Stores of one engine, for what only that engine does."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.testing.postgres import PostgresServer

_numbers = itertools.count(1)


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Onceward]:
    """A new store on SQLite."""
    with open_handle(f"sqlite:///{tmp_path / 'work.db'}") as handle:
        yield handle


@pytest.fixture
def pg_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a new store on PostgreSQL."""
    name = f"source_{os.getpid()}_{next(_numbers)}"
    yield postgres_server.new_database(name, like="onceward_template")
    postgres_server.drop_database(name)


@pytest.fixture
def pg(pg_url: str) -> Iterator[Onceward]:
    """A new store on PostgreSQL."""
    with open_handle(pg_url) as handle:
        yield handle
