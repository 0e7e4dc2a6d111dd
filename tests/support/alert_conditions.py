"""Alert conditions: set errors and lag of cursors, and receive the alerts in a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from onceward.client import Onceward
from onceward.workers.alert_models import AlertRule, Kind
from onceward.workers.alerts import AlertEvaluator

HOOK = "https://hook.test/secret"


def rule(kind: Kind = "errors", **changed: Any) -> AlertRule:
    fields: dict[str, Any] = {
        "name": f"{kind} rule",
        "kind": kind,
        "cursor": "*",
        "threshold": 3.0,
        "for_seconds": 0.0,
        "clear": 1.0,
        "window_seconds": 600.0 if kind in ("steals", "dead") else 0.0,
        "webhook": HOOK,
    }
    return AlertRule(**{**fields, **changed})


def set_errors(ow: Onceward, count: int, cursor: str = "c") -> None:
    if not ow.cursors.list(cursor):
        ow.cursors.acquire(cursor, "w")
    with ow.transaction() as tx:
        tx.execute(
            "update cursor_positions set error_count = ? where cursor_name = ?", [count, cursor]
        )


def set_lag(ow: Onceward, messages: int | None, seconds: float | None, cursor: str = "c") -> None:
    ow.cursors.acquire(cursor, "w")
    row = {"cursor": cursor, "messages": messages, "seconds": seconds, "processed": 0}
    rows = orjson.dumps([row]).decode()
    ow.store.run_in_own_transaction(lambda tx: tx.query("measure_write", rows=rows))


class Inbox:
    """A webhook that records what it receives."""

    def __init__(self) -> None:
        self.take_count: list[tuple[str, Mapping[str, object], str]] = []
        self.refuses = False

    def __call__(self, url: str, body: Mapping[str, object], key: str) -> None:
        if self.refuses:
            raise ConnectionError
        self.take_count.append((url, body, key))

    @property
    def events(self) -> list[tuple[object, object]]:
        return [(body["event"], body["cursor"]) for _, body, _ in self.take_count]


def steps(evaluator: AlertEvaluator) -> list[tuple[str, ...]]:
    changes = evaluator.evaluate()
    assert changes is not None
    return [change.steps for change in changes]
