"""Measure `@once` beside DBOS workflows of one step, and beside bare commits."""

import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.bare_keys import BareKeys, PostgresKeys, SqliteKeys
from bench.engines import postgres
from bench.peer import Peer, peer
from bench.table import Beside, Row, itself, limit
from bench.timing import Numbered, Round, Run, Seconds, cpu, spread, timed, turns
from bench.units import micro, per_second, times
from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.stores import Transaction

THREADS = 32
#: Bare loops: what each kind of call cannot do without.
OURS = ("new", "with tx", "replays", "threads")
TWO, ONE, SELECT = "two bare commits", "one bare commit", "a bare select"


def functions(ow: Onceward) -> tuple[Callable[[int], int], Callable[[int], int]]:
    """Return the same work as a function with effects elsewhere, and with effects in `tx`."""

    @ow.once(key=lambda number: f"plain#{number}")
    def plain(number: int) -> int:
        return number

    @ow.once(key=lambda number: f"tx#{number}")
    def with_tx(number: int, tx: Transaction) -> int:
        tx.execute("insert into bench_effects values (?)", [number])
        return number

    with ow.transaction() as tx:
        tx.execute("create table bench_effects (id bigint)")
    return plain, with_tx  # type: ignore[return-value]  # `tx` is filled in


class Threaded:
    """Rounds of calls from many threads, each with numbers of its own."""

    def __init__(self, work: Callable[[int], object], calls: int) -> None:
        self._share = calls // THREADS
        self._rounds = [
            Numbered(work, self._share, first=10**7 * (1 + index)) for index in range(THREADS)
        ]

    def __call__(self) -> float:
        threads = [threading.Thread(target=round_) for round_ in self._rounds]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (time.perf_counter() - began) / (self._share * THREADS)


def theirs(each: Peer, calls: int) -> tuple[Round, Round]:
    """Return rounds of new workflows, and of replays of the first of them."""
    each.ask("seconds", prefix="warm", first=0, calls=min(50, calls))
    first = 0

    def new() -> float:
        nonlocal first
        first += calls
        return each.round(prefix="new", first=first, calls=calls)()

    return new, each.round(prefix="new", first=calls, calls=calls)


class Compared(NamedTuple):
    """What each side takes, and what ours takes of the processor."""

    seconds: dict[str, Seconds]
    cpu: dict[str, float]

    def why(self, kind: str, loop: str, theirs: Seconds) -> str:
        """Say how far the loop is from the peer, and what of ours is not the loop."""
        own, bare = self.cpu[kind], self.cpu[loop]
        most = spread(theirs).median / spread(self.seconds[loop]).median
        return (
            f"{loop.capitalize()} would be {times(most)} times as fast. A call takes {micro(own)}"
            f" of CPU in this process, where the loop takes {micro(bare)}."
        )


def compared(
    run: Run, ow: Onceward, bare: BareKeys, peers: dict[str, Peer], repetitions: int
) -> Compared:
    """Measure new keys, new keys in `tx`, and replays."""
    calls, their_calls = run.size(400, quick=20), run.size(100, quick=5)
    plain, with_tx = functions(ow)
    Numbered(plain, 50, first=10**9)()
    replays: Round = timed(lambda: [plain(number) for number in range(calls)], calls)
    rounds: dict[str, Round] = {
        "new": Numbered(plain, calls),
        TWO: Numbered(bare.two_commits, calls),
        "with tx": Numbered(with_tx, calls),
        ONE: Numbered(bare.one_commit, calls, first=10**9),
        "replays": replays,
        SELECT: timed(lambda: [bare.select(number) for number in range(calls)], calls),
        "threads": Threaded(plain, 4 * calls),
    }
    for name, each in peers.items():
        rounds[f"{name}, new"], rounds[f"{name}, replays"] = theirs(each, their_calls)
    found = turns(rounds, repetitions)
    return Compared(found, {name: cpu(rounds[name]) for name in (*OURS, TWO, ONE, SELECT)})


def kinds(
    engine: str, measured: Compared, peers: dict[str, Peer], goals: tuple[float, ...]
) -> list[Row]:
    rows, found = [], measured.seconds
    for at, (name, each) in enumerate(peers.items()):
        for kind, loop, goal in (
            ("new", TWO, goals[0]),
            ("with tx", ONE, goals[1]),
            ("replays", SELECT, goals[2]),
        ):
            label = {"new": "new keys", "with tx": "new keys with `tx`"}.get(kind, kind)
            other = found[f"{name}, replays" if kind == "replays" else f"{name}, new"]
            note = name.removeprefix("DBOS")
            share = 0.85 if (engine, kind) == ("SQLite", "new") else None
            why = "" if each.missing else measured.why(kind, loop, other)
            own, least = measured.cpu[kind], measured.cpu[loop]
            rest = f"A call takes {micro(own)} of CPU, where the loop takes {micro(least)}."
            bare: tuple[Beside, ...] = () if at else (limit(loop, found[loop], share, rest),)
            rows.append(
                Row(
                    work=f"`@once` on {engine}, {label}",
                    ours=found[kind],
                    shown=per_second,
                    besides=(each.beside(other, goal, why, note=note), *bare),
                    is_headline=at == 0 and kind == "new",
                )
            )
    return rows


def on_sqlite(run: Run) -> list[Row]:
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        place = Path(directory)
        # DBOS leaves the journal mode as it finds it: once as it comes, once in the mode we use.
        made = sqlite3.connect(place / "wal.db")
        made.execute("pragma journal_mode = wal").fetchall()
        made.close()
        started = partial(peer, "dbos", "dbos_once")
        peers = {
            "DBOS": stack.enter_context(started(f"sqlite:///{place / 'dbos.db'}")),
            "DBOS in WAL mode": stack.enter_context(started(f"sqlite:///{place / 'wal.db'}")),
        }
        with open_handle(f"sqlite:///{place / 'ours.db'}") as ow:
            bare = SqliteKeys(place / "bare.db")
            found = compared(run, ow, bare, peers, run.repetitions(5))
    why = (
        f"Threads share one interpreter: {micro(found.cpu['threads'])} of CPU a call, one at a"
        " time, and a commit that all of them wait for."
    )
    many = Row(
        work=f"`@once` on SQLite, new keys, {THREADS} threads",
        ours=found.seconds["threads"],
        shown=per_second,
        besides=(itself("ours, one thread", found.seconds["new"], 3, why),),
    )
    return [*kinds("SQLite", found, peers, (18, 25, 100)), many]


def on_postgres(run: Run) -> list[Row]:
    with postgres() as server, ExitStack() as stack:
        ours = server.new_database("ours")
        other = server.new_database("theirs")
        peers = {"DBOS": stack.enter_context(peer("dbos", "dbos_once", other))}
        ow = stack.enter_context(open_handle(ours))
        bare = stack.enter_context(PostgresKeys(ours))
        found = compared(run, ow, bare, peers, run.repetitions(5))
    return kinds("PostgreSQL", found, peers, (7, 7, 14))


def rows(run: Run) -> list[Row]:
    return on_sqlite(run) + on_postgres(run)
