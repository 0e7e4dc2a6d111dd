"""Wakes: hints that something may have come, within a process and between processes.

A hint says where to look, never what is there; one that is lost costs a poll interval, one too many
costs a look. On PostgreSQL they travel by NOTIFY, on connections of their own. On SQLite every
commit changes the write-ahead log, and that is noticed: nobody has to say anything.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from onceward.cursors.models import NAME_CHARACTERS_MAX, check_text
from onceward.seams import Clock, Randomness, SystemClock, SystemRandomness
from onceward.stores import Store
from onceward.stores.forks import reset_after_fork

_log = logging.getLogger(__name__)
#: The topic of whoever does not know what it has changed.
ANYTHING: Final = "*"
#: How long an ear that failed is left alone.
AGAIN_SECONDS: Final = 1.0
#: Called from any thread with a topic, or None: anything may have changed. Returns at once.
Heard = Callable[[str | None], None]


class Ear(Protocol):
    """Hears what other processes say."""

    def hear(self, heard: Heard, is_wanted: Callable[[], bool]) -> None:
        """Call `heard` at every hint, until it is not wanted any more."""


class Mouth(Protocol):
    """Tells other processes."""

    def say(self, topic: str) -> None:
        """Tell them soon; returns at once."""

    def close(self) -> None:
        """Say no more."""

    def after_fork(self) -> None:
        """Forget what is the parent's."""


class Wakes:
    """The hints of one store."""

    def __init__(
        self, store: Store, *, clock: Clock | None = None, randomness: Randomness | None = None
    ) -> None:
        """Use this store, without keeping it; nothing is opened before somebody uses this."""
        self._clock = clock or SystemClock()
        self._mouth, self._ear = _mouth_and_ear(
            store, self._clock, randomness or SystemRandomness()
        )
        self._begin_anew()
        reset_after_fork(self)

    @staticmethod
    def of(store: Store) -> Wakes:
        """Return the hints of a store that everybody in this process shares."""
        return _registry.wakes(store)

    def _begin_anew(self) -> None:
        self._mutex = threading.Lock()
        self._listeners: dict[object, Heard] = {}
        self._thread: threading.Thread | None = None

    def after_fork(self) -> None:
        """Forget the parent's listeners and threads: they are not in this process."""
        self._begin_anew()
        if self._mouth is not None:
            self._mouth.after_fork()

    def send(self, topic: str) -> None:
        """Tell everybody who listens that there may be something new; call it after the commit.

        It is cheap: many in a row are one, and another thread sends them. A process that ends right
        after this should `close`, or others hear of it at their next poll.
        """
        check_text("topic", topic, characters_max=NAME_CHARACTERS_MAX, may_be_empty=False)
        self._tell(topic)
        self.tell_others(topic)

    def tell_others(self, topic: str) -> None:
        """Tell the other processes only, where somebody has to."""
        if self._mouth is not None:
            self._mouth.say(topic)

    @contextmanager
    def listening(self, heard: Heard) -> Iterator[None]:
        """Call `heard` at every hint while the block runs.

        It gets the topic, or None when anything may have changed: after a connection was lost, say.
        On SQLite None comes after every commit, so look before you write, or two may wake each
        other for ever.
        """
        key = object()
        with self._mutex:
            self._listeners[key] = heard
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._hear, name="onceward-wakes", daemon=True
                )
                self._thread.start()
        try:
            yield
        finally:
            with self._mutex:
                self._listeners.pop(key, None)

    def close(self) -> None:
        """Send what is still to be sent, and listen no more."""
        with self._mutex:
            self._listeners.clear()
        if self._mouth is not None:
            self._mouth.close()

    def _tell(self, topic: str | None) -> None:
        for heard in list(self._listeners.values()):
            try:
                heard(topic)
            except Exception:  # noqa: BLE001 - not the sender's fault, nor that of other listeners
                _log.exception("a listener failed")

    def _hear(self) -> None:
        while self._is_wanted():
            try:
                self._ear.hear(self._tell, self._is_wanted)
            except Exception as exc:  # noqa: BLE001 - polls go on; a deaf ear would cost them all
                _log.warning("hints are interrupted: %r", exc)
                self._clock.sleep(AGAIN_SECONDS)

    def _is_wanted(self) -> bool:
        """Say whether anybody listens; once nobody does, this thread has to end."""
        with self._mutex:
            if not self._listeners and self._thread is threading.current_thread():
                self._thread = None
            return self._thread is threading.current_thread()


def _mouth_and_ear(store: Store, clock: Clock, randomness: Randomness) -> tuple[Mouth | None, Ear]:
    """Return how hints get to other processes, if anybody has to say anything, and from them."""
    if store.engine == "postgres":
        from onceward.stores.postgres.store import PostgresStore  # noqa: PLC0415 - its driver
        from onceward.workers.notify import Listener, Notifier  # noqa: PLC0415 - is optional

        assert isinstance(store, PostgresStore)
        mouth = Notifier(store.connector(), clock, randomness)
        ear = Listener(store.connector(), clock, randomness, mouth, store.connections)
        return mouth, ear
    from onceward.stores.sqlite.store import SqliteStore  # noqa: PLC0415 - the other one
    from onceward.workers.commits import CommitWatch  # noqa: PLC0415 - asks for this module

    assert isinstance(store, SqliteStore)
    return None, CommitWatch(store.path, clock)


class _Registry:
    """One for each store, as long as that is in use."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._all: WeakKeyDictionary[Store, Wakes] = WeakKeyDictionary()
        reset_after_fork(self)

    def after_fork(self) -> None:
        self._mutex = threading.Lock()

    def wakes(self, store: Store) -> Wakes:
        with self._mutex:
            found = self._all.get(store)
            if found is None:
                found = self._all[store] = Wakes(store)
            return found


_registry = _Registry()
