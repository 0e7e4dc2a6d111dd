"""Counting worker: counts on until it is killed; run by several at once, frozen and killed.

Run as `python -m tests.support.counting_worker URL WORKER LEASE_SECONDS`. It is ended by a kill.
"""

import sys
import threading

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import LeaseLost, OutcomeUnknown, StoreError


def count_on(ow: Onceward, worker: str, lease_seconds: float) -> None:
    """Take the cursor if it can be had, and write the next few numbers."""
    lease = ow.cursors.acquire("c", worker, lease_seconds)
    if lease is None:
        threading.Event().wait(lease_seconds / 20)
        return
    with lease.hold():
        for turn in range(50):
            number = int(lease.position or 0) + 1
            with ow.transaction() as tx:
                if turn % 2:
                    lease.guard(tx)
                tx.execute("insert into effects values (?, ?)", [number, worker])
                lease.checkpoint(str(number), tx=tx)
    lease.release()


def main(url: str, worker: str, lease_seconds: float) -> None:
    ow = open_handle(url)
    while True:
        try:
            count_on(ow, worker, lease_seconds)
        except (LeaseLost, OutcomeUnknown, StoreError):
            # Start again: the position says what is done.
            continue


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
