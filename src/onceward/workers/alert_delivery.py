"""Alert delivery: send alerts to the log and to webhooks, and record what was delivered.

Delivery is at-least-once: after a crash an alert is sent again under the same idempotency key. A
webhook that fails or hangs does not delay the evaluation of rules.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from onceward.client import Onceward
from onceward.system import Clock, SystemClock
from onceward.system.crash_points import crash_point
from onceward.workers.alert_models import Alert, AlertRule, EventKind, alert_of
from onceward.workers.alerts import AlertEvaluator
from onceward.workers.periodic import repeating
from onceward.workers.webhooks import post

EVALUATE_SECONDS: Final = 10.0
#: Backoff after a failed webhook.
RESEND_SECONDS: Final = 30.0
#: An alert that could not be delivered for this long is dropped.
GIVE_UP_SECONDS: Final = 24 * 3600.0
#: Alerts read per run: far more than one failing webhook can leave, so none is overlooked.
UNSENT_MAX: Final = 10_000
#: Posts a body under an idempotency key; raises unless it was accepted.
Post = Callable[[str, Mapping[str, object], str], None]
_log: Final = logging.getLogger("onceward.alerts")


class AlertSender:
    """Delivers the alerts of one store."""

    def __init__(
        self,
        ow: Onceward,
        rules: Sequence[AlertRule],
        *,
        send: Post = post,
        clock: Clock | None = None,
    ) -> None:
        """Deliver to the webhooks of these rules."""
        self._ow = ow
        self._rules = {rule.name: rule for rule in rules}
        self._send = send
        self._clock = clock or SystemClock()
        #: Events that are logged but not yet accepted by their webhook.
        self._logged: set[str] = set()
        #: Failed webhooks, and when each is tried again.
        self._backoff_until: dict[str, float] = {}

    def deliver(self) -> int:
        """Deliver undelivered events; return how many alerts still have some."""
        left = 0
        for *row, age in self._ow.store.read("alert_unsent", limit=UNSENT_MAX):
            alert = alert_of(tuple(row))
            for event in alert.unsent:
                if not self._send_event(alert, event) and age < GIVE_UP_SECONDS:
                    left += 1
                    break  # "cleared" must not arrive before "fired".
                crash_point("alerts.send.after_send")
                self._record_sent(alert, event)
        return left

    def _send_event(self, alert: Alert, event: EventKind) -> bool:
        """Log an event once and post it to its webhook; return whether that accepted it."""
        body = alert.body(event)
        key = str(body["id"])
        if key not in self._logged:
            self._logged.add(key)
            level = logging.ERROR if event == "fired" else logging.INFO
            facts = {**body, "action": f"alert_{event}"}
            _log.log(level, "alert %s: %s", event, alert.text(event), extra=_extra(event, facts))
        rule = self._rules.get(alert.rule)
        if rule is None or rule.webhook is None:
            return True
        now = self._clock.monotonic()
        if self._backoff_until.get(rule.webhook, now) > now:
            return False
        try:
            self._send(rule.webhook, body, key)
        except Exception as exc:  # noqa: BLE001 - an external server; logged and retried
            self._backoff_until[rule.webhook] = now + RESEND_SECONDS
            facts = {"action": "alert_delivery_failed", "rule": rule.name, "error": repr(exc)}
            _log.warning("alert delivery failed: %s", exc, extra=_extra("delivery failed", facts))
            return False
        return True

    def _record_sent(self, alert: Alert, event: EventKind) -> None:
        self._ow.store.run_in_own_transaction(
            lambda tx: tx.query("alert_sent", id=alert.id, event=event)
        )
        self._logged.discard(f"{alert.id}:{event}")


@contextmanager
def alerting(
    ow: Callable[[], Onceward], rules: Sequence[AlertRule], *, seconds: float = EVALUATE_SECONDS
) -> Iterator[None]:
    """Evaluate rules and deliver alerts, in two threads, while the block runs.

    `ow` is called in a thread, repeatedly until it succeeds. The lease is released at the end.
    """
    if not rules:
        yield
        return
    made: list[tuple[AlertEvaluator, AlertSender]] = []

    def evaluate() -> float:
        if not made:
            store = ow()
            made.append((AlertEvaluator(store, rules), AlertSender(store, rules)))
        if made[0][0].evaluate():
            deliver_now()
        return seconds

    def deliver() -> float:
        if made and made[0][0].is_evaluating:
            made[0][1].deliver()
        return seconds

    def release() -> None:
        for evaluator, _ in made:
            evaluator.release()

    with (
        repeating("alert-delivery", deliver) as deliver_now,
        repeating("alerts", evaluate, release),
    ):
        yield


def _extra(event: str, facts: Mapping[str, object]) -> dict[str, object]:
    return {"event": f"alert {event}", "facts": facts}
