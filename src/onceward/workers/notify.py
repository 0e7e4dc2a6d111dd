"""Notify: hints between processes over PostgreSQL's LISTEN and NOTIFY.

Each side has a connection of its own, so no hint is part of a user's transaction: NOTIFY inside one
would take a lock that all such transactions of the database share.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final

import psycopg

from onceward.errors import OncewardError
from onceward.retries import Growing
from onceward.seams import Clock, Randomness
from onceward.stores import Row
from onceward.stores.postgres.pooler import ConnectionState
from onceward.workers.wakes import Heard

_log: Final = logging.getLogger(__name__)
#: Opens a connection in autocommit.
Connect = Callable[[], psycopg.Connection[Row]]
CHANNEL: Final = "onceward_wake"
#: One topic is sent at most twenty times a second.
SEND_SECONDS_MIN: Final = 0.05
#: Topics that wait to be sent; more are dropped, which costs those who listen a poll interval.
TOPICS_MAX: Final = 1_000
#: A thread that has had nothing to send for so long ends, and its connection with it.
IDLE_SECONDS: Final = 30.0
#: How long a close waits for what is still to be sent.
CLOSE_SECONDS: Final = 1.0
#: How often whoever listens is asked whether it still does.
WAIT_SECONDS: Final = 0.5
#: Between attempts to reach a server that is away.
RECONNECT: Final = Growing(base_seconds=0.1, cap_seconds=5.0)


class Notifier:
    """Sends topics in a thread of its own."""

    def __init__(self, connect: Connect, clock: Clock, randomness: Randomness) -> None:
        """Send to whoever listens at the database that `connect` leads to."""
        self._connect = connect
        self._clock = clock
        self._randomness = randomness
        self._abandoned: list[object] = []
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[str, None] = {}
        self._sent_at: dict[str, float] = {}
        self._thread: threading.Thread | None = None
        self._connection: psycopg.Connection[Row] | None = None
        self._is_closing = False

    def after_fork(self) -> None:
        """Leave the parent's connection alone: to close it here would end it there."""
        self._abandoned.append(self._connection)
        self._begin_anew()

    @property
    def backend(self) -> int | None:
        """Return which connection the server knows us by, while there is one."""
        connection = self._connection
        return None if connection is None else connection.info.backend_pid

    def say(self, topic: str) -> None:
        """Send a topic soon, together with any that is waiting."""
        with self._changed:
            if topic in self._waiting or len(self._waiting) >= TOPICS_MAX:
                return
            self._waiting[topic] = None
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="onceward-notify", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Send what waits, unless the server is away, and give the connection back."""
        with self._changed:
            thread = self._thread
            self._is_closing = thread is not None
            self._changed.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        attempt = 0
        while topics := self._due():
            try:
                self._send(topics)
                attempt = 0
            except Exception as exc:  # noqa: BLE001 - whatever it is, hints go on after it
                _tell(exc)
                self._disconnect()
                attempt += 1
                self._give_back(topics, RECONNECT.delay(attempt, self._randomness) or 0.0)

    def _due(self) -> list[str]:
        """Wait for topics whose turn it is; none when this thread is to end."""
        with self._changed:
            while self._waiting or not self._is_closing:
                now = self._clock.monotonic()
                recent = {t: at for t, at in self._sent_at.items() if now - at < SEND_SECONDS_MIN}
                self._sent_at = recent
                due = [t for t in self._waiting if t not in recent or self._is_closing]
                if due:
                    for topic in due:
                        del self._waiting[topic]
                        recent[topic] = now
                    return due
                if self._waiting:
                    self._changed.wait(SEND_SECONDS_MIN - (now - min(recent.values())))
                elif not self._changed.wait(IDLE_SECONDS):
                    break
            self._thread, self._is_closing = None, False
            self._disconnect()
            return []

    def _give_back(self, topics: list[str], seconds: float) -> None:
        """Try these again after a while, if there is one."""
        with self._changed:
            if not self._is_closing:
                self._waiting.update(dict.fromkeys(topics))
                self._changed.wait_for(lambda: self._is_closing, seconds)
            if self._is_closing:
                self._waiting.clear()

    def _send(self, topics: list[str]) -> None:
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        self._connection.execute(
            "select pg_notify(%s, topic) from unnest(%s::text[]) as topic", [CHANNEL, topics]
        )

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # It is not needed any more, whatever it says.
                connection.close()


class Listener:
    """Hears topics, and comes back for ever after the server went away."""

    def __init__(
        self,
        connect: Connect,
        clock: Clock,
        randomness: Randomness,
        own: Notifier,
        connections: ConnectionState,
    ) -> None:
        """Hear what is sent at that database, except by `own`, which told us already."""
        self._connect = connect
        self._connections = connections
        self._clock = clock
        self._randomness = randomness
        self._own = own

    def hear(self, heard: Heard, is_wanted: Callable[[], bool]) -> None:
        """Listen until nobody wants to know; behind a pooler hear nothing, and workers poll."""
        attempt = 0
        while is_wanted():
            if self._connections.is_pooled:
                self._clock.sleep(WAIT_SECONDS)
                continue
            try:
                with closing(self._connect()) as connection:
                    if self._connections.is_pooled:  # This connection has found the pooler.
                        continue
                    connection.execute(f"listen {CHANNEL}")
                    attempt = 0
                    heard(None)  # Something may have been said before.
                    self._hear(connection, heard, is_wanted)
            except Exception as exc:  # noqa: BLE001 - the same
                _tell(exc)
                attempt += 1
                self._clock.sleep(RECONNECT.delay(attempt, self._randomness) or 0.0)

    def _hear(
        self,
        connection: psycopg.Connection[Row],
        heard: Heard,
        is_wanted: Callable[[], bool],
    ) -> None:
        while is_wanted():
            for said in connection.notifies(timeout=WAIT_SECONDS):
                if said.pid != self._own.backend:
                    heard(said.payload)


def _tell(error: Exception) -> None:
    """Say so, unless it is a server that is away, which whoever needs it says."""
    if not isinstance(error, (OncewardError, psycopg.Error)):
        _log.warning("hints are interrupted: %r", error)
