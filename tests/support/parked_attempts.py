"""Attempts: parked messages that are tried, some of which never succeed."""

from onceward.client import Onceward
from onceward.cursors import Lease
from onceward.retries import Failure, FixedDelays, Parked

BROKEN = Failure(type="ValueError", message="broken")
#: Due again at once, once.
SCHEDULE = FixedDelays(seconds=(0.0,))


def attempt(ow: Onceward, lease: Lease, head: Parked, *, broken: int) -> bool:
    """Try the first of a line, which fails if this number divides it; say whether it was done."""
    place = int(head.message.position)
    is_broken = place % broken == 0
    with ow.transaction() as tx:
        if is_broken:
            ow.retries.parked.fail(tx, head, BROKEN, schedule=SCHEDULE)
        else:
            # No "on conflict": a second effect would be an error.
            tx.execute("insert into effects values (?)", [place])
            ow.retries.parked.succeed(tx, head)
        lease.guard(tx)
    return not is_broken
