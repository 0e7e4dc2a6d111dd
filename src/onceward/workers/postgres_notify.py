"""PostgreSQL notify: send and receive wakeups between processes by NOTIFY and LISTEN.

Each side has a dedicated connection, so no hint is part of a user's transaction. NOTIFY inside one
takes a lock that serializes all such commits of the database.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final

import psycopg

from onceward.errors import OncewardError
from onceward.retries import ExponentialBackoff
from onceward.stores import Row
from onceward.stores.postgres.pooler import ConnectionState
from onceward.system import Clock, Randomness
from onceward.workers.wakeups import WakeupCallback

_log: Final = logging.getLogger(__name__)
#: Opens a connection in autocommit.
Connect = Callable[[], psycopg.Connection[Row]]
CHANNEL: Final = "onceward_wake"
#: One topic is sent at most twenty times a second.
SEND_SECONDS_MIN: Final = 0.05
#: Queue limit; further topics are dropped, which costs listeners a poll interval.
TOPICS_MAX: Final = 1_000
#: The sending thread and its connection end after this idle time.
IDLE_SECONDS: Final = 30.0
#: How long a close waits for queued topics.
CLOSE_SECONDS: Final = 1.0
#: How often a subscriber checks whether it still has listeners.
WAIT_SECONDS: Final = 0.5
#: Delays between attempts to reach the server.
RECONNECT: Final = ExponentialBackoff(base_seconds=0.1, cap_seconds=5.0)


class NotifyPublisher:
    """Sends topics by NOTIFY, in a background thread."""

    def __init__(self, connect: Connect, clock: Clock, randomness: Randomness) -> None:
        """Send to the database that `connect` connects to."""
        self._connect = connect
        self._clock = clock
        self._randomness = randomness
        self._abandoned: list[object] = []
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[str, None] = {}
        self._sent_at: dict[str, float] = {}
        self._thread: threading.Thread | None = None
        self._connection: psycopg.Connection[Row] | None = None
        self._is_closing = False

    def after_fork(self) -> None:
        """Keep the parent's connection open: closing it here would end the parent's session."""
        self._abandoned.append(self._connection)
        self._reset()

    @property
    def backend(self) -> int | None:
        """Return the server's process id of our connection, while there is one."""
        connection = self._connection
        return None if connection is None else connection.info.backend_pid

    def publish(self, topic: str) -> None:
        """Queue a topic; queued topics are sent together."""
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
        """Send queued topics, unless the server is unavailable, and close the connection."""
        with self._changed:
            thread = self._thread
            self._is_closing = thread is not None
            self._changed.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        attempt = 0
        while topics := self._wait_for_topics():
            try:
                self._send(topics)
                attempt = 0
            except Exception as exc:  # noqa: BLE001 - wakeups must recover from any error
                _log_unexpected(exc)
                self._disconnect()
                attempt += 1
                self._requeue(topics, RECONNECT.delay(attempt, self._randomness) or 0.0)

    def _wait_for_topics(self) -> list[str]:
        """Wait for topics that may be sent now; return none when this thread shall end."""
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

    def _requeue(self, topics: list[str], seconds: float) -> None:
        """Queue these topics again after a delay, unless the publisher is closing."""
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
            with suppress(Exception):  # Not needed any more; errors do not matter.
                connection.close()


class NotifySubscriber:
    """Receives topics by LISTEN, and reconnects whenever the server was unavailable."""

    def __init__(
        self,
        connect: Connect,
        clock: Clock,
        randomness: Randomness,
        own: NotifyPublisher,
        connections: ConnectionState,
    ) -> None:
        """Listen at this database; skips hints of `own`, which were delivered locally."""
        self._connect = connect
        self._connections = connections
        self._clock = clock
        self._randomness = randomness
        self._own_publisher = own

    def listen(self, on_wakeup: WakeupCallback, has_listeners: Callable[[], bool]) -> None:
        """Listen while there are listeners; behind a pooler nothing arrives, and workers poll."""
        attempt = 0
        while has_listeners():
            if self._connections.is_pooled:
                self._clock.sleep(WAIT_SECONDS)
                continue
            try:
                with closing(self._connect()) as connection:
                    if self._connections.is_pooled:  # Detected by this connection.
                        continue
                    connection.execute(f"listen {CHANNEL}")
                    attempt = 0
                    on_wakeup(None)  # Hints before LISTEN were missed.
                    self._receive(connection, on_wakeup, has_listeners)
            except Exception as exc:  # noqa: BLE001 - as above
                _log_unexpected(exc)
                attempt += 1
                self._clock.sleep(RECONNECT.delay(attempt, self._randomness) or 0.0)

    def _receive(
        self,
        connection: psycopg.Connection[Row],
        on_wakeup: WakeupCallback,
        has_listeners: Callable[[], bool],
    ) -> None:
        while has_listeners():
            for hint in connection.notifies(timeout=WAIT_SECONDS):
                if hint.pid != self._own_publisher.backend:
                    on_wakeup(hint.payload)


def _log_unexpected(error: Exception) -> None:
    """Log an error, unless it is an unavailable server, which users of the store report."""
    if not isinstance(error, (OncewardError, psycopg.Error)):
        _log.warning("wakeups are interrupted: %r", error)
