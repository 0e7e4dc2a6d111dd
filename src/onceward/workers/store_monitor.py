"""Store monitor: serve the metrics of a store, evaluate its alert rules and prune it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from onceward.client import Onceward
from onceward.errors import SchemaMismatch, StoreUnavailable
from onceward.stores import Store, migrate, open_store, status
from onceward.workers.alert_delivery import alerting
from onceward.workers.alert_models import AlertRule
from onceward.workers.metrics import MetricsPage
from onceward.workers.periodic import StopRepeating
from onceward.workers.pruning import pruning
from onceward.workers.retention import Retention

#: How long a thread waits for another one's attempt to connect, in requests and in background.
WAIT_SECONDS_MAX: Final = 1.0
BACKGROUND_SECONDS_MAX: Final = 30.0
#: How long a shutdown waits for connections to close.
CLOSE_SECONDS_MAX: Final = 0.5


@contextmanager
def opened_lazily(url: str | None, *, may_change: bool = True) -> Iterator[LazyStore]:
    """Provide a store that connects on first use; without a URL, the default store."""
    opened = LazyStore(open_store(url), may_change=may_change)
    try:
        yield opened
    finally:
        closing = threading.Thread(target=opened.store.close, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS_MAX)


@contextmanager
def monitoring(
    opened: LazyStore, rules: Sequence[AlertRule] | None, retention: Retention | None = None
) -> Iterator[Callable[[], bytes]]:
    """Prune a store and evaluate alert rules while the block runs; yields its metrics function.

    Connecting is retried until it succeeds. Without rules the store is only read.
    """
    with ExitStack() as stack:
        if rules is not None:
            stack.enter_context(pruning(opened.in_background, retention))
            stack.enter_context(alerting(opened.in_background, rules))
        stack.callback(opened.stop_waiting)
        yield MetricsPage(opened).page


class LazyStore:
    """A store that is opened and migrated on first use, with retries until it succeeds."""

    def __init__(self, store: Store, *, may_change: bool = True) -> None:
        """Do not connect yet; with `may_change=False` an outdated store is rejected."""
        self.store = store
        self._may_change = may_change
        self._mutex = threading.Lock()
        self._ow: Onceward | None = None
        self._is_closing = False

    def __call__(self) -> Onceward:
        """Return the open store; raises StoreUnavailable while it cannot be reached."""
        return self._open(WAIT_SECONDS_MAX)

    def in_background(self) -> Onceward:
        """Return the open store to a periodic task; raises StopRepeating at shutdown."""
        try:
            return self._open(BACKGROUND_SECONDS_MAX)
        except Exception:
            if self._is_closing:
                raise StopRepeating from None
            raise

    def _open(self, seconds: float) -> Onceward:
        if self._ow is not None:
            return self._ow
        # One thread connects; the others wait a limited time instead of queueing for the lock.
        if not self._mutex.acquire(timeout=seconds):
            raise StoreUnavailable
        try:
            if self._is_closing:
                raise StoreUnavailable
            if self._ow is None:
                (migrate if self._may_change else _check)(self.store)
                self._ow = Onceward(self.store)
            return self._ow
        finally:
            self._mutex.release()

    def stop_waiting(self) -> None:
        """Fail threads that wait for a store that was never reached; returns at once."""
        if self._ow is None:
            self._is_closing = True
            threading.Thread(target=self.store.close, daemon=True).start()


def _check(store: Store) -> None:
    """Reject a store that does not exist or needs migrations."""
    path = store.url.removeprefix("sqlite:///") if store.engine == "sqlite" else ""
    is_missing = bool(path) and not Path(path).exists()
    if is_missing:
        message = f"{store.url} does not exist, and --read-only does not allow creating it"
        raise SchemaMismatch(message, fix="correct the URL, or omit --read-only to create it")
    if status(store).pending:
        message = f"{store.url} needs migrations, and --read-only does not allow changes"
        fix = "run `onceward db migrate` with the same --store, or omit --read-only to migrate it"
        raise SchemaMismatch(message, fix=fix)
