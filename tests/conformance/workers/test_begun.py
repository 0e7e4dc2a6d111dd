"""Notes about messages that begin: they end with what became of the message, or not at all."""

from __future__ import annotations

import pytest

from onceward.handle import Onceward
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
