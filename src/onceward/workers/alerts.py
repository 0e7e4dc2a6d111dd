"""Alerts: notices when cursors are in trouble, once for each time, and tells so.

One process of a store evaluates the rules: whoever holds the lease of `~alerts`. What fired is
durable before it is told, so a crash in between tells it again, under the same key.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from onceward.crash import crash_point
from onceward.cursors import Lease, Renewal
from onceward.cursors.models import OWN_PREFIX
from onceward.errors import LeaseLost, OncewardError
from onceward.handle import Onceward
from onceward.seams import Ids
from onceward.stores import Row, Transaction
from onceward.workers.alert_models import WINDOWED, Alert, Kind, Rule, alert_of

LEASE_NAME: Final = f"{OWN_PREFIX}alerts"
LEASE_SECONDS: Final = 30.0
#: Alerts that are not over; a store in which everything is wrong does not need more to say so.
OPEN_MAX: Final = 500
#: How long those that are over can be read.
KEEP_DAYS: Final = 30
_numbers: Final = itertools.count(1)
_log: Final = logging.getLogger("onceward.alerts")


class Alerts:
    """What a store knows of alerts."""

    def __init__(self, ow: Onceward) -> None:
        """Read them from this store."""
        self._ow = ow

    def list(self, limit: int = 100) -> tuple[Alert, ...]:
        """Return alerts, those that are not over first, then the newest."""
        rows = self._ow.store.read("alert_list", limit=limit)
        return tuple(alert_of(row) for row in rows)

    def firing(self) -> dict[str, int]:
        """Return how many fire now, by kind."""
        return {row[0]: row[1] for row in self._ow.store.read("alert_counts")}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Open:
    """An alert that is not over, as the evaluator finds it."""

    id: str
    rule: str
    cursor: str
    is_firing: bool
    #: How long it has been over its threshold.
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What one evaluation does to one alert."""

    id: str
    rule: str
    cursor: str
    #: In this order, in one commit.
    steps: tuple[str, ...]
    value: float


class Evaluator:
    """The rules of one store, evaluated by this process while it holds the lease."""

    def __init__(
        self,
        ow: Onceward,
        rules: Sequence[Rule],
        *,
        ids: Ids | None = None,
    ) -> None:
        """Hold nothing yet."""
        self._ow = ow
        self._rules = {rule.name: rule for rule in rules}
        self._ids = ids or Ids()
        # A name of its own: to the same worker a lease is always granted again.
        self._holder = f"{ow.cursors.worker}/alerts/{next(_numbers)}"
        self._lease: Lease | None = None
        self._is_full = False

    def tick(self) -> tuple[Change, ...] | None:
        """Evaluate every rule once, and keep what changed; None while another process does it.

        Tells nobody: `alert_sending` does.
        """
        lease = self._hold()
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
        """Say whether it is this process that evaluates, as far as it knows."""
        return self._lease is not None

    def release(self) -> None:
        """Let another process evaluate."""
        lease, self._lease = self._lease, None
        if lease is not None:
            with suppress(OncewardError):
                lease.release()

    # --- evaluating ------------------------------------------------------------------------------

    def _hold(self) -> Lease | None:
        """Have the lease, from the last time or anew."""
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

    def _changes(self, tx: Transaction) -> tuple[Change, ...]:
        """Compare what is with what is known."""
        known = [_open(row) for row in tx.query("alert_open")]
        values = self._values(tx)
        changes = [change for each in known if (change := self._next(each, values)) is not None]
        changes += self._new(known, values)
        return tuple(changes)

    def _values(self, tx: Transaction) -> dict[str, dict[str, float]]:
        """Return, rule by rule, the cursors it covers that have more than nothing to tell."""
        asked: dict[tuple[Kind, float], list[Row]] = {}
        values = {}
        for rule in self._rules.values():
            what = (rule.kind, rule.window_seconds)
            if what not in asked:
                asked[what] = tx.query(f"alert_{rule.kind}", **_params(rule))
            values[rule.name] = {
                name: float(value) for name, value in asked[what] if rule.covers(name)
            }
        return values

    def _next(self, alert: _Open, values: Mapping[str, Mapping[str, float]]) -> Change | None:
        """Return what becomes of an alert that is not over."""
        rule = self._rules.get(alert.rule)
        # Nobody asks any more, or there is nothing to tell: that is below every threshold.
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
        return Change(id=alert.id, rule=alert.rule, cursor=alert.cursor, steps=steps, value=value)

    def _new(
        self, known: Sequence[_Open], values: Mapping[str, Mapping[str, float]]
    ) -> Iterator[Change]:
        """Return the alerts that begin."""
        have = {(each.rule, each.cursor) for each in known}
        room = OPEN_MAX - len(have)
        found = [
            (rule, cursor, value)
            for rule in self._rules.values()
            for cursor, value in sorted(values[rule.name].items())
            if value > rule.threshold and (rule.name, cursor) not in have
        ]
        self._tell_full(len(found) - room)
        for rule, cursor, value in found[: max(room, 0)]:
            steps = ("begin", "fire") if rule.for_seconds == 0 else ("begin",)
            yield Change(
                id=self._ids.new("alert"), rule=rule.name, cursor=cursor, steps=steps, value=value
            )

    def _apply(self, tx: Transaction, change: Change) -> None:
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

    def _tell_full(self, too_many: int) -> None:
        is_full, was_full = too_many > 0, self._is_full
        self._is_full = is_full
        if is_full and not was_full:
            facts = {"action": "alerts_full", "open": OPEN_MAX, "left": too_many}
            text = "too many alerts, the others are not raised"
            _log.error("%s: %s", text, too_many, extra={"event": text, "facts": facts})


def _params(rule: Rule) -> dict[str, float]:
    return {"window": rule.window_seconds} if rule.kind in WINDOWED else {}


def _open(row: Row) -> _Open:
    id_, rule, cursor, state, seconds = row
    return _Open(id=id_, rule=rule, cursor=cursor, is_firing=state == "firing", seconds=seconds)
