"""Alert models: rules, alerts, and the text and body that are delivered. Knows no store."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Literal

from onceward.stores import Row

#: `lag`: seconds behind. `steals`: recent lease takeovers. `errors`: failed attempts since the last
#: success. `parked`: messages that wait for a retry, or are blocked by one with the same key.
#: `dead`: recent dead letters that are not settled.
Kind = Literal["lag", "steals", "errors", "parked", "dead"]
#: `pending`: above the threshold, but for less than `for_seconds`.
AlertState = Literal["pending", "firing", "cleared"]
EventKind = Literal["fired", "cleared"]

KINDS: Final[tuple[Kind, ...]] = ("lag", "steals", "errors", "parked", "dead")
#: Kinds that count events within a window.
WINDOWED: Final[tuple[Kind, ...]] = ("steals", "dead")
UNITS: Final[dict[Kind, str]] = {
    "lag": "seconds behind",
    "steals": "lease takeovers",
    "errors": "failures in a row",
    "parked": "messages waiting for a retry",
    "dead": "new dead letters",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class AlertRule:
    """When to raise an alert about a cursor, and when to clear it."""

    #: Unique; identifies the rule across changes of its values.
    name: str
    kind: Kind
    #: Pattern of cursor names, such as `lead_*`.
    cursor: str
    #: The alert fires when the value exceeds this …
    threshold: float
    #: … for this long …
    for_seconds: float
    #: … and is cleared at or below this.
    clear: float
    #: The window of `steals` and `dead`.
    window_seconds: float
    #: Where to post alerts, besides the log; may hold a secret.
    webhook: str | None = field(default=None, repr=False)

    def covers(self, cursor: str) -> bool:
        """Return whether this rule applies to a cursor."""
        return fnmatchcase(cursor, self.cursor)


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """One episode in which a cursor exceeded a rule's threshold; times are text in UTC."""

    #: Unique; the same in every message about this alert.
    id: str
    rule: str
    kind: Kind
    cursor: str
    state: AlertState
    #: The value when it fired, or began.
    value: float
    #: The rule's threshold at that time.
    threshold: float
    #: When it exceeded the threshold.
    pending_at: str
    fired_at: str | None
    #: When its firing was delivered.
    fired_sent_at: str | None
    cleared_at: str | None
    cleared_sent_at: str | None

    @property
    def unsent(self) -> tuple[EventKind, ...]:
        """Return the events still to be delivered, in order."""
        fired: tuple[EventKind, ...] = () if self.fired_sent_at or not self.fired_at else ("fired",)
        return fired if self.cleared_sent_at or not self.cleared_at else (*fired, "cleared")

    def text(self, event: EventKind) -> str:
        """Return one line for people."""
        if event == "cleared":
            return f"{self.rule}: {self.cursor} has recovered"
        is_over = f"{self.value:g} {UNITS[self.kind]}, more than {self.threshold:g}"
        return f"{self.rule}: {self.cursor} has {is_over}"

    def body(self, event: EventKind) -> dict[str, object]:
        """Return the JSON body for a webhook."""
        return {
            "id": f"{self.id}:{event}",
            "alert": self.id,
            "event": event,
            "rule": self.rule,
            "kind": self.kind,
            "cursor": self.cursor,
            "value": self.value,
            "threshold": self.threshold,
            "pendingAt": self.pending_at,
            "firedAt": self.fired_at,
            "clearedAt": self.cleared_at if event == "cleared" else None,
            "text": self.text(event),
        }


def alert_of(row: Row) -> Alert:
    """Return the alert of a row of `onceward_alerts`."""
    names = Alert.__dataclass_fields__
    return Alert(**dict(zip(names, row, strict=True)))


#: The rules that apply unless the configuration disables them.
DEFAULT_RULES: Final = (
    AlertRule(
        name="cursor behind",
        kind="lag",
        cursor="*",
        threshold=300.0,
        for_seconds=300.0,
        clear=60.0,
        window_seconds=0.0,
    ),
    AlertRule(
        name="repeated lease takeovers",
        kind="steals",
        cursor="*",
        threshold=2.0,
        for_seconds=0.0,
        clear=0.0,
        window_seconds=600.0,
    ),
    AlertRule(
        name="cursor failing",
        kind="errors",
        cursor="*",
        threshold=3.0,
        for_seconds=0.0,
        clear=0.0,
        window_seconds=0.0,
    ),
    AlertRule(
        name="messages parked",
        kind="parked",
        cursor="*",
        threshold=10.0,
        for_seconds=0.0,
        clear=0.0,
        window_seconds=0.0,
    ),
    AlertRule(
        name="new dead letters",
        kind="dead",
        cursor="*",
        threshold=0.0,
        for_seconds=0.0,
        clear=0.0,
        window_seconds=3600.0,
    ),
)
