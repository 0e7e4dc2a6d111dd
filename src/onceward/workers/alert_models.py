"""Alert models: what a rule says, what an alert is, and what is told of it. Knows no store."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Literal

from onceward.stores import Row

#: `lag`: seconds behind. `steals`: take-overs lately. `errors`: failed attempts since the last
#: success. `parked`: messages that wait for a retry, or behind one that does. `dead`: letters that
#: died lately and are still dead.
Kind = Literal["lag", "steals", "errors", "parked", "dead"]
#: `pending`: over the threshold, not yet for long enough.
AlertState = Literal["pending", "firing", "cleared"]
EventKind = Literal["fired", "cleared"]

KINDS: Final[tuple[Kind, ...]] = ("lag", "steals", "errors", "parked", "dead")
#: Kinds that count what happened within a window.
WINDOWED: Final[tuple[Kind, ...]] = ("steals", "dead")
UNITS: Final[dict[Kind, str]] = {
    "lag": "seconds behind",
    "steals": "lease steals",
    "errors": "failures in a row",
    "parked": "messages waiting for a retry",
    "dead": "new dead letters",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """When to raise an alert about a cursor, and when to take it back."""

    #: No two rules have the same; it stays the same when the rule is changed.
    name: str
    kind: Kind
    #: Which cursors, such as `lead_*`.
    cursor: str
    #: It fires above this …
    threshold: float
    #: … when it has been there for so long …
    for_seconds: float
    #: … and is over at or below this.
    clear: float
    #: How far back `steals` and `dead` look.
    window_seconds: float
    #: Where to tell it, besides the log; it may hold a secret.
    webhook: str | None = field(default=None, repr=False)

    def covers(self, cursor: str) -> bool:
        """Say whether this rule is about a cursor."""
        return fnmatchcase(cursor, self.cursor)


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """One time that a cursor was over the threshold of a rule; times are text in UTC."""

    #: The same in every message about it, and in no other's.
    id: str
    rule: str
    kind: Kind
    cursor: str
    state: AlertState
    #: What was measured when it fired, or began.
    value: float
    #: The rule's threshold then.
    threshold: float
    #: When it went over the threshold.
    pending_at: str
    fired_at: str | None
    #: When everybody was told that it fired.
    fired_sent_at: str | None
    cleared_at: str | None
    cleared_sent_at: str | None

    @property
    def unsent(self) -> tuple[EventKind, ...]:
        """Return what is still to be told, in order."""
        fired: tuple[EventKind, ...] = () if self.fired_sent_at or not self.fired_at else ("fired",)
        return fired if self.cleared_sent_at or not self.cleared_at else (*fired, "cleared")

    def text(self, event: EventKind) -> str:
        """Return one line for people."""
        if event == "cleared":
            return f"{self.rule}: {self.cursor} is well again"
        is_over = f"{self.value:g} {UNITS[self.kind]}, more than {self.threshold:g}"
        return f"{self.rule}: {self.cursor} has {is_over}"

    def body(self, event: EventKind) -> dict[str, object]:
        """Return what a webhook is sent."""
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
    """Return what a row of `onceward_alerts` says."""
    names = Alert.__dataclass_fields__
    return Alert(**dict(zip(names, row, strict=True)))


#: What is watched unless the configuration says otherwise.
DEFAULT_RULES: Final = (
    Rule(
        name="cursor behind",
        kind="lag",
        cursor="*",
        threshold=300.0,
        for_seconds=300.0,
        clear=60.0,
        window_seconds=0.0,
    ),
    Rule(
        name="lease stolen repeatedly",
        kind="steals",
        cursor="*",
        threshold=2.0,
        for_seconds=0.0,
        clear=0.0,
        window_seconds=600.0,
    ),
    Rule(
        name="cursor failing",
        kind="errors",
        cursor="*",
        threshold=3.0,
        for_seconds=0.0,
        clear=0.0,
        window_seconds=0.0,
    ),
    Rule(
        name="messages parked",
        kind="parked",
        cursor="*",
        threshold=10.0,
        for_seconds=0.0,
        clear=0.0,
        window_seconds=0.0,
    ),
    Rule(
        name="new dead letters",
        kind="dead",
        cursor="*",
        threshold=0.0,
        for_seconds=0.0,
        clear=0.0,
        window_seconds=3600.0,
    ),
)
