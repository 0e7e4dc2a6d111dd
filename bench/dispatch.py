"""Measure how fast agents start and answer, and what many groups and long history cost."""

import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.engines import Opened, both
from bench.table import Row, bound, growth, limit
from bench.talk import GROUPS, Talk, message, with_groups, with_history
from bench.timing import Run, timed, turns
from bench.units import micro, milli, per_second
from onceward.client import Onceward
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.models import Group
from onceward.retries.retry_schedule import FixedDelays
from onceward.stores import Transaction

_numbers = itertools.count(1)

#: Reports through a pipe that it runs, and that it is done.
SIGN = """printf x > "$0"; echo '{"kind":"done","upto":1000000000}'"""
ECHO = """
import json, sys
for line in sys.stdin:
    handed = json.loads(line)
    for message in handed["messages"]:
        print(json.dumps({"kind": "output", "text": message["text"], "upto": message["seq"]}))
    if not handed["more"]:
        print(json.dumps({"kind": "done", "upto": handed["upto"]}), flush=True)
"""


@contextmanager
def dispatching(ow: Onceward, directory: Path) -> Iterator[Dispatcher]:
    dispatcher = Dispatcher(
        ow, home=directory / "home", agents_max=5, schedule=FixedDelays(seconds=())
    )
    dispatcher.start()
    try:
        wait_for(lambda: dispatcher.is_held)
        yield dispatcher
    finally:
        dispatcher.stop()


def wait_for(happened: Callable[[], bool]) -> None:
    while not happened():
        time.sleep(0.002)


def start_seconds(dispatcher: Dispatcher, reader: int, starts: int) -> float:
    """Return the median time from an arrival until its agent's process runs."""
    times = []
    for _ in range(starts):
        number = next(_numbers)
        time.sleep(0.05)  # Whatever the last one left is over.
        began = time.perf_counter()
        dispatcher.arrivals.receive(message(f"start-{number % GROUPS}", number))
        dispatcher.wake()
        os.read(reader, 1)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def starting(run: Run, ow: Onceward, engine: str, directory: Path) -> Row:
    pipe = directory / "sign"
    os.mkfifo(pipe)
    with dispatching(ow, directory) as dispatcher:
        for number in range(GROUPS):
            command = ("/bin/sh", "-c", SIGN, str(pipe))
            dispatcher.groups.add(Group(name=f"start-{number}", channel="chat", command=command))
        reader = os.open(pipe, os.O_RDWR)
        start_seconds(dispatcher, reader, GROUPS)  # Each group's directory is made.
        starts = run.size(30, quick=3)
        times = [start_seconds(dispatcher, reader, starts) for _ in range(run.repetitions(4))]
        os.close(reader)
    return Row(
        work=f"from a message's arrival to a running agent, {engine}",
        ours=tuple(times),
        shown=milli,
        besides=(bound(0.02),),
        is_headline=engine == "SQLite",
    )


def echo_seconds(ow: Onceward, dispatcher: Dispatcher, echoes: int) -> float:
    """Return the time of a message that goes in and comes back."""
    count = "select count(*) from dispatch_outbox where state = 'sent'"
    wanted = ow.store.select(count)[0][0] + echoes
    began = time.perf_counter()
    for _ in range(echoes):
        dispatcher.arrivals.receive(message("echo", next(_numbers)))
        dispatcher.wake()
    wait_for(lambda: ow.store.select(count)[0][0] >= wanted)
    return (time.perf_counter() - began) / echoes


def bare_seconds(ow: Onceward, echoes: int) -> float:
    """Return the same without anything between: the message is kept, and its echo is."""
    began = time.perf_counter()
    for _ in range(2 * echoes):
        ow.store.write(partial(keep, place=next(_numbers)))
    return (time.perf_counter() - began) / echoes


def keep(tx: Transaction, place: int) -> None:
    tx.execute("insert into bare values (?, ?)", [place, "hello"])


def echoing(run: Run, ow: Onceward, engine: str, directory: Path) -> Row:
    echoes = run.size(500, quick=20)
    with ow.transaction() as tx:
        tx.execute("create table bare (number bigint primary key, body text)")
    with dispatching(ow, directory) as dispatcher:
        command = (sys.executable, "-I", "-S", "-c", ECHO)
        dispatcher.groups.add(Group(name="echo", channel="chat", command=command))
        rounds = {
            "ours": partial(echo_seconds, ow, dispatcher, echoes),
            "bare": partial(bare_seconds, ow, echoes),
        }
        found = turns(rounds, run.repetitions(5))
    return Row(
        work=f"messages through an agent that echoes them, {engine}",
        ours=found["ours"],
        shown=per_second,
        besides=(limit("two bare commits", found["bare"], 0.1),),
    )


def growing(run: Run, opened: Opened, engine: str) -> list[Row]:
    names = ("few", "many", "old")
    calls = run.size(100, quick=5)
    stores = {name: opened(name) for name in names}
    for name, ow in stores.items():
        with_groups(ow, run.size(10_000, quick=100) if name == "many" else GROUPS)
    old, deliveries = run.size(1_000_000, quick=10_000), run.size(100_000, quick=1_000)
    with_history(stores["old"], old, deliveries)
    talks = {name: timed(partial(Talk(ow), calls), calls) for name, ow in stores.items()}
    found = turns(talks, run.repetitions(9))
    for ow in stores.values():
        ow.close()
    beside = growth("with 10 groups and no history", found["few"], 1.3)
    return [
        Row(work=f"{work}, {engine}", ours=found[name], shown=micro, besides=(beside,))
        for name, work in (
            ("many", "a message and its answer among 10,000 groups"),
            ("old", "a message and its answer after 1,000,000 others"),
        )
    ]


def rows(run: Run) -> list[Row]:
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as name, both(Path(name)) as stores:
        for engine, opened in stores.items():
            directory = Path(name) / engine
            directory.mkdir()
            with opened("talk") as ow:
                found.append(starting(run, ow, engine, directory))
                found.append(echoing(run, ow, engine, directory))
            found += growing(run, opened, engine)
    return found
