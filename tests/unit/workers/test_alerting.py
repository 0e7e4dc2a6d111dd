"""Alerting: the threads that evaluate and tell, as `onceward worker` and `onceward up` run them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import StoreUnavailable
from onceward.workers.alert_delivery import alerting
from onceward.workers.alert_models import AlertRule
from onceward.workers.alerts import LEASE_NAME, Alerts
from tests.support.webhook_server import hook


def rule(webhook: str) -> AlertRule:
    return AlertRule(
        name="failing",
        kind="errors",
        cursor="*",
        threshold=0.0,
        for_seconds=0.0,
        clear=0.0,
        window_seconds=0.0,
        webhook=webhook,
    )


def test_what_is_wrong_reaches_a_webhook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a store that is only there at the second try; the lease is given back at the end."""
    monkeypatch.setattr("onceward.workers.periodic.RETRY_SECONDS", 0.02)
    tries: list[int] = []
    with hook() as server, open_handle(f"sqlite:///{tmp_path / 'work.db'}") as ow:
        lease = ow.cursors.acquire("c", "w")
        assert lease is not None
        lease.fail()

        def opened() -> Onceward:
            tries.append(1)
            if len(tries) == 1:
                raise StoreUnavailable
            return ow

        with alerting(opened, [rule(server.url)], seconds=0.02):
            assert server.arrived.wait(60)
        ((_, body), *_) = server.taken
        assert (body["event"], body["cursor"], body["kind"]) == ("fired", "c", "errors")
        assert ow.cursors.show(LEASE_NAME).lease_owner is None
        assert len(Alerts(ow).list()) == 1


def test_without_rules_there_is_nothing_to_do() -> None:
    """No store is opened for it, and no thread is started."""

    def opened() -> Onceward:
        raise AssertionError

    before = threading.active_count()
    with alerting(opened, []):
        assert threading.active_count() == before
