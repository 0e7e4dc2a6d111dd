"""Overview: list what needs an operator's attention, recent activity and health numbers.

Read-only. All data is aggregated or found by an index, so a store of a million rows loads as fast
as an empty one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal
from urllib.parse import quote

from onceward.console.context import ConsoleContext
from onceward.console.counts import AreaCounts
from onceward.console.health_history import HealthSample
from onceward.console.run_views import RunItem, newest_runs
from onceward.cursors.models import OWN_PREFIX
from onceward.dispatch.models import DUAL
from onceward.stores import Row
from onceward.stores.store_urls import home
from onceward.workers.alert_models import UNITS
from onceward.workers.alerts import Alerts

#: `person`: blocked until an operator decides. `watch`: should be checked.
Severity = Literal["person", "watch"]
#: A cursor without owner that lags for this long is stuck.
STUCK_SECONDS: Final = 60.0
FREE_BYTES_MIN: Final = 1024**3
ACTIVITY_MAX: Final = 50
#: How many items of each kind are named; the linked list has all of them.
NAMED_MAX: Final = 5
RUNS_LOOKED_AT: Final = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionItem:
    """Something that needs attention: a sentence, a link, and the action to take there."""

    id: str
    severity: Severity
    text: str
    href: str
    action: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivityItem:
    """Something that happened lately."""

    at: str
    kind: str
    text: str
    href: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One sample of a health number."""

    at: str
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenOutcomes:
    """Running keys, and ambiguous ones."""

    running: int
    ambiguous: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Tiles:
    """The four health numbers with their samples of the last hour."""

    #: None before the first sample.
    max_lag_seconds: float | None
    lag_history: list[Measured]
    #: Messages processed between two samples.
    rate_history: list[Measured]
    leases: HealthSample | None
    outcomes: OpenOutcomes
    dead: int
    parked: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """Everything that the console's first screen shows."""

    #: The most urgent first.
    attention: list[AttentionItem]
    tiles: Tiles
    #: The newest first.
    activity: list[ActivityItem]
    #: Whether the store holds nothing to show yet.
    is_empty: bool
    as_of: str


def attention(
    context: ConsoleContext, counts: AreaCounts, sample: HealthSample | None
) -> list[AttentionItem]:
    """Return items that need attention, most urgent first."""
    stuck = dict(_stuck(context))
    found = [
        *_disk(),
        *_alerts(context, stuck),
        *_waiting(counts),
        *_runs(context),
        *(each.attention for each in stuck.values()),
        *_cursor_counts(sample, list(stuck.values())),
    ]
    return sorted(found, key=lambda each: each.severity != "person")


def tiles(history: Sequence[HealthSample], counts: AreaCounts) -> Tiles:
    """Return the four health numbers with their samples of the last hour."""
    now = history[-1] if history else None
    return Tiles(
        max_lag_seconds=now.lag_seconds if now else None,
        lag_history=[Measured(at=each.at, value=each.lag_seconds) for each in history],
        rate_history=_rates(history),
        leases=now,
        outcomes=OpenOutcomes(running=counts.running, ambiguous=counts.ambiguous),
        dead=counts.dead,
        parked=counts.parked,
    )


def activity(context: ConsoleContext) -> list[ActivityItem]:
    """Return recent activity, newest first."""
    rows = context.ow().store.read("overview_activity", limit=ACTIVITY_MAX)
    return [_activity_item(row) for row in rows if not row[2].startswith(OWN_PREFIX)]


# --- what needs attention ------------------------------------------------------------------------


def _disk() -> Iterator[AttentionItem]:
    place = next(level for level in (home(), *home().parents) if level.is_dir())
    usage = os.statvfs(place)
    free = usage.f_bavail * usage.f_frsize
    if free < FREE_BYTES_MIN:
        yield AttentionItem(
            id="disk",
            severity="person",
            text=f"Only {free / 1024**2:.0f} MiB are free where the store and the journals are.",
            href="/alerts?tab=doctor",
            action="Open the doctor",
        )


def _alerts(context: ConsoleContext, stuck: Mapping[str, _Stuck]) -> Iterator[AttentionItem]:
    """Return firing alerts that are not already shown as counts or stuck cursors."""
    firing = [
        each
        for each in Alerts(context.ow()).list(limit=100)
        if each.state == "firing"
        and each.kind != "dead"
        and not (each.kind == "lag" and each.cursor in stuck)
    ]
    for alert in firing[:NAMED_MAX]:
        yield AttentionItem(
            id=f"alert:{alert.id}",
            severity="person",
            text=f"{alert.cursor}: {alert.value:g} {UNITS[alert.kind]}, above {alert.threshold:g}.",
            href=_cursor(alert.cursor),
            action="Open the cursor",
        )
    if len(firing) > NAMED_MAX:
        yield AttentionItem(
            id="alerts",
            severity="person",
            text=f"{len(firing) - NAMED_MAX} more alerts fire.",
            href="/alerts",
            action="See all alerts",
        )


def _waiting(counts: AreaCounts) -> Iterator[AttentionItem]:
    """Return counts of what an operator must decide."""
    counted = (
        ("dead", counts.dead, "dead letter waits", "dead letters wait", "/dead", "Decide"),
        (
            "ambiguous",
            counts.ambiguous,
            "key is ambiguous: it started but never reported a result. It waits",
            "keys are ambiguous: they started but never reported a result. They wait",
            "/outcomes?state=ambiguous",
            "Reconcile",
        ),
    )
    for name, count, one, many, href, action in counted:
        if count:
            text = f"{count:,} {one if count == 1 else many} for a decision."
            yield AttentionItem(id=name, severity="person", text=text, href=href, action=action)


def _runs(context: ConsoleContext) -> Iterator[AttentionItem]:
    for item in newest_runs(context.workspaces, limit=RUNS_LOOKED_AT):
        trouble = _trouble(item)
        if trouble:
            yield AttentionItem(
                id=f"run:{item.summary.run_id}",
                severity="person",
                text=f"{item.summary.run_id} {trouble}",
                href=f"/runs/{item.workspace_id}/{item.summary.run_id}",
                action="Open the run",
            )


def _trouble(item: RunItem) -> str | None:
    if item.summary.status == "failed":
        return f"failed: {item.summary.reason or 'no reason is recorded'}."
    if item.summary.status == "running" and not item.is_held:
        return f"was interrupted after step {item.summary.steps}; `onceward resume` continues it."
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stuck:
    """A cursor with waiting messages and no worker."""

    attention: AttentionItem
    is_expired: bool
    is_paused: bool


def _stuck(context: ConsoleContext) -> Iterator[tuple[str, _Stuck]]:
    rows = context.ow().store.read("overview_behind", limit=NAMED_MAX)
    for name, seconds, messages, owner, is_paused in rows:
        if seconds < STUCK_SECONDS:
            continue
        many = "messages wait" if messages is None else f"{messages:,} messages wait"
        why = "it is paused" if is_paused else _ownerless_text(owner)
        attention = AttentionItem(
            id=f"behind:{name}",
            severity="watch" if is_paused else "person",
            text=f"{name}: {many}, the oldest for {_duration_text(seconds)}, and {why}.",
            href=_cursor(name),
            action="Open the cursor",
        )
        is_expired = owner is not None and not is_paused
        yield (
            name,
            _Stuck(attention=attention, is_expired=is_expired, is_paused=bool(is_paused)),
        )


def _ownerless_text(owner: str | None) -> str:
    return f"the lease of {owner} expired" if owner else "no worker has it"


def _cursor_counts(sample: HealthSample | None, stuck: Sequence[_Stuck]) -> Iterator[AttentionItem]:
    """Return counts of expired and paused cursors beyond those already named."""
    if sample is None:
        return
    expired = sample.expired - sum(each.is_expired for each in stuck)
    paused = sample.paused - sum(each.is_paused for each in stuck)
    if expired > 0:
        leases, they = ("lease has", "it") if expired == 1 else ("leases have", "them")
        yield AttentionItem(
            id="expired",
            severity="watch",
            text=f"{expired:,} {leases} expired, and no worker took {they} over.",
            href="/cursors?q=state%3Aexpired",
            action="See which",
        )
    if paused > 0:
        yield AttentionItem(
            id="paused",
            severity="watch",
            text=f"{paused:,} {'cursor is' if paused == 1 else 'cursors are'} paused.",
            href="/cursors?q=state%3Apaused",
            action="See which",
        )


# --- texts ---------------------------------------------------------------------------------------

_KINDS: Final[Mapping[str, str]] = {
    "seek": "{who} moved {name}: {what}",
    "undo": "{who} undid the last move of {name}",
    "pause": "{who} paused {name}: {what}",
    "resume": "{who} resumed {name}",
    "steal": "{who} took over {name}, epoch {epoch}: {what}",
    "rollback": "{name} was rolled back: {what}",
    "migration": "the position of {name} was rewritten by {who}",
    "refused": "{what} of {who} on {name} was rejected: epoch {epoch} is stale",
    "dead": "a message of {name} became a dead letter: {what}",
    "alert": "alert {who} about {name}",
    "action": "{who}: {what} ({name})",
}


def _activity_item(row: Row) -> ActivityItem:
    at, kind, name, who, what, epoch = row
    text = _KINDS[kind].format(name=name, who=who, what=what or "no reason given", epoch=epoch)
    return ActivityItem(at=at, kind=kind, text=text, href=_place(kind, name, who))


def _place(kind: str, name: str, who: str) -> str:
    """Return the link to the details."""
    dual, _, group = name.partition("/")
    if kind == "rollback" and dual == DUAL:
        return f"/conversations?group={quote(group, safe='')}"
    places = {"dead": f"/dead/{who}", "alert": "/alerts", "action": "/audit"}
    return places.get(kind) or _cursor(name)


def _cursor(name: str) -> str:
    return f"/cursors/{quote(name, safe='')}"


def _duration_text(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _rates(history: Sequence[HealthSample]) -> list[Measured]:
    """Return the messages processed between consecutive samples."""
    return [
        Measured(at=later.at, value=max(0, later.processed - earlier.processed))
        for earlier, later in pairwise(history)
    ]
