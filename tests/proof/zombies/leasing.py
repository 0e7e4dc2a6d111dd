"""Leasing: a worker that freezes with a lease in hand, and the heir who goes on without it.

Both count: every number is one effect, written with its checkpoint in one transaction. The zombie
is woken when the heir is two numbers further, must be refused, and then begins again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.cursors import Lease
from onceward.errors import LeaseLost, OncewardError
from onceward.stores import Transaction
from tests.proof.zombies.cells import ENGINES, LEASE_SECONDS, Cell, Place, Seen
from tests.proof.zombies.frozen import Child, Talk
from tests.proof.zombies.wait_until import WAIT_SECONDS_MAX

NUMBERS = 6
HEIRS_SHARE = 2
#: How long nothing must happen where nothing can.
SILENCE_SECONDS = 0.2
TABLE = "create table if not exists counted (cell text, n bigint, worker text, epoch bigint)"
Step = Callable[[Onceward, Lease, Talk], None]


def write(tx: Transaction, lease: Lease) -> str:
    """Write the next number, and return the position after it."""
    number = int(lease.position or 0) + 1
    row = [lease.name, number, lease.worker, lease.epoch]
    tx.execute("insert into counted values (?, ?, ?, ?)", row)
    return str(number)


def plain(ow: Onceward, lease: Lease, _: Talk) -> None:
    """Count one number."""
    with ow.transaction() as tx:
        lease.checkpoint(write(tx, lease), tx=tx)


def guarded(ow: Onceward, lease: Lease, _: Talk) -> None:
    """Count one number, sure from the beginning that the lease is ours."""
    with ow.transaction() as tx:
        lease.guard(tx)
        lease.checkpoint(write(tx, lease), tx=tx)


def released(ow: Onceward, lease: Lease, talk: Talk) -> None:
    """Count one number, and give the lease back."""
    plain(ow, lease, talk)
    talk.tell("acked", n=int(lease.position or 0))
    lease.release()
    lease.lost.set()


def renewed(ow: Onceward, lease: Lease, talk: Talk) -> None:
    """Count one number under a lease that was just renewed."""
    lease.renew()
    plain(ow, lease, talk)


def beating(ow: Onceward, lease: Lease, talk: Talk) -> None:
    """Count one number after long work, under a heartbeat in which the process freezes."""
    if (lease.position, lease.epoch) != (None, 1):
        plain(ow, lease, talk)
        return
    with lease.hold(LEASE_SECONDS / 8):
        talk.wait()
        plain(ow, lease, talk)


def outside(ow: Onceward, lease: Lease, talk: Talk) -> None:
    """Freeze between two transactions."""
    if (lease.position, lease.epoch) == ("2", 1):
        talk.freeze()
    plain(ow, lease, talk)


def unwritten(ow: Onceward, lease: Lease, talk: Talk) -> None:
    """Freeze inside a transaction that has only read, with the lease guarded."""
    with ow.transaction() as tx:
        lease.guard(tx)
        tx.execute("select count(*) from counted")
        if (lease.position, lease.epoch) == ("2", 1):
            talk.freeze()
        lease.checkpoint(write(tx, lease), tx=tx)


def written(ow: Onceward, lease: Lease, talk: Talk) -> None:
    """Freeze inside a transaction that has written, and has not checked its lease."""
    with ow.transaction() as tx:
        position = write(tx, lease)
        if (lease.position, lease.epoch) == ("2", 1):
            talk.freeze()
        lease.checkpoint(position, tx=tx)


def taken(ow: Onceward, name: str, worker: str) -> Lease:
    """Ask for the cursor until it is given."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while (lease := ow.cursors.acquire(name, worker, LEASE_SECONDS)) is None:
        assert time.monotonic() < deadline, "the lease is held for ever"
        time.sleep(0.01)
    return lease


def count(url: str, name: str, step: Step, talk: Talk) -> None:
    """Be the worker that freezes: count to the end, and begin again whenever it is refused."""
    with open_handle(url) as ow:
        lease = taken(ow, name, "zombie")
        while int(lease.position or 0) < NUMBERS:
            try:
                step(ow, lease, talk)
                if not lease.is_released:
                    talk.tell("acked", n=int(lease.position or 0))
            except OncewardError as exc:
                talk.tell("refused", error=type(exc).__name__)
                check_lost(lease, talk)
                lease.lost.set()
            if lease.lost.is_set():
                lease = taken(ow, name, "zombie")


def check_lost(lease: Lease, talk: Talk) -> None:
    """Ask the store itself whether the lease is lost, which it must be."""
    try:
        lease.renew()
    except LeaseLost:
        talk.tell("lost")
    else:
        message = "a lease that was taken over was renewed"
        raise AssertionError(message)


def inherit(url: str, name: str, talk: Talk, *, last: int = NUMBERS) -> None:
    """Be the heir: take over, go on for a while, and give the rest back."""
    with open_handle(url) as ow:
        talk.tell("asking")
        lease = taken(ow, name, "heir")
        try:
            with lease.hold():
                for number in range(HEIRS_SHARE):
                    if int(lease.position or 0) == last:
                        break
                    plain(ow, lease, talk)
                    if not number:
                        talk.tell("taken over", epoch=lease.epoch)
                talk.tell("advanced", n=int(lease.position or 0))
                talk.wait()
            lease.release()
        except LeaseLost as lost:
            # On a machine so busy that no heartbeat ran in time, the zombie may take over in turn.
            if lost.current_epoch == lease.epoch:
                raise


def freeze(place: Place, *, name: str, step: Step, spec: str | None, blocks: str = "") -> Seen:
    """Run one cell; `blocks` names the engine on which no worker can take over."""
    with open_handle(place.url) as ow, ow.transaction() as tx:
        tx.execute(TABLE)
    zombie = Child(partial(count, place.url, name, step), spec)
    zombie.until_frozen()
    frozen_at = time.monotonic()
    heir = Child(partial(inherit, place.url, name))
    heir.hear("asking")
    seen = Seen()
    if place.engine == blocks:
        expires_without_takeover(place, name, heir)
        seen.reached.append("held the only write lock, and no worker took over")
        zombie.wake()
        zombie.go()
        # The heir may come in between two transactions: it must not hold what the zombie waits for.
        heir.go()
        reports = zombie.heard()
    else:
        seen.takeover_seconds = heir.hear("taken over")["at"] - frozen_at
        seen.reached.append("taken over while frozen")
        reports = [heir.hear("advanced")]
        zombie.wake()
        zombie.go()
        reports += until_refused(zombie)
        heir.go()
        reports += zombie.heard()
        seen.reached.append("refused after waking")
    reports += heir.heard()
    seen.refused = [each["error"] for each in reports if each["what"] == "refused"]
    judge(
        place, name, seen, {each["n"] for each in reports if each["what"] in ("acked", "advanced")}
    )
    return seen


def until_refused(zombie: Child) -> list[dict[str, Any]]:
    """Return what a woken process tells up to where it knows that its lease is lost."""
    reports = [zombie.next()]
    while reports[-1]["what"] != "lost":
        reports.append(zombie.next())
    return reports


def expires_without_takeover(place: Place, name: str, heir: Child) -> None:
    """Make sure that the lease expires, that all may read so, and that no worker takes it."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    with open_handle(place.url) as ow:
        while ow.cursors.show(name).is_held:
            assert time.monotonic() < deadline, "the lease never expired"
            time.sleep(0.01)
    assert heir.is_silent(SILENCE_SECONDS), "another worker wrote beside a frozen writer"


def judge(place: Place, name: str, seen: Seen, acked: set[int]) -> None:
    """Count what is there, and make sure that it is what a single worker would have left."""
    with open_handle(place.url) as ow:
        with ow.transaction() as tx:
            order = "select n, worker, epoch from counted where cell = ? order by n, epoch"
            rows = tx.execute(order, [name])
        state = ow.cursors.show(name)
    numbers = [row[0] for row in rows]
    epochs = [row[2] for row in rows]
    seen.work = len(set(numbers))
    seen.lost = len(acked - set(numbers)) + NUMBERS - len(set(numbers))
    seen.doubled = len(numbers) - len(set(numbers))
    assert numbers == list(range(1, NUMBERS + 1)), rows
    assert epochs == sorted(epochs), f"an epoch fell: {rows}"
    assert acked <= set(numbers), (acked, rows)
    assert (state.position, state.processed_count) == (str(NUMBERS), NUMBERS), state
    if seen.takeover_seconds is not None:
        assert {row[1] for row in rows} == {"zombie", "heir"}, rows
        assert state.steal_count > 0, state
        typed = {"LeaseLost", "OutcomeUnknown", "StoreUnavailable"}
        assert set(seen.refused) <= typed, seen
        assert seen.refused, seen


def cell(  # noqa: PLR0913 - all by name
    name: str,
    point: str,
    step: Step = plain,
    *,
    nth: int = 3,
    blocks: str = "",
    is_line: bool = False,
    is_quick: bool = False,
    engines: tuple[str, ...] = ENGINES,
) -> Cell:
    """Return a cell; a line of the work itself is no crash point."""
    spec = None if is_line else f"{point}:{nth}:stop"
    return Cell(
        name=name,
        point=point,
        nth=nth,
        run=partial(freeze, name=name, step=step, spec=spec, blocks=blocks),
        claims=("F1", "F2", "D1"),
        engines=engines,
        quick_on=ENGINES if is_quick else (),
    )


CELLS = [
    cell("lease-granted", "cursor.acquire.after_commit", nth=1),
    cell("between-transactions", "between two transactions", outside, is_line=True),
    cell("nothing-written", "in a transaction that only read", unwritten, is_line=True),
    cell("written", "in a transaction that wrote", written, is_line=True, blocks="sqlite"),
    cell("before-commit", "transaction.before_commit", blocks="sqlite", is_quick=True),
    cell("guarded-before-commit", "transaction.before_commit", guarded, blocks="sqlite"),
    cell("after-commit", "transaction.after_commit"),
    cell("renewed", "cursor.renew.after_commit", renewed),
    cell("heartbeat", "cursor.renew.after_commit", beating, nth=2),
    cell(
        "heartbeat-uncommitted",
        "sqlite.group.before_commit",
        beating,
        blocks="sqlite",
        engines=("sqlite",),
    ),
    cell("heartbeat-committed", "sqlite.group.after_commit", beating, engines=("sqlite",)),
    cell("releasing", "cursor.release.before_commit", released),
]
