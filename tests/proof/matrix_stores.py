"""Matrix stores: each plan of the crash matrix runs in a store of its own."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.killed_processes import Place, Scenario


class MatrixStores:
    """Where plans are played: for each a store of its own, copied from one that is ready."""

    def __init__(self, engine: str, directory: Path, url: str = "") -> None:
        """Copy from the database of this URL, where there are databases."""
        self.engine, self.directory, self.url = engine, directory, url
        self._count = 0
        if engine == "sqlite":
            self.url = self._migrated(f"sqlite:///{directory / 'template.db'}")

    @contextmanager
    def one(self, kind: type[Scenario], seed: int) -> Iterator[Place]:
        """Make one; it is removed again when all went well."""
        self._count += 1
        directory = self.directory / str(self._count)
        directory.mkdir()
        url, name = f"sqlite:///{directory / 'store.db'}", f"matrix_{random.getrandbits(64):x}"
        if self.engine == "sqlite" and not kind.is_empty:
            shutil.copy(self.directory / "template.db", directory / "store.db")
        elif self.engine == "postgres":
            like = "template1" if kind.is_empty else self.url.rpartition("/")[2]
            url = self.url.rpartition("/")[0] + "/" + name
            self._admin(f'create database "{name}" template "{like}"')
        try:
            yield Place(url, directory, random.Random(seed))
        finally:
            if self.engine == "postgres":
                self._admin(f'drop database "{name}" with (force)')
            shutil.rmtree(directory, ignore_errors=True)

    def _admin(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(
            self.url.rpartition("/")[0] + "/postgres", autocommit=True
        ) as connection:
            connection.execute(statement.encode())

    @staticmethod
    def _migrated(url: str) -> str:
        from onceward.stores import migrate, open_store

        store = open_store(url)
        migrate(store)
        store.close()
        return url

    @classmethod
    @contextmanager
    def made(cls, engine: str, url: str = "") -> Iterator[MatrixStores]:
        """Make a directory, and a server unless there is one."""
        with tempfile.TemporaryDirectory(prefix="matrix-") as directory:
            if engine != "postgres" or url:
                yield cls(engine, Path(directory), url)
                return
            from onceward.testing.postgres import PostgresServer

            server = PostgresServer(is_synced=False)
            server.start()
            try:
                yield cls(engine, Path(directory), cls._migrated(server.new_database("ready")))
            finally:
                server.close()
