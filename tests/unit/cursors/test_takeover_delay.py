"""When a worker postpones a takeover, and when it does not any more."""

from onceward.cursors.models import CursorState, Epoch
from onceward.cursors.takeover_delay import WAIT_SECONDS_MAX, TakeoverDelay

HEARTBEAT_SECONDS = 20.0


def seen(epoch: int = 1) -> CursorState:
    return CursorState(
        name="c",
        position=None,
        last_processed_at=None,
        lease_owner="w1",
        lease_expires_at=None,
        is_held=False,
        error_count=0,
        is_paused=False,
        metadata="{}",
        epoch=Epoch(epoch),
        steal_count=0,
        processed_count=0,
        version=1,
        created_at="",
        updated_at="",
    )


def test_the_first_takeover_is_postponed_after_a_short_wait() -> None:
    """A process that holds the lock for long may be the holder itself."""
    patience = TakeoverDelay()
    assert patience.wait_seconds_max(seen(), HEARTBEAT_SECONDS) == WAIT_SECONDS_MAX
    assert patience.wait_seconds_max(None, HEARTBEAT_SECONDS) == WAIT_SECONDS_MAX
    assert not patience.is_postponed(seen(), 0.0)


def test_the_second_takeover_comes_one_heartbeat_later_and_may_wait_longer() -> None:
    """Where everybody always waits a little, a dead worker's cursor is still taken."""
    patience = TakeoverDelay()
    patience.postpone(seen(), until=100.0)
    assert patience.is_postponed(seen(), 99.9)
    assert not patience.is_postponed(seen(), 100.0)
    assert patience.wait_seconds_max(seen(), HEARTBEAT_SECONDS) == HEARTBEAT_SECONDS


def test_another_epoch_is_not_postponed() -> None:
    """What is remembered belongs to an epoch; what is taken is forgotten."""
    patience = TakeoverDelay()
    patience.postpone(seen(), until=100.0)
    assert not patience.is_postponed(seen(2), 0.0)
    assert patience.wait_seconds_max(seen(2), HEARTBEAT_SECONDS) == WAIT_SECONDS_MAX
    patience.forget("c")
    assert not patience.is_postponed(seen(), 0.0)
