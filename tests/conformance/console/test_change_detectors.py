"""Change detectors: whatever changes in the store is seen by the look at its area."""

from collections.abc import Callable

import pytest

from onceward.client import Onceward
from onceward.console.change_detectors import detectors_of
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import Group, NewMessage
from onceward.memory.graph import Graph
from onceward.memory.models import NewEntity, WriteBatch
from onceward.retries.models import Failure, RetryMessage
from onceward.testing.moving_time import MovingTime
from tests.support.console_over_store import context_of


def seen(ow: Onceward) -> dict[str, object]:
    context = context_of(ow)
    return {area: look() for area, look in detectors_of(context).items()}


def changed(ow: Onceward, act: Callable[[], object]) -> set[str]:
    """Return the areas in which an act is seen."""
    before = seen(ow)
    act()
    after = seen(ow)
    assert seen(ow) == after, "a look that changes by itself would never be quiet"
    return {area for area, found in after.items() if found != before[area]}


def kill(ow: Onceward) -> None:
    with ow.transaction() as tx:
        message = RetryMessage(cursor="c", position="1", raw=b"{}")
        ow.dead.add(tx, message, Failure(type="E", message=""))


def test_what_happens_to_a_cursor_is_seen(ow: Onceward) -> None:
    """A grant, a checkpoint, a pause and a move are each seen."""
    assert {"cursors", "workers"} <= changed(ow, lambda: ow.cursors.acquire("c", "w"))
    lease = ow.cursors.acquire("c", "w")
    assert lease is not None
    assert "cursors" in changed(ow, lambda: lease.checkpoint("1"))
    assert "cursors" in changed(ow, lambda: ow.cursors.pause("c", "r", "ann"))
    assert "cursors" in changed(ow, lambda: ow.cursors.seek("c", "0", reason="r", actor="ann"))


def test_a_lease_that_runs_out_is_seen(ow: Onceward, ow_time: MovingTime) -> None:
    """The passage of time changes the state without a write."""
    ow.cursors.acquire("c", "w", 60)
    assert {"cursors", "workers"} <= changed(ow, lambda: ow_time.advance(seconds=61))


def test_work_that_falls_silent_is_seen(ow: Onceward, ow_time: MovingTime) -> None:
    """An ambiguous key needs an operator, so the pages are notified."""
    assert "outcomes" in changed(
        ow, lambda: ow.outcomes.claim("s", "k", fingerprint="f", owner="o")
    )
    assert "outcomes" in changed(ow, lambda: ow_time.advance(seconds=61))


def test_outcomes_and_letters_are_seen(ow: Onceward) -> None:
    """Work that is done, a message that dies, and one that is put back."""

    @ow.once(key="k")
    def work() -> int:
        return 1

    assert "outcomes" in changed(ow, work)
    ow.cursors.acquire("c", "w")
    assert "dead" in changed(ow, lambda: kill(ow))
    assert "dead" in changed(ow, lambda: ow.dead.redrive(1, actor="ann"))


def test_the_memory_and_conversations_are_seen(ow: Onceward) -> None:
    """What agents learn and what people say."""
    batch = WriteBatch(entities=(NewEntity(name="n", entity_type="t"),))
    assert changed(ow, lambda: Graph(ow.store).write(batch)) == {"memory"}
    assert "dispatch" in changed(
        ow, lambda: Groups(ow.store).add(Group(name="g", channel="chat", command=("x",)))
    )
    said = NewMessage(group="g", id="1", sender="ann", text="hello")
    assert "dispatch" in changed(ow, lambda: Inbox(ow.store).receive(said))


@pytest.mark.parametrize("times", [1, 3])
def test_nothing_is_seen_where_nothing_happens(ow: Onceward, times: int) -> None:
    """A store without changes sends no events to its pages."""
    ow.cursors.acquire("c", "w")
    assert changed(ow, lambda: [seen(ow) for _ in range(times)]) == set()
