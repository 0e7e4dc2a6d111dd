"""Worker timeline: list workers, their current leases, and their past leases as bars. Read-only."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from typing_extensions import TypedDict

from onceward.client import Onceward
from onceward.console.responses import extended, moment
from onceward.cursors.lease_history import (
    Ending,
    Grant,
    RejectedWrite,
    grant_of,
    rejected_write_of,
)
from onceward.workers.worker_registry import RegisteredWorker, list_workers

#: Maximum numbers of leases, ended grants and rejected writes in one response.
LEASES_MAX: Final = 2_000
GRANTS_MAX: Final = 2_000
REJECTED_WRITES_MAX: Final = 500
#: The format of worker names that `Cursors.worker` makes.
_NAMED: Final = re.compile(r"(?P<host>.+)/(?P<pid>\d{1,10})/[0-9a-f]{4,}(?:/\d+)?")
MarkKind = Literal["steal", "refused", "expiry"]


class TimelineLease(NamedTuple):
    """A held or expired lease: a row of `lease_list`."""

    cursor: str
    epoch: int
    worker: str
    expires_at: str
    expires_in_seconds: float
    is_held: bool
    granted_at: str | None


#: A lease over time; a dictionary, since `from` cannot be the name of a field.
LaneBar = TypedDict(
    "LaneBar",
    {
        "cursor": str,
        "epoch": int,
        "from": str,
        "to": str | None,
        "ending": Ending | None,
        "state": Literal["held", "ended", "stolen", "expired"],
    },
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaneMark:
    """An event on a lane."""

    at: str
    kind: MarkKind
    cursor: str
    epoch: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerLane:
    """The leases of one worker over time, with marked events."""

    worker: str
    bars: list[LaneBar] = field(default_factory=list)
    marks: list[LaneMark] = field(default_factory=list)

    def mark(self, at: str, kind: MarkKind, cursor: str, epoch: int, text: str) -> None:
        """Add an event to the lane."""
        self.marks.append(LaneMark(at=at, kind=kind, cursor=cursor, epoch=epoch, text=text))


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerLease:
    """A lease in the list of a worker's leases."""

    cursor: str
    epoch: int
    expires_in_seconds: float
    #: How long a lease of this consumer lasts; None when unknown.
    lease_seconds: float | None
    is_held: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerItem:
    """A worker with its leases; the fields of its registration are None if it never registered."""

    worker: str
    host: str | None
    pid: int | None
    started_at: str | None = None
    seen_at: str | None = None
    seen_seconds_ago: float | None = None
    is_silent: bool
    stopped_at: str | None = None
    consumers: list[str] = field(default_factory=list)
    version: str | None = None
    leases: list[WorkerLease]


#: The workers of a store, and their lanes.
Workers = TypedDict(
    "Workers",
    {
        "workers": list[WorkerItem],
        "lanes": list[WorkerLane],
        "from": str,
        "to": str,
        #: Whether there are more leases than one answer shows.
        "is_cut": bool,
        "as_of": str,
    },
)


def workers_and_lanes(ow: Onceward, minutes: float) -> Workers:
    """Return the workers with their leases, and their lanes for the last minutes."""
    seconds = 60.0 * minutes
    with ow.store.snapshot():
        read = ow.store.read
        ((since, now),) = read("store_window", seconds=seconds)
        known = list_workers(ow.store)
        leases = [_lease(row) for row in read("lease_list", limit=LEASES_MAX)]
        ended = read("grant_recent", seconds=seconds, limit=GRANTS_MAX)
        refused = read("rejected_write_recent", seconds=seconds, limit=REJECTED_WRITES_MAX)
    grants = [(grant_of(row[:-1]), row[-1]) for row in ended]
    lanes = _lanes(leases, grants, [rejected_write_of(row) for row in refused], since)
    workers = _workers(known, leases, lanes)
    order = [each.worker for each in workers]
    return {
        "workers": workers,
        "lanes": [lanes[worker] for worker in order if worker in lanes],
        "from": since,
        "to": now,
        "is_cut": len(leases) == LEASES_MAX or len(ended) == GRANTS_MAX,
        "as_of": moment(),
    }


# --- lanes ---------------------------------------------------------------------------------------


def _lanes(
    leases: Iterable[TimelineLease],
    grants: Iterable[tuple[Grant, str | None]],
    rejected_writes: Iterable[RejectedWrite],
    since: str,
) -> dict[str, WorkerLane]:
    lanes: dict[str, WorkerLane] = {}

    def lane(worker: str) -> WorkerLane:
        return lanes.setdefault(worker, WorkerLane(worker=worker))

    for lease in leases:
        # Leases that expired earlier are in the table of leases, outside of this time range.
        if lease.is_held or lease.expires_at > since:
            _show_lease(lane(lease.worker), lease, since)
    for grant, next_grant in grants:
        _show_grant(lane(grant.worker), grant, next_grant)
        if next_grant is not None and grant.ended_at is not None:
            text = f"took {grant.cursor} over from {grant.worker}, whose lease had expired"
            lane(next_grant).mark(grant.ended_at, "steal", grant.cursor, grant.epoch + 1, text)
    for rejected in rejected_writes:
        lane(rejected.worker).mark(
            rejected.happened_at, "refused", rejected.cursor, rejected.epoch, _refused(rejected)
        )
    for each in lanes.values():
        each.bars.sort(key=lambda bar: (bar["from"], bar["cursor"], bar["epoch"]))
        each.marks.sort(key=lambda mark: mark.at)
    return lanes


def _show_lease(lane: WorkerLane, lease: TimelineLease, since: str) -> None:
    lane.bars.append(
        {
            "cursor": lease.cursor,
            "epoch": lease.epoch,
            "from": lease.granted_at or since,
            "to": None if lease.is_held else lease.expires_at,
            "ending": None,
            "state": "held" if lease.is_held else "expired",
        }
    )
    if not lease.is_held:
        text = f"the lease of {lease.cursor}, epoch {lease.epoch}, expired; no worker took over"
        lane.mark(lease.expires_at, "expiry", lease.cursor, lease.epoch, text)


def _show_grant(lane: WorkerLane, grant: Grant, next_grant: str | None) -> None:
    is_stolen = grant.ending == "stolen"
    lane.bars.append(
        {
            "cursor": grant.cursor,
            "epoch": grant.epoch,
            "from": grant.granted_at,
            "to": grant.ended_at,
            "ending": grant.ending,
            "state": "stolen" if is_stolen else "ended",
        }
    )
    at = grant.expired_at or grant.ended_at
    if is_stolen and at is not None:
        text = f"the lease of {grant.cursor}, epoch {grant.epoch}, expired; {next_grant} took over"
        lane.mark(at, "expiry", grant.cursor, grant.epoch, text)


def _refused(rejected: RejectedWrite) -> str:
    if rejected.current_owner is not None:
        whose = f"epoch {rejected.current_epoch} of {rejected.current_owner} counts"
    elif rejected.current_epoch is not None:
        whose = f"epoch {rejected.current_epoch} is current, and no worker holds it"
    else:
        whose = "the cursor was removed"
    return (
        f"{rejected.what} of {rejected.cursor} under epoch {rejected.epoch} was rejected: {whose}"
    )


# --- workers -------------------------------------------------------------------------------------


def _workers(
    known: Sequence[RegisteredWorker], leases: Iterable[TimelineLease], lanes: dict[str, WorkerLane]
) -> list[WorkerItem]:
    """Return workers that are registered, or hold or recently held a lease; live ones first."""
    held: dict[str, list[TimelineLease]] = defaultdict(list)
    for lease in leases:
        held[lease.worker].append(lease)
    found = [_registered(each, held.pop(each.worker, [])) for each in known]
    names = {each.worker for each in known}
    others = sorted((held.keys() | lanes.keys()) - names)
    found += [_unregistered(worker, held.get(worker, [])) for worker in others]
    return sorted(found, key=lambda each: (each.stopped_at is not None, each.is_silent))


def _registered(each: RegisteredWorker, leases: Sequence[TimelineLease]) -> WorkerItem:
    lasts = [(_pattern(consumer["name"]), consumer["lease_seconds"]) for consumer in each.consumers]

    def lease_seconds(cursor: str) -> float | None:
        return next((seconds for name, seconds in lasts if name.fullmatch(cursor)), None)

    return extended(
        WorkerItem,
        each,
        is_silent=each.is_silent,
        consumers=[consumer["name"] for consumer in each.consumers],
        leases=[_shown(lease, lease_seconds(lease.cursor)) for lease in leases],
    )


def _unregistered(worker: str, leases: Sequence[TimelineLease]) -> WorkerItem:
    """Return a lease owner that never registered, such as a program that uses `acquire`."""
    named = _NAMED.fullmatch(worker)
    return WorkerItem(
        worker=worker,
        host=named["host"] if named else None,
        pid=int(named["pid"]) if named else None,
        is_silent=bool(leases) and not any(lease.is_held for lease in leases),
        leases=[_shown(lease, None) for lease in leases],
    )


def _shown(lease: TimelineLease, lease_seconds: float | None) -> WorkerLease:
    return WorkerLease(
        cursor=lease.cursor,
        epoch=lease.epoch,
        expires_in_seconds=lease.expires_in_seconds,
        lease_seconds=lease_seconds,
        is_held=lease.is_held,
    )


def _lease(row: Sequence[Any]) -> TimelineLease:
    lease = TimelineLease(*row)
    return lease._replace(is_held=bool(lease.is_held))


def _pattern(consumer: str) -> re.Pattern[str]:
    """Return a pattern for the names of a consumer's cursors, one per partition."""
    fixed = re.split(r"\{\w+\}", consumer, maxsplit=1)
    return re.compile(".*".join(map(re.escape, fixed)), re.DOTALL)
