"""Notes about messages that begin: they end with what became of the message, or not at all."""

from __future__ import annotations

import pytest

from onceward.handle import Onceward
from onceward.testing.moving_time import MovingTime
from onceward.workers.begun import Begun


def test_a_note_whose_end_was_undone_can_still_be_struck_out(ow: Onceward) -> None:
    """Otherwise a later worker would take it for a death, and count it against the message."""
    lease = ow.cursors.acquire("c", worker="w")
    assert lease is not None
    begun = Begun(ow, lease)
    begun.begin("1", "handling")
    with pytest.raises(ZeroDivisionError), ow.transaction() as tx:
        begun.end("1", tx)
        raise ZeroDivisionError
    assert ow.retries.attempts.positions("~begun/c") == {"1"}
    begun.end("1")
    assert ow.retries.attempts.positions("~begun/c") == frozenset()


def test_after_three_deaths_at_one_place_each_message_is_noted(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """Not before: a note costs a commit. A checkpoint in between ends the suspicion."""
    seen = []
    for number in range(6):
        lease = ow.cursors.acquire("c", worker=f"w{number}", lease_seconds=60.0)
        assert lease is not None
        begun = Begun(ow, lease)
        seen.append((begun.is_deadly, begun.is_deadly_here))
        if number == 3:
            lease.checkpoint("1")
        ow_time.advance(seconds=61)
    alive, deadly, elsewhere = (False, False), (True, True), (True, False)
    assert seen == [alive, alive, alive, deadly, elsewhere, elsewhere]
