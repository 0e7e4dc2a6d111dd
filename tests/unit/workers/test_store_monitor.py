"""Watching: a store that takes its time to open, or never does, while others look after it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from onceward.errors import StoreUnavailable
from onceward.stores import Store, migrate
from onceward.workers.alert_models import DEFAULT_RULES
from onceward.workers.store_monitor import LazyStore, monitoring, opened_lazily
from tests.support.waiting import until

#: What never takes so long unless it does not happen.
GUARD_SECONDS = 60.0


def rounds_alive() -> list[str]:
    """Return the threads that look after a store."""
    names = ("onceward-alerts", "onceward-pruning")
    return [each.name for each in threading.enumerate() if each.name in names]


def until_quiet() -> None:
    until(lambda: not rounds_alive())


def test_a_store_that_opens_slowly_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One thread opens it, the other waits, and none reports that it cannot be reached."""
    opened_by: list[Store] = []
    was_asked = threading.Event()

    def slowly(store: Store) -> None:
        was_asked.wait(GUARD_SECONDS)
        migrate(store)
        opened_by.append(store)

    monkeypatch.setattr("onceward.workers.store_monitor.migrate", slowly)
    monkeypatch.setattr("onceward.workers.store_monitor.WAIT_SECONDS_MAX", 0.01)
    monkeypatch.setattr("onceward.workers.store_monitor.BACKGROUND_SECONDS_MAX", 2 * GUARD_SECONDS)
    with (
        opened_lazily(f"sqlite:///{tmp_path / 'work.db'}") as opened,
        monitoring(opened, DEFAULT_RULES),
    ):
        with pytest.raises(StoreUnavailable):
            asked_of(opened)
        was_asked.set()
        monkeypatch.setattr("onceward.workers.store_monitor.WAIT_SECONDS_MAX", GUARD_SECONDS)
        assert opened().store is opened.store
    until_quiet()
    assert caplog.messages == []
    assert len(opened_by) == 1


def asked_of(opened: LazyStore) -> None:
    """Ask as a request does, once another thread is opening the store."""
    until(opened._mutex.locked)
    opened()


def test_an_end_before_the_store_was_reached_is_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator stops a server that is still starting: that is not logged as trouble."""
    begun, closed = threading.Event(), threading.Event()

    def never(_: Store) -> None:
        begun.set()
        closed.wait(GUARD_SECONDS)
        raise StoreUnavailable

    monkeypatch.setattr("onceward.workers.store_monitor.migrate", never)
    with opened_lazily(f"sqlite:///{tmp_path / 'work.db'}") as opened:
        close = opened.store.close

        def gone() -> None:
            closed.set()
            close()

        monkeypatch.setattr(opened.store, "close", gone)
        with monitoring(opened, DEFAULT_RULES):
            assert begun.wait(GUARD_SECONDS)
            # What happens when the block ends, before the threads know that it did.
            opened.stop_waiting()
            until_quiet()
    assert caplog.messages == []
