"""Wakeups: tell workers that new messages may exist, within a process and between processes.

A hint names a topic and carries no data. A lost hint costs one poll interval, a spurious one an
empty read. On PostgreSQL hints travel by NOTIFY on dedicated connections. On SQLite each process
watches the write-ahead log, which every commit changes, so no hint has to be sent.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from onceward.cursors.models import NAME_CHARACTERS_MAX, check_text
from onceward.stores import Store
from onceward.stores.fork_safety import reset_after_fork
from onceward.system import Clock, Randomness, SystemClock, SystemRandomness

_log = logging.getLogger(__name__)
#: The topic of a sender that does not know what it has changed.
ANY_TOPIC: Final = "*"
#: Pause before a failed subscriber listens again.
RETRY_SECONDS: Final = 1.0
#: Called from any thread with a topic, or None when anything may have changed. Must not block.
WakeupCallback = Callable[[str | None], None]


class Subscriber(Protocol):
    """Receives hints from other processes."""

    def listen(self, on_wakeup: WakeupCallback, has_listeners: Callable[[], bool]) -> None:
        """Call `on_wakeup` at every hint while `has_listeners` returns true."""


class Publisher(Protocol):
    """Sends hints to other processes."""

    def publish(self, topic: str) -> None:
        """Queue a hint; another thread sends it."""

    def close(self) -> None:
        """Send what is queued, then stop."""

    def after_fork(self) -> None:
        """Drop connections and threads that belong to the parent process."""


class Wakeups:
    """The hints of one store."""

    def __init__(
        self, store: Store, *, clock: Clock | None = None, randomness: Randomness | None = None
    ) -> None:
        """Use this store without holding a reference; nothing is opened before the first use."""
        self._clock = clock or SystemClock()
        self._publisher, self._subscriber = _transport(
            store, self._clock, randomness or SystemRandomness()
        )
        self._reset()
        reset_after_fork(self)

    @staticmethod
    def of(store: Store) -> Wakeups:
        """Return the instance for this store that the whole process shares."""
        return _by_store.wakeups(store)

    def _reset(self) -> None:
        self._mutex = threading.Lock()
        self._listeners: dict[object, WakeupCallback] = {}
        self._thread: threading.Thread | None = None

    def after_fork(self) -> None:
        """Drop the parent's listeners and threads: they do not exist in this process."""
        self._reset()
        if self._publisher is not None:
            self._publisher.after_fork()

    def publish(self, topic: str) -> None:
        """Wake all listeners of a topic; call this after the commit.

        Cheap: hints in a row are merged, and another thread sends them. A process that exits right
        afterwards should call `close`, or other processes notice only at their next poll.
        """
        check_text("topic", topic, characters_max=NAME_CHARACTERS_MAX, may_be_empty=False)
        self._call_listeners(topic)
        self.publish_to_others(topic)

    def publish_to_others(self, topic: str) -> None:
        """Wake listeners in other processes only; on SQLite they notice the commit themselves."""
        if self._publisher is not None:
            self._publisher.publish(topic)

    @contextmanager
    def subscribed(self, on_wakeup: WakeupCallback) -> Iterator[None]:
        """Call `on_wakeup` at every hint while the block runs.

        It gets the topic, or None when anything may have changed, such as after a lost connection.
        On SQLite None comes after every commit. A listener that always writes would wake other
        processes, which wake it in turn, so read first and write only when needed.
        """
        key = object()
        with self._mutex:
            self._listeners[key] = on_wakeup
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._listen, name="onceward-wakeups", daemon=True
                )
                self._thread.start()
        try:
            yield
        finally:
            with self._mutex:
                self._listeners.pop(key, None)

    def close(self) -> None:
        """Send queued hints, then stop listening."""
        with self._mutex:
            self._listeners.clear()
        if self._publisher is not None:
            self._publisher.close()

    def _call_listeners(self, topic: str | None) -> None:
        for on_wakeup in list(self._listeners.values()):
            try:
                on_wakeup(topic)
            except Exception:  # noqa: BLE001 - must not reach the sender or other listeners
                _log.exception("a wakeup listener failed")

    def _listen(self) -> None:
        while self._has_listeners():
            try:
                self._subscriber.listen(self._call_listeners, self._has_listeners)
            except Exception as exc:  # noqa: BLE001 - polling goes on; wakeups must recover
                _log.warning("wakeups are interrupted: %r", exc)
                self._clock.sleep(RETRY_SECONDS)

    def _has_listeners(self) -> bool:
        """Return whether this thread is still needed; it ends after the last listener has left."""
        with self._mutex:
            if not self._listeners and self._thread is threading.current_thread():
                self._thread = None
            return self._thread is threading.current_thread()


def _transport(
    store: Store, clock: Clock, randomness: Randomness
) -> tuple[Publisher | None, Subscriber]:
    """Return the publisher, if the engine needs one, and the subscriber for this store."""
    if store.engine == "postgres":
        from onceward.stores.postgres.store import PostgresStore  # noqa: PLC0415 - its driver
        from onceward.workers.postgres_notify import NotifyPublisher, NotifySubscriber  # noqa: PLC0415 - is optional

        assert isinstance(store, PostgresStore)
        publisher = NotifyPublisher(store.connector(), clock, randomness)
        subscriber = NotifySubscriber(
            store.connector(), clock, randomness, publisher, store.connections
        )
        return publisher, subscriber
    from onceward.stores.sqlite.store import SqliteStore  # noqa: PLC0415 - as above
    from onceward.workers.commit_watch import CommitWatch  # noqa: PLC0415 - imports this module

    assert isinstance(store, SqliteStore)
    return None, CommitWatch(store.path, clock)


class _WakeupsByStore:
    """One `Wakeups` per store, kept as long as the store is in use."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._all: WeakKeyDictionary[Store, Wakeups] = WeakKeyDictionary()
        reset_after_fork(self)

    def after_fork(self) -> None:
        self._mutex = threading.Lock()

    def wakeups(self, store: Store) -> Wakeups:
        with self._mutex:
            found = self._all.get(store)
            if found is None:
                found = self._all[store] = Wakeups(store)
            return found


_by_store = _WakeupsByStore()
