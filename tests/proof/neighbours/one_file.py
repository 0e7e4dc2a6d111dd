"""One file: Onceward, `sqlite3` and SQLAlchemy write to it at once, in one process and beside it.

`python -m tests.proof.neighbours.one_file PLACE CALLS PROCESSES`: every thread makes so many calls.
Writes what was acknowledged, what of it is missing, and what SQLite says of the file, as JSON.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

import onceward
from onceward.stores import Transaction

#: Threads of each kind in one process.
THREADS = {"once": 2, "worker": 1, "sqlite3": 1, "sqlalchemy": 1}


class Neighbours:
    """The threads of one process, and what was acknowledged to each of them as durable."""

    def __init__(self, path: Path, name: str, calls: int) -> None:
        """Write to this file."""
        self._path, self._name, self._calls = path, name, calls
        self.acknowledged: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._ow = onceward.open(f"sqlite:///{path}")

        @self._ow.once(key=lambda who, n: f"{who}#{n}")
        def called(who: str, n: int, tx: Transaction) -> int:
            tx.execute("insert into ours values (?, ?)", [who, n])
            return n

        self._called: Any = called

    def run(self) -> None:
        """Let all threads make their calls."""
        kinds = {
            "once": self._once,
            "worker": self._transaction,
            "sqlite3": self._foreign,
            "sqlalchemy": self._engine,
        }
        threads = [
            threading.Thread(target=self._loop, args=[f"{self._name}-{kind}-{n}", kinds[kind]])
            for kind, count in THREADS.items()
            for n in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._ow.close()

    def _loop(self, who: str, call: Callable[[str, int], None]) -> None:
        for n in range(self._calls):
            try:
                call(who, n)
            except Exception as exc:  # noqa: BLE001 - reported at the end
                self.errors[f"{type(exc).__name__}: {exc}"[:120]] += 1
                return
            self.acknowledged[who] = n + 1

    def _once(self, who: str, n: int) -> None:
        assert self._called(who, n) == n

    def _transaction(self, who: str, n: int) -> None:
        with self._ow.transaction() as tx:
            tx.execute("insert into ours values (?, ?)", [who, n])

    def _foreign(self, who: str, n: int) -> None:
        with closing(sqlite3.connect(self._path, timeout=60)) as connection, connection:
            connection.execute("insert into ours values (?, ?)", [who, n])

    def _engine(self, who: str, n: int) -> None:
        engine = create_engine(
            f"sqlite:///{self._path}", poolclass=NullPool, connect_args={"timeout": 60}
        )
        with engine.begin() as connection:
            connection.execute(text("insert into ours values (:who, :n)"), {"who": who, "n": n})
        engine.dispose()


def make(path: Path) -> None:
    """Make the table that all write to."""
    with onceward.open(f"sqlite:///{path}") as ow, ow.transaction() as tx:
        tx.execute("create table ours (who text, n int, primary key (who, n))")


def examine(path: Path, acknowledged: Counter[str]) -> dict[str, object]:
    """Count, in a process that has nothing else open, what is there and what is missing."""
    with closing(sqlite3.connect(path)) as connection:
        integrity = [row[0] for row in connection.execute("pragma integrity_check")]
        # Not by an index: a damaged one would hide what the table holds.
        rows = connection.execute("select who, n from ours not indexed").fetchall()
    found = Counter(rows)
    wanted = {(who, n) for who, count in acknowledged.items() for n in range(count)}
    return {
        "integrity": integrity,
        "lost": len(wanted - found.keys()),
        "doubled": sum(count - 1 for count in found.values()),
    }


def main(place: str, calls: str, processes: str) -> None:
    """Write in this process and in others beside it."""
    path = Path(place) / "shared.db"
    make(path)
    command = [sys.executable, "-m", __spec__.name, "--beside", str(path), calls]
    others = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(int(processes))
    ]
    ours = Neighbours(path, "main", int(calls))
    ours.run()
    acknowledged, errors = ours.acknowledged, ours.errors
    for each in others:
        found, wrong = json.loads(each.communicate()[0])
        acknowledged += Counter(found)
        errors += Counter(wrong)
    found_all = examine(path, acknowledged)
    summary = {"acknowledged": acknowledged.total(), "errors": errors, **found_all}
    sys.stdout.write(json.dumps(summary))


def beside(path: str, calls: str) -> None:
    """Be one of the other processes."""
    ours = Neighbours(Path(path), str(os.getpid()), int(calls))
    ours.run()
    sys.stdout.write(json.dumps([ours.acknowledged, ours.errors]))


if __name__ == "__main__":
    if sys.argv[1] == "--beside":
        beside(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
