"""Workers over HTTP, on both engines: who is there, who holds what, and who held it before."""

from __future__ import annotations

from typing import Any

import pytest

from onceward.client import Onceward
from onceward.console.workers_http import workers_router
from onceward.errors import LeaseLost
from onceward.testing.moving_time import MovingTime
from onceward.workers import App
from onceward.workers.worker_registry import SILENT_SECONDS, WorkerRegistration
from tests.conformance.console.test_registry import consumers
from tests.conformance.test_cursors import acquire, stolen
from tests.support.console_over_store import context_of
from tests.support.console_requests import Asking, error_of
from tests.support.list_source import ListPartitions


@pytest.fixture
def asking(ow: Onceward) -> Asking:
    context = context_of(ow)
    return Asking(workers_router(context))


def asked(asking: Asking, **query: Any) -> Any:
    return asking.body("/api/console/workers", **query)


def lane(found: Any, worker: str) -> Any:
    (lane,) = [each for each in found["lanes"] if each["worker"] == worker]
    return lane


def bars(found: Any, worker: str) -> list[tuple[int, str, str | None]]:
    return [(bar["epoch"], bar["state"], bar["ending"]) for bar in lane(found, worker)["bars"]]


def marks(found: Any, worker: str) -> list[tuple[str, int]]:
    return [(mark["kind"], mark["epoch"]) for mark in lane(found, worker)["marks"]]


def test_a_new_store_has_no_workers(asking: Asking) -> None:
    """A new store has no workers, no lanes, and a window of ten minutes."""
    found = asked(asking)
    assert (found["workers"], found["lanes"], found["is_cut"]) == ([], [], False)
    assert found["from"] < found["to"]


def test_a_worker_is_shown_with_its_leases(ow: Onceward, asking: Asking) -> None:
    """What it is, when it was seen, what it holds and for how long that lasts."""
    WorkerRegistration(ow, "w1", consumers()).send_heartbeat()
    assert ow.cursors.acquire("c0", "w1", 30) is not None
    (found,) = asked(asking)["workers"]
    assert (found["worker"], found["consumers"], found["is_silent"]) == ("w1", ["c0"], False)
    assert found["seen_seconds_ago"] == pytest.approx(0, abs=3)
    (lease,) = found["leases"]
    assert lease["expires_in_seconds"] == pytest.approx(30, abs=3)
    assert (lease["cursor"], lease["epoch"], lease["is_held"]) == ("c0", 1, True)
    assert lease["lease_seconds"] == 30


def test_a_lease_of_a_partition_is_known_by_its_consumer(ow: Onceward, asking: Asking) -> None:
    """Each partition has a cursor of its own, named after its consumer."""
    app = App(ow)
    app.consumer("feed_{id}_v1", source=ListPartitions(), lease_seconds=45)(lambda _: None)
    WorkerRegistration(ow, "w1", app.consumers).send_heartbeat()
    for name in ("feed_a.b_v1", "feed_v1"):
        assert ow.cursors.acquire(name, "w1", 45) is not None
    (found,) = asked(asking)["workers"]
    lasts = {lease["cursor"]: lease["lease_seconds"] for lease in found["leases"]}
    assert lasts == {"feed_a.b_v1": 45, "feed_v1": None}


def test_a_worker_that_died_turns_silent_and_its_lease_expires(
    ow: Onceward, asking: Asking, ow_time: MovingTime
) -> None:
    """Its lane ends where the lease expired, with a mark, until another worker takes over."""
    WorkerRegistration(ow, "w1", consumers()).send_heartbeat()
    acquire(ow, "w1")
    found = asked(asking)
    assert bars(found, "w1") == [(1, "held", None)]
    assert lane(found, "w1")["bars"][0]["to"] is None
    ow_time.advance(seconds=max(61, SILENT_SECONDS + 1))
    found = asked(asking)
    (worker,) = found["workers"]
    assert worker["is_silent"]
    assert not worker["leases"][0]["is_held"]
    assert worker["leases"][0]["expires_in_seconds"] < 0
    assert bars(found, "w1") == [(1, "expired", None)]
    assert marks(found, "w1") == [("expiry", 1)]
    assert lane(found, "w1")["bars"][0]["to"] < found["to"]


def test_a_take_over_is_seen_in_both_lanes(
    ow: Onceward, asking: Asking, ow_time: MovingTime
) -> None:
    """The lease expired in one, was taken over in the other, and the stale write was rejected."""
    late, _ = stolen(ow, ow_time)
    with pytest.raises(LeaseLost):
        late.checkpoint("1")
    ow.cursors.fence_log.flush(10.0)
    found = asked(asking)
    assert bars(found, "w1") == [(1, "stolen", "stolen")]
    assert marks(found, "w1") == [("expiry", 1), ("refused", 1)]
    assert bars(found, "w2") == [(2, "held", None)]
    assert marks(found, "w2") == [("steal", 2)]
    texts = [mark["text"] for mark in lane(found, "w1")["marks"]]
    assert texts == [
        "the lease of c, epoch 1, expired; w2 took over",
        "checkpoint of c under epoch 1 was rejected: epoch 2 of w2 counts",
    ]
    assert lane(found, "w2")["marks"][0]["text"] == ("took c over from w1, whose lease had expired")


def test_leases_that_ended_well_are_bars_without_marks(ow: Onceward, asking: Asking) -> None:
    """Given back, moved by hand, granted again: each has ended, and nothing went wrong."""
    acquire(ow, "w1").release()
    acquire(ow, "w1")
    ow.cursors.seek("c", "5", "r", "me")
    found = asked(asking)
    assert bars(found, "w1") == [(1, "ended", "released"), (2, "ended", "moved")]
    assert marks(found, "w1") == []


def test_lanes_go_back_as_far_as_asked(ow: Onceward, asking: Asking, ow_time: MovingTime) -> None:
    """What ended before that is not shown; what still lasts is, however long."""
    held = ow.cursors.acquire("held", "w1", 7 * 24 * 3600)
    assert held is not None
    acquire(ow, "w2").release()
    ow_time.advance(seconds=20 * 60)
    found = asked(asking)
    assert [each["worker"] for each in found["lanes"]] == ["w1"]
    assert lane(found, "w1")["bars"][0]["from"] < found["from"]
    found = asked(asking, minutes=30)
    assert {each["worker"] for each in found["lanes"]} == {"w1", "w2"}


def test_who_never_registered_is_listed_by_their_leases(
    ow: Onceward, asking: Asking, ow_time: MovingTime
) -> None:
    """A program with leases of its own; where its name says so, host and process are known."""
    ours = ow.cursors.worker
    assert ow.cursors.acquire("a") is not None
    assert ow.cursors.acquire("b", "my own name") is not None
    found = {each["worker"]: each for each in asked(asking)["workers"]}
    assert set(found) == {ours, "my own name"}
    host, pid, _ = ours.rsplit("/", 2)
    assert (found[ours]["host"], found[ours]["pid"]) == (host, int(pid))
    assert (found["my own name"]["host"], found["my own name"]["pid"]) == (None, None)
    assert not any(each["is_silent"] or each["seen_at"] for each in found.values())
    ow_time.advance(seconds=61)
    assert all(each["is_silent"] for each in asked(asking)["workers"])


def test_running_workers_come_first_and_ended_ones_last(
    ow: Onceward, asking: Asking, ow_time: MovingTime
) -> None:
    """A worker that ended cleanly needs no attention; a silent one is shown as a third state."""
    ended, silent, living = (
        WorkerRegistration(ow, name, ()) for name in ("ended", "silent", "living")
    )
    ended.send_heartbeat()
    ended.stop()
    silent.send_heartbeat()
    ow_time.advance(seconds=SILENT_SECONDS + 1)
    living.send_heartbeat()
    found = asked(asking)["workers"]
    assert [(each["worker"], each["is_silent"]) for each in found] == [
        ("living", False),
        ("silent", True),
        ("ended", False),
    ]
    assert found[-1]["stopped_at"] is not None


def test_internal_locks_are_not_shown_as_lanes(ow: Onceward, asking: Asking) -> None:
    """Names that begin with ~ are not shown."""
    assert ow.cursors.acquire("~lock", "w1") is not None
    found = asked(asking)
    assert (found["workers"], found["lanes"]) == ([], [])


def test_a_time_that_makes_no_sense_is_refused(asking: Asking) -> None:
    """Lanes go back a day at the most."""
    for minutes in (0, -1, "nan", "inf", 1e9, "soon"):
        response = asking.get("/api/console/workers", minutes=minutes)
        assert error_of(response) == (400, "INVALID_ARGUMENT", "minutes")
