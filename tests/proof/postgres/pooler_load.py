"""One of several processes that share the sessions of a pooler, each with a table of its own.

Run as `python -m tests.proof.postgres.pooler_load URL NUMBER ROWS`. All of them send statements of
the same shape in the same order, so that they would prepare them under the same names. Prints what
was acknowledged and what was refused, in JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import OncewardError
from onceward.stores import Transaction
from onceward.stores.postgres.store import PostgresStore
from onceward.workers import App, Message, Worker
from tests.support.list_source import ListSource

THREADS = 2
#: Of ten rows so many are written by `@once` and by a worker; the rest in plain transactions.
ONCE_OF_TEN, WORKER_OF_TEN = 2, 2


class Load:
    """What one process writes."""

    def __init__(self, ow: Onceward, number: int) -> None:
        self._ow = ow
        self._number = number
        self._insert = f"insert into own_{number} values (?, ?, pg_backend_pid())"
        self._mutex = threading.Lock()
        self.acknowledged: list[int] = []
        self.refused: Counter[str] = Counter()

    def run(self, rows: int) -> None:
        """Write so many rows, each acknowledged once."""
        once, by_worker = rows * ONCE_OF_TEN // 10, rows * WORKER_OF_TEN // 10
        plain = rows - once - by_worker
        threads = [
            threading.Thread(target=self._write, args=[range(first, rows - by_worker, THREADS)])
            for first in range(THREADS)
        ]
        self._once_from = plain
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._work(range(rows - by_worker, rows))

    def _write(self, numbers: range) -> None:
        def insert(number: int, tx: Transaction) -> int:
            tx.execute(self._insert, [self._number, number])
            return number

        once: Callable[..., int] = self._ow.once(scope=f"p{self._number}", key=str)(insert)
        for number in numbers:
            while True:
                try:
                    if number < self._once_from:
                        self._insert_plainly(number)
                    else:
                        assert once(number) == number
                        assert once(number) == number  # A replay writes nothing.
                    break
                except OncewardError as exc:
                    self._refuse(exc)
            with self._mutex:
                self.acknowledged.append(number)

    def _insert_plainly(self, number: int) -> None:
        with self._ow.transaction() as tx:
            tx.execute(self._insert, [self._number, number])

    def _refuse(self, exc: OncewardError) -> None:
        with self._mutex:
            self.refused[str(exc.context.get("sqlstate") or type(exc).__name__)] += 1
        assert exc.retryable, exc

    def _work(self, numbers: range) -> None:
        app = App(self._ow)
        done: list[int] = []

        @app.consumer(name=f"load_{self._number}", source=ListSource(*numbers))
        def handle(message: Message, tx: Transaction) -> None:
            tx.execute(self._insert, [self._number, message.data])
            done.append(int(str(message.data)))

        while True:
            Worker(app, threads=THREADS).run(once=True)
            position = self._ow.cursors.show(f"load_{self._number}").position
            if position == str(len(numbers)):
                break
        self.acknowledged += sorted(set(done))


def main(url: str, number: str, rows: str) -> None:
    """Write, and tell."""
    with open_handle(url) as ow:
        load = Load(ow, int(number))
        load.run(int(rows))
        assert isinstance(ow.store, PostgresStore)
        is_pooled = ow.store.connections.is_pooled
    reported = {
        "acknowledged": sorted(load.acknowledged),
        "refused": load.refused,
        "is_pooled": is_pooled,
    }
    print(json.dumps(reported))  # noqa: T201 - its answer


if __name__ == "__main__":
    main(*sys.argv[1:])
