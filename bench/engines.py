"""Open a store on SQLite and on PostgreSQL for a measurement."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.testing.postgres import PostgresServer

#: Opens a new store of this name.
Opened = Callable[[str], Onceward]


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    """Start a server that syncs every commit, as in production."""
    server = PostgresServer()
    server.start()
    try:
        yield server
    finally:
        server.close()


@contextmanager
def both(directory: Path) -> Iterator[dict[str, Opened]]:
    """Give what opens a store on each engine, by the engine's name."""
    with postgres() as server:
        yield {
            "SQLite": lambda name: open_handle(f"sqlite:///{directory}/{name}.db"),
            "PostgreSQL": lambda name: open_handle(server.new_database(name)),
        }
