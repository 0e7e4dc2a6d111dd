"""Dispatch: how soon an agent starts, how fast an echo is, and what groups and history cost."""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.table import Row, interleaved
from onceward.dispatch.arrivals import Arrivals
from onceward.dispatch.deliveries import Deliveries
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.groups import Groups
from onceward.dispatch.models import DUAL, Group, NewMessage
from onceward.dispatch.outbox import Outbox
from onceward.handle import Onceward
from onceward.handle import open as open_handle
from onceward.retries.schedule import Steps
from onceward.stores import Transaction
from onceward.testing.postgres import PostgresServer

STARTS, ECHOES, CALLS = 100, 1_000, 100
FEW, MANY = 10, 10_000
OLD_MESSAGES, OLD_DELIVERIES = 1_000_000, 100_000
#: The numbers from 1 to so many, on either engine.
COUNTING = "with recursive n(i) as (select 1 union all select i + 1 from n where i < {})"
MOMENT = "2026-02-06T12:00:00.000Z"

#: Says that it runs, in a pipe that somebody reads, and that it is done.
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
    dispatcher = Dispatcher(ow, home=directory / "home", agents_max=5, schedule=Steps(seconds=()))
    dispatcher.start()
    try:
        wait_for(lambda: dispatcher.is_held)
        yield dispatcher
    finally:
        dispatcher.stop()


def wait_for(happened: Callable[[], bool]) -> None:
    while not happened():
        time.sleep(0.001)


def start_milliseconds(ow: Onceward, directory: Path) -> list[float]:
    """Return the time from each arrival until its agent's process runs."""
    pipe = directory / "sign"
    os.mkfifo(pipe)
    times = []
    with dispatching(ow, directory) as dispatcher:
        for number in range(FEW):
            command = ("/bin/sh", "-c", SIGN, str(pipe))
            dispatcher.groups.add(Group(name=f"start-{number}", channel="chat", command=command))
        reader = os.open(pipe, os.O_RDWR)
        for number in range(FEW + STARTS):
            time.sleep(0.05)  # Whatever the last one left is over.
            began = time.perf_counter()
            dispatcher.arrivals.receive(message(f"start-{number % FEW}", number))
            dispatcher.wake()
            os.read(reader, 1)
            times.append((time.perf_counter() - began) * 1000)
        os.close(reader)
    # The first time each group's directory is made.
    return times[FEW:]


def message(group: str, number: int) -> NewMessage:
    return NewMessage(group=group, id=f"m{number}", sender="ann", text="hello", timestamp=MOMENT)


def echoes_a_second(ow: Onceward, directory: Path) -> float:
    """Return how many messages a second go in and come back."""
    with dispatching(ow, directory) as dispatcher:
        command = (sys.executable, "-I", "-S", "-c", ECHO)
        dispatcher.groups.add(Group(name="echo", channel="chat", command=command))
        began = time.perf_counter()
        for number in range(ECHOES):
            dispatcher.arrivals.receive(message("echo", number))
            dispatcher.wake()
        count = "select count(*) from dispatch_outbox where state = 'sent'"
        wait_for(lambda: ow.store.select(count)[0][0] == ECHOES)
        return ECHOES / (time.perf_counter() - began)


def bare_echoes_a_second(ow: Onceward) -> float:
    """Return the same without anything between: the message is kept, and its echo is."""
    with ow.transaction() as tx:
        tx.execute("create table bare (number bigint primary key, body text)")
    began = time.perf_counter()
    for place in range(2 * ECHOES):
        ow.store.write(partial(keep, place=place))
    return ECHOES / (time.perf_counter() - began)


def keep(tx: Transaction, place: int) -> None:
    tx.execute("insert into bare values (?, ?)", [place, "hello"])


# --- the cost of one message ---------------------------------------------------------------------


def with_groups(ow: Onceward, count: int) -> None:
    """Make so many groups, all of which have said something."""
    with ow.transaction() as tx:
        numbers = COUNTING.format(count)
        tx.execute(
            "insert into dispatch_groups (name, channel, command, trigger_kind, trigger_word,"
            " idle_seconds, hard_seconds, created_at, updated_at)"
            f" {numbers} select 'g' || i, 'chat', '[\"true\"]', 'always', '', 60, 60, ?, ? from n",
            [MOMENT, MOMENT],
        )
        for table, columns in (
            ("onceward_dual_arrivals", "last_arrived"),
            ("onceward_dual_groups", "processed_position"),
        ):
            extra = ", updated_at" if columns == "processed_position" else ""
            moment = f", '{MOMENT}'" if extra else ""
            tx.execute(
                f"insert into {table} (dual_name, group_name, {columns}{extra})"
                f" {numbers} select '{DUAL}', 'g' || i, 0{moment} from n"
            )


def with_history(ow: Onceward, count: int, deliveries: int) -> None:
    """Let so many messages have been said in a few groups, and handed out."""
    body = "x'68656c6c6f'" if ow.store.engine == "sqlite" else "'\\x68656c6c6f'::bytea"
    with ow.transaction() as tx:
        tx.execute(
            "insert into dispatch_messages (channel, group_name, id, seq, changed_seq, sender,"
            f" body, sent_at, received_at) {COUNTING.format(count)}"
            f" select 'chat', 'g' || (1 + i % {FEW}), 'old' || i, i, i, {body}, {body},"
            f" '{MOMENT}', '{MOMENT}' from n"
        )
        tx.execute(
            "insert into dispatch_deliveries (group_name, batch_number, state, attempt, first_seq,"
            f" last_seq, started_at, ended_at) {COUNTING.format(deliveries)}"
            f" select 'g' || (1 + i % {FEW}), i, 'done', 1, i, i, '{MOMENT}', '{MOMENT}' from n"
        )
        tx.execute(
            "insert into dispatch_outbox (key, group_name, batch_number, position, body, state,"
            f" seq, created_at, sent_at) {COUNTING.format(deliveries)}"
            f" select 'old' || i, 'g' || (1 + i % {FEW}), i, i, {body}, 'sent', {count} + i,"
            f" '{MOMENT}', '{MOMENT}' from n"
        )
        last = [DUAL, count + deliveries]
        tx.execute(
            "insert into onceward_dual_counters (dual_name, last_sequence) values (?, ?)", last
        )
        read = [DUAL, count, MOMENT]
        tx.execute(
            "insert into onceward_dual_reads (dual_name, read_position, updated_at)"
            " values (?, ?, ?)",
            read,
        )
        moved = [count, deliveries + 1]
        tx.execute("update onceward_dual_groups set processed_position = ?, last_batch = ?", moved)
        tx.execute("update onceward_dual_arrivals set last_arrived = ?", [count])
    if ow.store.engine == "postgres":
        with ow.transaction() as tx:
            tx.execute("analyze")


class Talk:
    """One message after the other, from its arrival to the end of its answer."""

    def __init__(self, ow: Onceward) -> None:
        self.groups, self.arrivals = Groups(ow.store), Arrivals(ow.store)
        self.deliveries, self.outbox = Deliveries(ow.store), Outbox(ow.store)
        self.number = 0

    def __call__(self) -> None:
        for _ in range(CALLS):
            self.number += 1
            name = f"g{1 + self.number % FEW}"
            self.arrivals.receive(message(name, self.number))
            self.arrivals.see()
            delivery = self.deliveries.begin(self.groups.show(name))
            assert delivery is not None
            self.outbox.say(delivery, "hello", key=f"{name}/{self.number}", is_stored=True)
            self.deliveries.done(delivery, delivery.batch.position)


def growth_rows(opened: Callable[[str], Onceward], engine: str) -> list[Row]:
    stores = [opened(name) for name in ("few", "many", "old")]
    for ow, groups in zip(stores, (FEW, MANY, FEW), strict=True):
        with_groups(ow, groups)
    with_history(stores[2], OLD_MESSAGES, OLD_DELIVERIES)
    seconds = interleaved([Talk(ow) for ow in stores], rounds=9)
    few, many, old = (each / CALLS * 1e6 for each in seconds)
    for ow in stores:
        ow.close()
    return [
        growth(f"a message, 10,000 groups, {engine}", many, few),
        growth(f"a message, 10⁶ old ones, {engine}", old, few),
    ]


def growth(work: str, large: float, small: float) -> Row:
    return Row(
        work=work,
        ours=f"{large:.0f} µs",
        peer=f"10 groups, no history {small:.0f} µs",
        ratio=large / small,
        goal=1.3,
        better="below",
    )


def rows() -> list[Row]:
    server = PostgresServer()
    server.start()
    try:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            stores: dict[str, Callable[[str], Onceward]] = {
                "SQLite": lambda name: open_handle(f"sqlite:///{directory}/{name}.db"),
                "PostgreSQL": lambda name: open_handle(server.new_database(name)),
            }
            found = []
            for engine, opened in stores.items():
                found += engine_rows(opened, engine, directory / engine)
            return found
    finally:
        server.close()


def engine_rows(opened: Callable[[str], Onceward], engine: str, directory: Path) -> list[Row]:
    directory.mkdir()
    with opened("talk") as ow:
        times = start_milliseconds(ow, directory)
        rate, bare = echoes_a_second(ow, directory), bare_echoes_a_second(ow)
    p95 = statistics.quantiles(times, n=20)[-1]
    return [
        Row(
            work=f"arrival to running agent, median in ms, {engine}",
            ours=f"95 % under {p95:.1f} ms",
            peer="as it is",
            ratio=statistics.median(times),
            goal=20,
            better="below",
        ),
        Row(
            work=f"messages through an echo agent, {engine}",
            ours=f"{rate:.0f}/s",
            peer=f"two bare commits {bare:.0f}/s",
            ratio=rate / bare,
            goal=0.1,
        ),
        *growth_rows(opened, engine),
    ]
