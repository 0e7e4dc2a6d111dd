"""Measure the throughput of workers beside Procrastinate's jobs, and beside bare loops."""

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import bare_messages, idle, messages
from bench.engines import postgres
from bench.peer import peer
from bench.table import Beside, Row, bound, growth, limit
from bench.timing import Round, Run, Seconds, cpu, turns
from bench.units import fine_micro, micro, of_a_core, per_second
from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.testing.postgres import PostgresServer
from onceward.workers import Worker
from onceward.workers.sources import TableSource

BATCH, CURSORS = 500, 4
PAGES = 30
BARE = "a bare psycopg loop"
_numbers = itertools.count(1)


def worked(ow: Onceward, *, batch: int | None = None, cursors: int = 1) -> float:
    """Return the seconds of a message, from the start of a worker until all are done."""
    app = messages.app(ow, f"round{next(_numbers)}", batch=batch, has_parts=cursors > 1)
    began = time.perf_counter()
    done = Worker(app, threads=cursors).run(once=True)
    return (time.perf_counter() - began) / done.messages


def on_postgres(run: Run, server: PostgresServer) -> list[Row]:
    count, big_count = run.size(2_000, quick=100), run.size(20_000, quick=1_000)
    jobs = run.size(600, quick=40)
    url, big_url = server.new_database("ours"), server.new_database("big")
    with ExitStack() as stack:
        ow, big = stack.enter_context(open_handle(url)), stack.enter_context(open_handle(big_url))
        messages.tables(ow, count, CURSORS)
        messages.tables(big, big_count, CURSORS)
        theirs = server.new_database("theirs")
        other = stack.enter_context(peer("procrastinate", "procrastinate_jobs", theirs))
        worked(ow)
        rounds: dict[str, Round] = {
            "one": partial(worked, ow),
            "one, theirs": other.round(jobs=jobs, workers=1),
            "one, bare": partial(bare_messages.on_postgres, url, count, 1),
            "four": partial(worked, ow, cursors=CURSORS),
            "four, theirs": other.round(jobs=jobs, workers=CURSORS),
            "batches": partial(worked, big, batch=BATCH),
            "batches, bare": partial(bare_messages.on_postgres, big_url, big_count, BATCH),
        }
        found = turns(rounds, run.repetitions(5))
        used = {name: cpu(round_) for name, round_ in rounds.items() if "theirs" not in name}
    in_one = (
        other.beside(found["one, theirs"], 3),
        limit(BARE, found["one, bare"], 0.8, _more(used["one"], used["one, bare"])),
    )
    shared = (
        f"Threads of one process share one interpreter, and a message takes {micro(used['four'])}"
        " of CPU there; several processes get further, as the page about scaling shows."
    )
    in_four = (other.beside(found["four, theirs"], 7, shared, note=f", {CURSORS} at once"),)
    more = _more(used["batches"], used["batches, bare"])
    batched = limit(BARE, found["batches, bare"], 0.8, more)
    in_batches = (other.beside(found["one, theirs"], 80, note=", job by job"), batched)
    return [
        _rate("a message, one worker, PostgreSQL", found["one"], in_one, is_headline=True),
        _rate(f"a message, {CURSORS} cursors, PostgreSQL", found["four"], in_four),
        _rate(f"batches of {BATCH}, PostgreSQL", found["batches"], in_batches),
    ]


def on_sqlite(run: Run) -> Row:
    count = run.size(2_000, quick=100)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "work.db"
        with open_handle(f"sqlite:///{path}") as ow:
            messages.tables(ow, count, CURSORS)
            rounds: dict[str, Round] = {
                "ours": partial(worked, ow),
                "bare": partial(bare_messages.on_sqlite, str(path), count),
            }
            found = turns(rounds, run.repetitions(5))
    beside = limit("a bare sqlite3 loop", found["bare"])
    return _rate("a message, one worker, SQLite", found["ours"], (beside,))


def page_seconds(ow: Onceward, count: int) -> Callable[[], float]:
    """Return rounds of a page from the middle of a source."""
    source = TableSource(ow, "source")
    (place,) = source.read(None, 1)
    middle = f"{place.position.partition('-')[0]}-{count // 2}"

    def round_() -> float:
        times = []
        for _ in range(PAGES):
            began = time.perf_counter()
            source.read(middle, 100)
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    return round_


def pages(run: Run, server: PostgresServer) -> Row:
    with ExitStack() as stack:
        rounds = {}
        for name, count in (("few", 1_000), ("many", run.size(1_000_000, quick=10_000))):
            ow = stack.enter_context(open_handle(server.new_database(name)))
            messages.tables(ow, count, CURSORS)
            rounds[name] = page_seconds(ow, count)
        found = turns(rounds, run.repetitions(7))
    return Row(
        work="a page of 100 from a table of 1,000,000 rows, PostgreSQL",
        ours=found["many"],
        shown=micro,
        besides=(growth("with 1,000 rows", found["few"], 1.3),),
    )


def idle_row(run: Run, server: PostgresServer) -> Row:
    cursors = run.size(10_000, quick=200)
    return Row(
        work="10,000 idle cursors, one worker, PostgreSQL",
        ours=idle.shares(run, server.new_database("idle"), cursors),
        shown=of_a_core,
        besides=(bound(0.05),),
    )


def _more(own: float, bare: float) -> str:
    """Say what of a message is not the loop."""
    return (
        f"A message takes {fine_micro(own)} of CPU in the worker, where the loop takes"
        f" {fine_micro(bare)}: it decodes nothing, marks nothing, and has no fence."
    )


def _rate(
    work: str, ours: Seconds, besides: tuple[Beside, ...], *, is_headline: bool = False
) -> Row:
    return Row(work=work, ours=ours, shown=per_second, besides=besides, is_headline=is_headline)


def rows(run: Run) -> list[Row]:
    with postgres() as server:
        return [
            *on_postgres(run, server),
            on_sqlite(run),
            idle_row(run, server),
            pages(run, server),
        ]
