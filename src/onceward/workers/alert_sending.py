"""Alert sending: tells of alerts, to the log and to webhooks, and remembers who took what.

At least once: what a crash cut off is told again under the same key. A webhook that fails or hangs
holds up no evaluation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from onceward.crash import crash_point
from onceward.handle import Onceward
from onceward.seams import Clock, SystemClock
from onceward.workers.alert_models import Alert, EventKind, Rule, alert_of
from onceward.workers.alerts import Evaluator
from onceward.workers.rounds import rounds
from onceward.workers.webhooks import post

EVALUATE_SECONDS: Final = 10.0
#: A webhook that failed is left alone for so long.
SEND_AGAIN_SECONDS: Final = 30.0
#: What no webhook took for so long is not told any more.
GIVE_UP_SECONDS: Final = 24 * 3600.0
#: Looked at in one round: far more than one webhook that is down can leave, so none is overlooked.
UNSENT_MAX: Final = 10_000
#: Sends one message under a key; raises when it was not taken.
Post = Callable[[str, Mapping[str, object], str], None]
_log: Final = logging.getLogger("onceward.alerts")


class Sender:
    """What is told of the alerts of one store."""

    def __init__(
        self,
        ow: Onceward,
        rules: Sequence[Rule],
        *,
        send: Post = post,
        clock: Clock | None = None,
    ) -> None:
        """Tell by these rules, which know the webhooks."""
        self._ow = ow
        self._rules = {rule.name: rule for rule in rules}
        self._send = send
        self._clock = clock or SystemClock()
        #: What the log has, though a webhook has not taken it.
        self._logged: set[str] = set()
        #: Webhooks that failed, and until when they are left alone.
        self._resting: dict[str, float] = {}

    def deliver(self) -> int:
        """Tell what was not told; return how much is left."""
        left = 0
        for *row, age in self._ow.store.read("alert_unsent", limit=UNSENT_MAX):
            alert = alert_of(tuple(row))
            for event in alert.unsent:
                if not self._tell(alert, event) and age < GIVE_UP_SECONDS:
                    left += 1
                    break  # Its end is not told before its beginning.
                crash_point("alerts.send.after_send")
                self._note_sent(alert, event)
        return left

    def _tell(self, alert: Alert, event: EventKind) -> bool:
        """Write it to the log, once, and to its webhook; say whether that took it."""
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
        if self._resting.get(rule.webhook, now) > now:
            return False
        try:
            self._send(rule.webhook, body, key)
        except Exception as exc:  # noqa: BLE001 - somebody else's server; told, and tried again
            self._resting[rule.webhook] = now + SEND_AGAIN_SECONDS
            facts = {"action": "alert_not_sent", "rule": rule.name, "error": repr(exc)}
            _log.warning("alert not sent: %s", exc, extra=_extra("not sent", facts))
            return False
        return True

    def _note_sent(self, alert: Alert, event: EventKind) -> None:
        self._ow.store.write_apart(lambda tx: tx.query("alert_sent", id=alert.id, event=event))
        self._logged.discard(f"{alert.id}:{event}")


@contextmanager
def alerting(
    ow: Callable[[], Onceward], rules: Sequence[Rule], *, seconds: float = EVALUATE_SECONDS
) -> Iterator[None]:
    """Evaluate rules and tell what they find, in two threads, while the block runs.

    `ow` is called in a thread, again until it succeeds. The lease is given back at the end.
    """
    if not rules:
        yield
        return
    made: list[tuple[Evaluator, Sender]] = []

    def evaluate() -> float:
        if not made:
            store = ow()
            made.append((Evaluator(store, rules), Sender(store, rules)))
        if made[0][0].tick():
            tell_now()
        return seconds

    def tell() -> float:
        if made and made[0][0].is_evaluating:
            made[0][1].deliver()
        return seconds

    def release() -> None:
        for evaluator, _ in made:
            evaluator.release()

    with rounds("alert-sending", tell) as tell_now, rounds("alerts", evaluate, release):
        yield


def _extra(event: str, facts: Mapping[str, object]) -> dict[str, object]:
    return {"event": f"alert {event}", "facts": facts}
