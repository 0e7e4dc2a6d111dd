"""Lost commit answers: commits that end without an answer, so that their outcome is unknown.

On PostgreSQL a proxy cuts the wire, after or before the commit. On SQLite the disk fails in it.
"""

import os
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from onceward.stores.postgres.transaction import PostgresTransaction
from onceward.stores.sqlite import database
from onceward.stores.sqlite.connection import SqliteConnection, connect
from tests.support.sqlite_errors import sqlite_error

#: Lets one commit of the store under test end without an answer; kept if the argument is true.
LoseAnswer = Callable[[bool], None]


class Losing:
    """Whether the next commit of this thread is lost; heartbeats commit too, in theirs."""

    def __init__(self) -> None:
        self._local = threading.local()

    def push(self, kept: bool) -> None:
        self._local.kept = kept

    def pop(self) -> bool | None:
        kept: bool | None = vars(self._local).pop("kept", None)
        return kept


class Wire:
    """A proxy in front of PostgreSQL that loses what is on the wire on request."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        #: Clients, by their ports, whose next message is lost: True if it arrives and only the
        #: answer does not.
        self.losing: dict[int, bool] = {}
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """End it; its clients have gone."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self._server)
                self._threads.append(threading.Thread(target=self._serve, args=[client, server]))
                self._threads[-1].start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            port: int = client.getpeername()[1]
            answering = threading.Thread(target=self._carry, args=[server, client, (port, True)])
            answering.start()
            self._carry(client, server, (port, False))
            answering.join()

    def _carry(self, source: socket.socket, target: socket.socket, lost: tuple[int, bool]) -> None:
        with suppress(OSError):
            while (data := source.recv(65536)) and lost not in self.losing.items():
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def unreliable(url: str, patch: pytest.MonkeyPatch) -> Iterator[tuple[str, LoseAnswer]]:
    """Give a store's address, and the way to lose the answer to the next commit there."""
    if url.startswith("sqlite"):
        yield url, _lose_on_disk(patch)
        return
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    wire = Wire(parts.hostname, parts.port)
    yield url.replace(f":{parts.port}/", f":{wire.port}/"), _lose_on(wire, patch)
    wire.close()


def _lose_on(wire: Wire, patch: pytest.MonkeyPatch) -> LoseAnswer:
    commit = PostgresTransaction._commit  # The last round trip, which may also be the first.
    losing = Losing()

    def committing(transaction: PostgresTransaction, statements: Any) -> Any:
        kept = losing.pop()
        if kept is not None:
            with socket.socket(fileno=os.dup(transaction._connection.fileno())) as used:
                wire.losing[used.getsockname()[1]] = kept
        return commit(transaction, statements)

    patch.setattr(PostgresTransaction, "_commit", committing)
    return losing.push


def _lose_on_disk(patch: pytest.MonkeyPatch) -> LoseAnswer:
    losing = Losing()

    class Failing:
        """A connection whose commit reports an error of the disk."""

        def __init__(self, connection: SqliteConnection) -> None:
            self._connection = connection

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

        def execute(self, sql: str, *params: Any) -> Any:
            kept = losing.pop() if sql == "commit" else None
            if kept is not False:
                rows = self._connection.execute(sql, *params)
            if kept is None:
                return rows
            raise sqlite_error(sqlite3.SQLITE_IOERR, "disk I/O error")

    patch.setattr(database, "connect", lambda path: Failing(connect(path)))
    return losing.push
