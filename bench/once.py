"""Work done once: `@once` beside DBOS workflows of one step, and beside bare commits."""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import apsw

from bench.table import Row
from onceward.handle import Onceward
from onceward.handle import open as open_handle
from onceward.stores import Transaction
from onceward.testing.postgres import PostgresServer

CALLS = 400
THREADS = 32
ROUNDS = 3
#: In a process of its own, because DBOS starts threads that outlive it. Prints new/s and replays/s.
DBOS_PROGRAM = """
import sys, time, os
from dbos import DBOS, SetWorkflowID
DBOS(config={"name": "bench", "system_database_url": sys.argv[1], "log_level": "CRITICAL",
             "run_admin_server": False})
@DBOS.step()
def step(number):
    return number
@DBOS.workflow()
def workflow(number):
    return step(number)
DBOS.launch()
calls = int(sys.argv[2])
def rate(prefix):
    began = time.perf_counter()
    for number in range(calls):
        with SetWorkflowID(f"{prefix}-{number}"):
            workflow(number)
    return calls / (time.perf_counter() - began)
rate("warm")
print(rate("measured"), rate("measured"), flush=True)
os._exit(0)
"""


def dbos(url: str) -> tuple[float, float]:
    """Return DBOS's new and replayed workflows a second, with every commit synced in a WAL."""
    command = [sys.executable, "-W", "ignore", "-c", DBOS_PROGRAM, url, str(CALLS)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    new, replayed = ran.stdout.split()[-2:]
    return float(new), float(replayed)


def per_second(work: Callable[[int], object], first: int, calls: int = CALLS) -> float:
    began = time.perf_counter()
    for number in range(first, first + calls):
        work(number)
    return calls / (time.perf_counter() - began)


def threaded(work: Callable[[int], object], first: int, calls: int) -> float:
    """Return calls a second of many threads, each with numbers of its own."""
    share = calls // THREADS
    threads = [
        threading.Thread(target=per_second, args=(work, first + index * share, share))
        for index in range(THREADS)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return share * THREADS / (time.perf_counter() - began)


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


def bare_two_commits(path: Path) -> Callable[[int], None]:
    """Return a loop's body: claim a key and finish it, as two commits and nothing else."""
    connection = apsw.Connection(str(path))
    connection.execute("pragma journal_mode = wal").fetchall()
    connection.execute("pragma synchronous = full").fetchall()
    connection.execute("create table keys (key text primary key, state text, result blob)")

    def body(number: int) -> None:
        connection.execute("begin immediate")
        connection.execute("insert into keys values (?, 'running', null)", (str(number),))
        connection.execute("commit")
        connection.execute("begin immediate")
        update = "update keys set state = 'done', result = ? where key = ?"
        connection.execute(update, (b"1", str(number)))
        connection.execute("commit")

    return body


def beside_dbos(
    label: str, url: str, peers: dict[str, str], goals: tuple[float, float, float]
) -> list[Row]:
    """Compare new keys, new keys in `tx`, and replays on one engine with each form of the peer."""
    ow = open_handle(url)
    plain, with_tx = functions(ow)
    theirs = {name: dbos(dbos_url) for name, dbos_url in peers.items()}
    per_second(plain, 10**9, 50)
    new = median(per_second(plain, CALLS * round_) for round_ in range(ROUNDS))
    in_tx = median(per_second(with_tx, CALLS * round_) for round_ in range(ROUNDS))
    replays = max(per_second(plain, 0, CALLS) for _ in range(ROUNDS))
    ow.close()
    return [
        Row(
            work=f"@once on {label}, {kind}",
            ours=f"{rate:.0f}/s",
            peer=f"{name} {peer:.0f}/s",
            ratio=rate / peer,
            goal=goal,
        )
        for name, (their_new, their_replays) in theirs.items()
        for kind, rate, peer, goal in (
            ("new keys", new, their_new, goals[0]),
            ("new keys with tx", in_tx, their_new, goals[1]),
            ("replays", replays, their_replays, goals[2]),
        )
    ]


def beside_bare(place: Path) -> list[Row]:
    """Compare claim and finish with the two commits they need, and many threads with one."""
    ow = open_handle(f"sqlite:///{place / 'bare-ours.db'}")
    plain, _ = functions(ow)
    bare = bare_two_commits(place / "bare.db")
    per_second(plain, 10**9, 50)
    pairs = [
        (per_second(bare, CALLS * round_), per_second(plain, CALLS * round_))
        for round_ in range(2 * ROUNDS)
    ]
    base, ours = (median(column) for column in zip(*pairs, strict=True))
    many = median(threaded(plain, 10**6 * round_, 4 * CALLS) for round_ in range(1, 1 + ROUNDS))
    ow.close()
    work = "claim and finish on SQLite"
    return [
        Row(
            work=f"{work}, one thread",
            ours=f"{ours:.0f}/s",
            peer=f"bare two commits {base:.0f}/s",
            ratio=ours / base,
            goal=0.85,
        ),
        Row(
            work=f"{work}, {THREADS} threads",
            ours=f"{many:.0f}/s",
            peer=f"one thread {ours:.0f}/s",
            ratio=many / ours,
            goal=3.0,
        ),
    ]


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        # DBOS leaves the journal mode as it finds it: once as it comes, once in the mode we use.
        apsw.Connection(str(place / "wal.db")).execute("pragma journal_mode = wal").fetchall()
        peers = {
            "DBOS": f"sqlite:///{place / 'dbos.db'}",
            "DBOS in WAL mode": f"sqlite:///{place / 'wal.db'}",
        }
        ours = f"sqlite:///{place / 'ours.db'}"
        found = beside_dbos("SQLite", ours, peers, (18, 25, 100)) + beside_bare(place)
    server = PostgresServer()
    server.start()
    try:
        urls = [server.new_database(name) for name in ("ours", "theirs")]
        found += beside_dbos("PostgreSQL", urls[0], {"DBOS": urls[1]}, (7, 7, 14))
    finally:
        server.close()
    return found
