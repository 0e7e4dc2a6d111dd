"""Alerts: evaluate alert rules, and raise one alert per cursor and episode.

One process per store evaluates the rules: the holder of the lease `~alerts`. An alert is durable
before it is delivered, so after a crash it is delivered again under the same idempotency key.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from onceward.client import Onceward
from onceward.cursors import Lease, Renewal
from onceward.cursors.models import OWN_PREFIX
from onceward.errors import LeaseLost, OncewardError
from onceward.stores import Row, Transaction
from onceward.system import Ids
from onceward.system.crash_points import crash_point
from onceward.workers.alert_models import WINDOWED, Alert, AlertRule, Kind, alert_of

LEASE_NAME: Final = f"{OWN_PREFIX}alerts"
LEASE_SECONDS: Final = 30.0
#: Limit of open alerts.
OPEN_MAX: Final = 500
#: How long cleared alerts are kept.
KEEP_DAYS: Final = 30
_numbers: Final = itertools.count(1)
_log: Final = logging.getLogger("onceward.alerts")


class Alerts:
    """Reads the alerts of a store."""

    def __init__(self, ow: Onceward) -> None:
        """Read them from this store."""
        self._ow = ow

    def list(self, limit: int = 100) -> tuple[Alert, ...]:
        """Return alerts: open ones first, then the newest."""
        rows = self._ow.store.read("alert_list", limit=limit)
        return tuple(alert_of(row) for row in rows)

    def firing(self) -> dict[str, int]:
        """Return how many alerts are firing, by kind."""
        return {row[0]: row[1] for row in self._ow.store.read("alert_counts")}


@dataclass(frozen=True, kw_only=True, slots=True)
class _OpenAlert:
    """An open alert, as the evaluator reads it."""

    id: str
    rule: str
    cursor: str
    is_firing: bool
    #: How long it has been over its threshold.
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class AlertChange:
    """The steps that one evaluation applies to one alert."""

    id: str
    rule: str
    cursor: str
    #: In this order, in one commit.
    steps: tuple[str, ...]
    value: float


class AlertEvaluator:
    """Evaluates the rules of one store while this process holds the lease."""

    def __init__(
        self,
        ow: Onceward,
        rules: Sequence[AlertRule],
        *,
        ids: Ids | None = None,
    ) -> None:
        """Prepare; the lease is not acquired yet."""
        self._ow = ow
        self._rules = {rule.name: rule for rule in rules}
        self._ids = ids or Ids()
        # A unique name: a lease is always granted again to the same name.
        self._holder = f"{ow.cursors.worker}/alerts/{next(_numbers)}"
        self._lease: Lease | None = None
        self._is_full = False

    def evaluate(self) -> tuple[AlertChange, ...] | None:
        """Evaluate every rule and store the changes; return None while another process does it.

        Delivers nothing: `alert_delivery` does.
        """
        lease = self._ensure_lease()
        if lease is None:
            return None
        try:
            with self._ow.transaction() as tx:
                lease.guard(tx)
                changes = self._changes(tx)
                for change in changes:
                    self._apply(tx, change)
        except LeaseLost:
            self._lease = None
            return None
        if any("fire" in change.steps for change in changes):
            crash_point("alerts.fire.after_commit")
        return changes

    @property
    def is_evaluating(self) -> bool:
        """Return whether this process evaluates the rules, as far as it knows."""
        return self._lease is not None

    def release(self) -> None:
        """Release the lease, so that another process evaluates."""
        lease, self._lease = self._lease, None
        if lease is not None:
            with suppress(OncewardError):
                lease.release()

    # --- evaluating ------------------------------------------------------------------------------

    def _ensure_lease(self) -> Lease | None:
        """Renew or acquire the lease; return None if another process holds it."""
        lease, self._lease = self._lease, None
        if lease is None:
            lease = self._ow.cursors.acquire(LEASE_NAME, self._holder, LEASE_SECONDS)
        else:
            try:
                if lease.renew() is Renewal.PAUSED:
                    with suppress(LeaseLost):
                        lease.release()
                    lease = None
            except LeaseLost:
                lease = None
        self._lease = lease
        return lease

    def _changes(self, tx: Transaction) -> tuple[AlertChange, ...]:
        """Compare current values with open alerts."""
        known = [_open(row) for row in tx.query("alert_open")]
        values = self._values(tx)
        changes = [
            change for each in known if (change := self._next_change(each, values)) is not None
        ]
        changes += self._new_alerts(known, values)
        return tuple(changes)

    def _values(self, tx: Transaction) -> dict[str, dict[str, float]]:
        """Return the values of each rule by cursor; cursors without a value count as 0."""
        queried: dict[tuple[Kind, float], list[Row]] = {}
        values = {}
        for rule in self._rules.values():
            what = (rule.kind, rule.window_seconds)
            if what not in queried:
                queried[what] = tx.query(f"alert_{rule.kind}", **_params(rule))
            values[rule.name] = {
                name: float(value) for name, value in queried[what] if rule.covers(name)
            }
        return values

    def _next_change(
        self, alert: _OpenAlert, values: Mapping[str, Mapping[str, float]]
    ) -> AlertChange | None:
        """Return the change of an open alert, if any."""
        rule = self._rules.get(alert.rule)
        # A removed rule, or a cursor without a value, is below every threshold.
        value = values[rule.name].get(alert.cursor, 0.0) if rule else 0.0
        steps: tuple[str, ...] = ()
        if alert.is_firing:
            if rule is None or value <= rule.clear:
                steps = ("clear",)
        elif rule is None or value <= rule.threshold:
            steps = ("drop",)
        elif alert.seconds >= rule.for_seconds:
            steps = ("fire",)
        if not steps:
            return None
        return AlertChange(
            id=alert.id, rule=alert.rule, cursor=alert.cursor, steps=steps, value=value
        )

    def _new_alerts(
        self, known: Sequence[_OpenAlert], values: Mapping[str, Mapping[str, float]]
    ) -> Iterator[AlertChange]:
        """Return the new alerts."""
        have = {(each.rule, each.cursor) for each in known}
        room = OPEN_MAX - len(have)
        found = [
            (rule, cursor, value)
            for rule in self._rules.values()
            for cursor, value in sorted(values[rule.name].items())
            if value > rule.threshold and (rule.name, cursor) not in have
        ]
        self._warn_if_full(len(found) - room)
        for rule, cursor, value in found[: max(room, 0)]:
            steps = ("begin", "fire") if rule.for_seconds == 0 else ("begin",)
            yield AlertChange(
                id=self._ids.new("alert"), rule=rule.name, cursor=cursor, steps=steps, value=value
            )

    def _apply(self, tx: Transaction, change: AlertChange) -> None:
        rule = self._rules.get(change.rule)
        for step in change.steps:
            if step == "begin":
                assert rule is not None
                tx.query(
                    "alert_begin",
                    id=change.id,
                    rule=rule.name,
                    kind=rule.kind,
                    cursor=change.cursor,
                    value=change.value,
                    threshold=rule.threshold,
                )
            elif step == "fire":
                assert rule is not None
                tx.query("alert_fire", id=change.id, value=change.value, threshold=rule.threshold)
            elif step == "clear":
                tx.query("alert_clear", id=change.id)
                tx.query("alert_prune", days=KEEP_DAYS)
            else:
                tx.query("alert_drop", id=change.id)

    def _warn_if_full(self, too_many: int) -> None:
        is_full, was_full = too_many > 0, self._is_full
        self._is_full = is_full
        if is_full and not was_full:
            facts = {"action": "alert_limit_reached", "open": OPEN_MAX, "left": too_many}
            text = "alert limit reached, further alerts are not raised"
            _log.error("%s: %s", text, too_many, extra={"event": text, "facts": facts})


def _params(rule: AlertRule) -> dict[str, float]:
    return {"window": rule.window_seconds} if rule.kind in WINDOWED else {}


def _open(row: Row) -> _OpenAlert:
    id_, rule, cursor, state, seconds = row
    return _OpenAlert(
        id=id_, rule=rule, cursor=cursor, is_firing=state == "firing", seconds=seconds
    )
