"""A PostgreSQL server of a test's own."""

from collections.abc import Iterator

import pytest

from onceward.testing.postgres import PostgresServer


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that may be killed."""
    server = PostgresServer()
    server.start()
    yield server
    server.close()
