"""Messages worked through: beside Procrastinate's jobs, and beside bare loops of psycopg."""

import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from statistics import median

import psycopg

from bench.table import Row
from onceward.handle import Onceward
from onceward.handle import open as open_handle
from onceward.stores import Transaction
from onceward.testing.postgres import PostgresServer
from onceward.workers import App, Message, Worker
from onceward.workers.sources import TablePartitions, TableSource

MESSAGES = 2_000
BATCH = 500
BATCHED_MESSAGES = 20_000
CURSORS = 4
IDLE_CURSORS = 10_000
IDLE_SECONDS = 20.0
SIZES = (1_000, 1_000_000)

#: A job that does the same insert, in a transaction of its own, with as many workers as asked for.
PROCRASTINATE_PROGRAM = """
import asyncio, sys, time
import procrastinate, psycopg
url, jobs, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
async def main():
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        pool = [await psycopg.AsyncConnection.connect(url, autocommit=True) for _ in range(workers)]
        free = asyncio.Queue()
        for each in pool: free.put_nowait(each)
        @app.task(name="work")
        async def work(number, payload):
            connection = await free.get()
            await connection.execute("insert into job_effects values (%s, %s)", (number, payload))
            free.put_nowait(connection)
        for first in range(0, jobs, 500):
            numbers = range(first, first + 500)
            await work.batch_defer_async(*[{"number": n, "payload": "x" * 20} for n in numbers])
        began = time.perf_counter()
        await app.run_worker_async(concurrency=workers, wait=False, install_signal_handlers=False)
        print(jobs / (time.perf_counter() - began), flush=True)
        for each in pool: await each.close()
asyncio.run(main())
"""


def procrastinate(url: str, workers: int) -> float:
    """Return jobs a second."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table job_effects (id bigint, payload text)")
    command = [sys.executable, "-W", "ignore", "-c", PROCRASTINATE_PROGRAM, url]
    words = [*command, str(MESSAGES), str(workers)]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(ran.stdout.split()[-1])


def tables(ow: Onceward, messages: int, keys: int = CURSORS) -> None:
    """Make a source of so many messages and a place for effects."""
    with ow.transaction() as tx:
        tx.execute(
            "create table source (id bigint generated always as identity primary key, "
            "key text, payload text, onceward_xid xid8 not null default pg_current_xact_id())"
        )
        tx.execute(
            "insert into source (key, payload) select (n % ?)::text, repeat('x', 20) "
            "from generate_series(1, ?) n",
            [keys, messages],
        )
        tx.execute("create index source_in_order on source (onceward_xid, id)")
        tx.execute("create index source_by_key on source (key, onceward_xid, id)")
        tx.execute("create table effects (id bigint, payload text)")
    with ow.transaction() as tx:
        tx.execute("analyze source")


def one(message: Message, tx: Transaction) -> None:
    tx.execute("insert into effects values (?, ?)", [message["id"], message["payload"]])


def many(messages: list[Message], tx: Transaction) -> None:
    rows = [[message["id"], message["payload"]] for message in messages]
    tx.execute_many("insert into effects values (?, ?)", rows)


def worked(app: App, threads: int) -> float:
    """Return messages a second until the app is drained."""
    began = time.perf_counter()
    done = Worker(app, threads=threads).run(once=True)
    return done.messages / (time.perf_counter() - began)


def ours(ow: Onceward, name: str, *, batch: int | None = None, cursors: int = 1) -> float:
    app = App(ow)
    if cursors > 1:
        source = TablePartitions(ow, "source", by="key")
        app.consumer(f"{name}_{{key}}", source=source)(one)
    else:
        app.consumer(name, source=TableSource(ow, "source"), batch=batch)(many if batch else one)
    return worked(app, cursors)


def bare(url: str, messages: int, batch: int) -> float:
    """Return messages a second of a loop that does the same inserts and moves a row, pipelined."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table if not exists bare_effects (id bigint, payload text)")
        connection.execute("create table if not exists bare_cursor (position text)")
        connection.execute("insert into bare_cursor values ('')")
        began = time.perf_counter()
        for first in range(0, messages, max(batch, 100)):
            page = connection.execute(
                "select id, payload from source where id > %s order by id limit %s",
                (first, max(batch, 100)),
            ).fetchall()
            for start in range(0, len(page), batch):
                bare_step(connection, page[start : start + batch])
        return messages / (time.perf_counter() - began)


def bare_step(connection: psycopg.Connection, rows: list[tuple[object, ...]]) -> None:
    insert = "insert into bare_effects values (%s, %s)"
    if len(rows) == 1:
        with connection.pipeline():
            connection.execute("begin")
            connection.execute(insert, rows[0])
    else:
        connection.execute("begin")
        connection.cursor().executemany(insert, rows)
    with connection.pipeline():
        connection.execute("update bare_cursor set position = %s", (str(rows[-1][0]),))
        connection.execute("commit")


def idle_share(url: str) -> float:
    """Return how much of a core one worker takes with many cursors that have nothing to do."""
    ow = open_handle(url)
    tables(ow, IDLE_CURSORS, IDLE_CURSORS)
    app = App(ow)
    app.consumer("idle_{key}", source=TablePartitions(ow, "source", by="key"), batch=10)(many)
    worker = Worker(app, threads=4)
    thread = threading.Thread(target=worker.run)
    thread.start()
    wait_for(lambda: len(ow.cursors.list("idle_*")) == IDLE_CURSORS)
    time.sleep(30.0)  # Every partition is measured for a while after its last work.
    before = cpu_seconds()
    time.sleep(IDLE_SECONDS)
    share = (cpu_seconds() - before) / IDLE_SECONDS
    worker.stop()
    thread.join()
    ow.close()
    return share


def wait_for(happened: Callable[[], bool]) -> None:
    while not happened():
        time.sleep(0.5)


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def page_seconds(ow: Onceward, messages: int) -> float:
    """Return the seconds of a page from the middle of a source."""
    source = TableSource(ow, "source")
    (place,) = source.read(None, 1)
    middle = f"{place.position.partition('-')[0]}-{messages // 2}"
    times = []
    for _ in range(30):
        began = time.perf_counter()
        source.read(middle, 100)
        times.append(time.perf_counter() - began)
    return median(times)


def row(work: str, rate: float, name: str, theirs: float, goal: float) -> Row:
    return Row(
        work=work,
        ours=f"{rate:.0f}/s",
        peer=f"{name} {theirs:.0f}/s",
        ratio=rate / theirs,
        goal=goal,
    )


def growth(server: PostgresServer) -> Row:
    seconds = []
    for size in SIZES:
        ow = open_handle(server.new_database(f"size_{size}"))
        tables(ow, size)
        seconds.append(page_seconds(ow, size))
        ow.close()
    return Row(
        work="a page of 100 from 10⁶ rows",
        ours=f"{seconds[1] * 1e6:.0f} µs",
        peer=f"from 10³ rows {seconds[0] * 1e6:.0f} µs",
        ratio=seconds[1] / seconds[0],
        goal=1.3,
        better="below",
    )


def rows() -> list[Row]:
    server = PostgresServer()
    server.start()
    try:
        url = server.new_database("ours")
        ow = open_handle(url)
        tables(ow, MESSAGES)
        ours(ow, "warm")
        theirs = {n: procrastinate(server.new_database(f"theirs_{n}"), n) for n in (1, CURSORS)}
        single, base = ours(ow, "single"), bare(url, MESSAGES, 1)
        parallel = ours(ow, "parallel", cursors=CURSORS)
        ow.close()
        big_url = server.new_database("big")
        big = open_handle(big_url)
        tables(big, BATCHED_MESSAGES)
        batched, bare_batched = (
            ours(big, "batched", batch=BATCH),
            bare(big_url, BATCHED_MESSAGES, BATCH),
        )
        big.close()
        share = idle_share(server.new_database("idle"))
        return [
            row("a message, one worker", single, "Procrastinate", theirs[1], 3),
            row("the same", single, "bare psycopg loop", base, 0.8),
            row(
                f"a message, {CURSORS} cursors",
                parallel,
                f"Procrastinate, {CURSORS}",
                theirs[CURSORS],
                7,
            ),
            row(f"batches of {BATCH}", batched, "Procrastinate", theirs[1], 80),
            row("the same", batched, "bare psycopg loop", bare_batched, 0.8),
            Row(
                work=f"{IDLE_CURSORS} idle cursors",
                ours=f"{share:.1%} of a core",
                peer="one core",
                ratio=share,
                goal=0.05,
                better="below",
            ),
            growth(server),
        ]
    finally:
        server.close()
