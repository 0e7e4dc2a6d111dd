"""Watching: looks after a store that others work with: its metrics, and alerts about it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from onceward.errors import SchemaMismatch, StoreUnavailable
from onceward.handle import Onceward
from onceward.stores import Store, migrate, open_store, status
from onceward.workers.alert_models import Rule
from onceward.workers.alert_sending import alerting
from onceward.workers.metrics import Metrics
from onceward.workers.pruning import pruning
from onceward.workers.retention import Retention
from onceward.workers.rounds import Over

#: How long one waits for another who tries to reach the store, and how long in the background.
WAIT_SECONDS_MAX: Final = 1.0
BACKGROUND_SECONDS_MAX: Final = 30.0
#: How long an end waits for connections to close.
CLOSE_SECONDS_MAX: Final = 0.5


@contextmanager
def opening(url: str | None, *, may_change: bool = True) -> Iterator[Opened]:
    """Open a store while the block runs; without a URL the one that every command would take."""
    opened = Opened(open_store(url), may_change=may_change)
    try:
        yield opened
    finally:
        closing = threading.Thread(target=opened.store.close, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS_MAX)


@contextmanager
def watching(
    opened: Opened, rules: Sequence[Rule] | None, retention: Retention | None = None
) -> Iterator[Callable[[], bytes]]:
    """Look after a store while the block runs; gives the function that makes its metrics.

    A store that cannot be reached is asked again and again. Without rules it is only looked at.
    """
    with ExitStack() as stack:
        if rules is not None:
            stack.enter_context(pruning(opened.in_background, retention))
            stack.enter_context(alerting(opened.in_background, rules))
        stack.callback(opened.give_up)
        yield Metrics(opened).page


class Opened:
    """A store that is brought up to date when somebody needs it, again until it succeeds."""

    def __init__(self, store: Store, *, may_change: bool = True) -> None:
        """Ask it for nothing yet; one that may not be changed is taken as it is, or not at all."""
        self.store = store
        self._may_change = may_change
        self._mutex = threading.Lock()
        self._ow: Onceward | None = None
        self._is_given_up = False

    def __call__(self) -> Onceward:
        """Return the open store; StoreUnavailable while it cannot be reached."""
        return self._reached(WAIT_SECONDS_MAX)

    def in_background(self) -> Onceward:
        """Return the open store to a thread that has time, or tell it that all is over."""
        try:
            return self._reached(BACKGROUND_SECONDS_MAX)
        except Exception:
            if self._is_given_up:
                raise Over from None
            raise

    def _reached(self, seconds: float) -> Onceward:
        if self._ow is not None:
            return self._ow
        # One tries; the others do not queue up behind it, each for as long as a try takes.
        if not self._mutex.acquire(timeout=seconds):
            raise StoreUnavailable
        try:
            if self._is_given_up:
                raise StoreUnavailable
            if self._ow is None:
                (migrate if self._may_change else _check)(self.store)
                self._ow = Onceward(self.store)
            return self._ow
        finally:
            self._mutex.release()

    def give_up(self) -> None:
        """Let nobody wait any longer for a store that was never reached; does not wait itself."""
        if self._ow is None:
            self._is_given_up = True
            threading.Thread(target=self.store.close, daemon=True).start()


def _check(store: Store) -> None:
    """Refuse a store that would have to be made or brought up to date."""
    path = store.url.removeprefix("sqlite:///") if store.engine == "sqlite" else ""
    is_missing = bool(path) and not Path(path).exists()
    if is_missing or status(store).pending:
        message = f"{store.url} is not up to date, and may not be changed"
        raise SchemaMismatch(message, fix="run `onceward db migrate`, or start without --read-only")
