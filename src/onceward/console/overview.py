"""Overview: what needs somebody, in sentences, and how the house does. Decides nothing else.

Everything it reads is kept by others or found by an index: a house of a million rows opens as fast
as an empty one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final, Literal
from urllib.parse import quote

from onceward.console.house import House
from onceward.console.run_views import RunItem, newest_runs
from onceward.console.tallies import Counts
from onceward.console.vitals import Vital
from onceward.cursors.models import OWN_PREFIX
from onceward.dispatch.models import DUAL
from onceward.stores import Row
from onceward.stores.opening import home
from onceward.workers.alert_models import UNITS
from onceward.workers.alerts import Alerts

#: `person`: nothing goes on before somebody decides. `watch`: worth a look.
Severity = Literal["person", "watch"]
#: Behind for so long, and nobody at it: stuck.
STUCK_SECONDS: Final = 60.0
FREE_BYTES_MIN: Final = 1024**3
ACTIVITY_MAX: Final = 50
#: Of each kind of trouble so many are named; the list behind it has them all.
NAMED_MAX: Final = 5
RUNS_LOOKED_AT: Final = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    """Something that needs somebody: a sentence, where to go, and what to do there."""

    id: str
    severity: Severity
    text: str
    href: str
    action: str


def attention(house: House, counts: Counts, vital: Vital | None) -> list[Attention]:
    """Return what needs somebody, what cannot wait first."""
    stuck = dict(_stuck(house))
    found = [
        *_disk(),
        *_alerts(house, stuck),
        *_waiting(counts),
        *_runs(house),
        *(each.attention for each in stuck.values()),
        *_seen(vital, list(stuck.values())),
    ]
    return sorted(found, key=lambda each: each.severity != "person")


def tiles(history: Sequence[Vital], counts: Counts) -> dict[str, Any]:
    """Return the four numbers of the last hour, and how they came about."""
    now = history[-1] if history else None
    return {
        "max_lag_seconds": now.lag_seconds if now else None,
        "lag_history": [{"at": each.at, "value": each.lag_seconds} for each in history],
        "rate_history": _rates(history),
        "leases": asdict(now) if now else None,
        "outcomes": {"running": counts.running, "ambiguous": counts.ambiguous},
        "dead": counts.dead,
        "parked": counts.parked,
    }


def activity(house: House) -> list[dict[str, Any]]:
    """Return what happened last, the newest first."""
    rows = house.ow().store.read("overview_activity", limit=ACTIVITY_MAX)
    return [_happened(row) for row in rows if not row[2].startswith(OWN_PREFIX)]


# --- what needs somebody -------------------------------------------------------------------------


def _disk() -> Iterator[Attention]:
    place = next(level for level in (home(), *home().parents) if level.is_dir())
    usage = os.statvfs(place)
    free = usage.f_bavail * usage.f_frsize
    if free < FREE_BYTES_MIN:
        yield Attention(
            id="disk",
            severity="person",
            text=f"Only {free / 1024**2:.0f} MiB are free where the store and the journals are.",
            href="/alerts?tab=doctor",
            action="See the doctor",
        )


def _alerts(house: House, stuck: Mapping[str, _Stuck]) -> Iterator[Attention]:
    """Return what fires and is not told anyway: dead letters are counted, stuck cursors named."""
    firing = [
        each
        for each in Alerts(house.ow()).list(limit=100)
        if each.state == "firing"
        and each.kind != "dead"
        and not (each.kind == "lag" and each.cursor in stuck)
    ]
    for alert in firing[:NAMED_MAX]:
        yield Attention(
            id=f"alert:{alert.id}",
            severity="person",
            text=f"{alert.cursor}: {alert.value:g} {UNITS[alert.kind]}, above {alert.threshold:g}.",
            href=_cursor(alert.cursor),
            action="Open the cursor",
        )
    if len(firing) > NAMED_MAX:
        yield Attention(
            id="alerts",
            severity="person",
            text=f"{len(firing) - NAMED_MAX} more alerts fire.",
            href="/alerts",
            action="See all alerts",
        )


def _waiting(counts: Counts) -> Iterator[Attention]:
    """Return what a person must decide about."""
    told = (
        ("dead", counts.dead, "dead letter waits", "dead letters wait", "/dead", "Decide"),
        (
            "ambiguous",
            counts.ambiguous,
            "key is in doubt: begun, then silence. It waits",
            "keys are in doubt: begun, then silence. They wait",
            "/requests?state=ambiguous",
            "Reconcile",
        ),
        (
            "said",
            counts.conversations_dead,
            "conversation was given up and waits",
            "conversations were given up and wait",
            "/dead?tab=conversations",
            "Decide",
        ),
    )
    for name, count, one, many, href, action in told:
        if count:
            text = f"{count:,} {one if count == 1 else many} for a decision."
            yield Attention(id=name, severity="person", text=text, href=href, action=action)


def _runs(house: House) -> Iterator[Attention]:
    for item in newest_runs(house.workspaces, limit=RUNS_LOOKED_AT):
        trouble = _trouble(item)
        if trouble:
            yield Attention(
                id=f"run:{item.summary.run_id}",
                severity="person",
                text=f"{item.summary.run_id} {trouble}",
                href=f"/runs/{item.workspace_id}/{item.summary.run_id}",
                action="Open the run",
            )


def _trouble(item: RunItem) -> str | None:
    if item.summary.status == "failed":
        return f"failed: {item.summary.reason or 'nobody knows why'}."
    if item.summary.status == "running" and not item.is_held:
        return f"was cut off after step {item.summary.steps}; `onceward resume` goes on with it."
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stuck:
    """A cursor with messages that nobody works on."""

    attention: Attention
    is_expired: bool
    is_paused: bool


def _stuck(house: House) -> Iterator[tuple[str, _Stuck]]:
    rows = house.ow().store.read("overview_behind", limit=NAMED_MAX)
    for name, seconds, messages, owner, is_paused in rows:
        if seconds < STUCK_SECONDS:
            continue
        many = "messages wait" if messages is None else f"{messages:,} messages wait"
        why = "it is paused" if is_paused else _nobody(owner)
        attention = Attention(
            id=f"behind:{name}",
            severity="watch" if is_paused else "person",
            text=f"{name}: {many}, the oldest for {_told(seconds)}, and {why}.",
            href=_cursor(name),
            action="Open the cursor",
        )
        is_expired = owner is not None and not is_paused
        yield (
            name,
            _Stuck(attention=attention, is_expired=is_expired, is_paused=bool(is_paused)),
        )


def _nobody(owner: str | None) -> str:
    return f"the lease of {owner} ran out" if owner else "no worker has it"


def _seen(vital: Vital | None, stuck: Sequence[_Stuck]) -> Iterator[Attention]:
    """Return what was counted beyond what is named."""
    if vital is None:
        return
    expired = vital.expired - sum(each.is_expired for each in stuck)
    paused = vital.paused - sum(each.is_paused for each in stuck)
    if expired > 0:
        leases, they = ("lease has", "it") if expired == 1 else ("leases have", "them")
        yield Attention(
            id="expired",
            severity="watch",
            text=f"{expired:,} {leases} run out, and nobody took {they} over.",
            href="/cursors?q=state%3Aexpired",
            action="See which",
        )
    if paused > 0:
        yield Attention(
            id="paused",
            severity="watch",
            text=f"{paused:,} {'cursor is' if paused == 1 else 'cursors are'} paused.",
            href="/cursors?q=state%3Apaused",
            action="See which",
        )


# --- words ---------------------------------------------------------------------------------------

_KINDS: Final[Mapping[str, str]] = {
    "seek": "{who} moved {name}: {what}",
    "undo": "{who} undid the last move of {name}",
    "pause": "{who} paused {name}: {what}",
    "resume": "{who} resumed {name}",
    "steal": "{who} took {name} over, epoch {epoch}: {what}",
    "rollback": "{name} was rolled back: {what}",
    "migration": "the position of {name} was rewritten by {who}",
    "refused": "{what} of {who} was refused on {name}, epoch {epoch} is over",
    "dead": "a message of {name} was given up: {what}",
    "alert": "alert {who} about {name}",
    "action": "{who}: {what} ({name})",
}


def _happened(row: Row) -> dict[str, Any]:
    at, kind, name, who, what, epoch = row
    text = _KINDS[kind].format(name=name, who=who, what=what or "no reason given", epoch=epoch)
    return {"at": at, "kind": kind, "text": text, "href": _place(kind, name, who)}


def _place(kind: str, name: str, who: str) -> str:
    """Return where more of it can be seen."""
    dual, _, group = name.partition("/")
    if kind == "rollback" and dual == DUAL:
        return f"/conversations?group={quote(group, safe='')}"
    places = {"dead": f"/dead/{who}", "alert": "/alerts", "action": "/audit"}
    return places.get(kind) or _cursor(name)


def _cursor(name: str) -> str:
    return f"/cursors/{quote(name, safe='')}"


def _told(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _rates(history: Sequence[Vital]) -> list[dict[str, Any]]:
    """Return the messages processed between each two measures."""
    return [
        {"at": later.at, "value": max(0, later.processed - earlier.processed)}
        for earlier, later in pairwise(history)
    ]
