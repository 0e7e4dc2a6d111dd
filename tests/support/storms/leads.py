"""The lead platform under fire: workers killed every moment, the database killed twice.

Run as `python -m tests.support.storms.leads ENGINE SECONDS SEED KILLS_MIN LEADS_MIN`. Prints a JSON
summary; a broken promise is an AssertionError and exit code 1. Workers are forked from a parent
that has everything imported and has opened nothing.
"""

import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter

os.environ["LEADS_LEASE_SECONDS"] = "0.4"

from examples.leads import app as leads
from examples.leads import schema
from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import OncewardError
from onceward.stores import Transaction
from onceward.system.logs import set_up
from onceward.testing.postgres import PostgresServer
from onceward.workers import Worker
from tests.support.forked_children import Nursery
from tests.support.waiting import until

WORKERS = 3
BUYERS = {
    niche: [f"{niche}-{number}" for number in range(3)]
    for niche in ("roofing", "solar", "plumbing", "gardens", "moving", "lawyers")
}
KILL_SECONDS = (0.2, 1.0)
HEAL_SECONDS_MAX = 180.0
#: How many more than were asked for may have to be killed until enough has happened.
KILLS_MORE_MAX = 10_000


def be(what: bytes) -> None:
    """Run as a worker, or as a client that submits leads."""
    if what == b"w":
        run_worker()
    else:
        produce()


def run_worker() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    set_up(as_json=False)
    worker = Worker(leads.app, threads=4)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()


def produce() -> None:
    """Submit leads as a form would: with a key, until it has an answer."""
    source = random.Random(os.getpid())
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    ow = open_handle()

    @ow.once(scope="leads.submit", key=lambda number, *_: f"submit#{number}")
    def submit(number: int, niche: str, tx: Transaction) -> None:
        contact = f"lead {number}"
        tx.execute("insert into leads (niche, contact) values (?, ?)", [niche, contact])

    number = 0
    while not stopping.is_set():
        number += 1
        niche = source.choice(sorted(BUYERS))
        while True:
            try:
                submit(number, niche)  # type: ignore[call-arg]  # `tx` is filled in
                break
            except OncewardError:
                time.sleep(0.05)
        stopping.wait(0.004)


class Chaos:
    """One run."""

    def __init__(
        self, engine: str, seconds: float, seed: int, kills_min: int, leads_min: int
    ) -> None:
        self.seconds = seconds
        self.kills_min, self.leads_min = kills_min, leads_min
        self.source = random.Random(seed)
        self.nursery = Nursery(be)
        self.server: PostgresServer | None = None
        self.place = tempfile.TemporaryDirectory()
        self.takeovers: list[float] = []
        self.watches: list[threading.Thread] = []
        self.kills = self.server_kills = 0
        if engine == "postgres":
            self.server = PostgresServer()
            self.server.start()

    def run(self) -> dict[str, object]:
        url = self.server.url if self.server else f"sqlite:///{self.place.name}/leads.db"
        os.environ["ONCEWARD_STORE"] = url
        self.nursery.close()
        self.nursery = Nursery(be)  # Forked again: now it knows the store.
        ow = open_handle(url)
        schema.create(ow, BUYERS)
        producer = self.nursery.start(b"p")
        workers = [self.nursery.start(b"w") for _ in range(WORKERS)]
        self.fire(ow, workers)
        os.kill(producer, signal.SIGTERM)
        self.heal(ow)
        summary = check(ow)
        for pid in workers:
            os.kill(pid, signal.SIGTERM)
        self.nursery.close()
        ow.close()
        if self.server:
            self.server.close()
        times = self.takeovers or [0.0]
        return {
            **summary,
            "kills": self.kills,
            "server_kills": self.server_kills,
            "takeovers": len(self.takeovers),
            "takeover_seconds": [round(each, 3) for each in self.takeovers],
            "takeover_median_seconds": round(statistics.median(times), 3),
            "takeover_max_seconds": round(max(times), 3),
        }

    def fire(self, ow: Onceward, workers: list[int]) -> None:
        """Kill a random worker every moment, and the database twice, until enough has happened."""
        began = time.monotonic()
        due = [self.seconds / 3, 2 * self.seconds / 3] if self.server else []
        while (passed := time.monotonic() - began) < self.seconds or due or not self.is_enough(ow):
            assert self.kills < self.kills_min + KILLS_MORE_MAX, (self.kills, self.takeovers)
            time.sleep(self.source.uniform(*KILL_SECONDS))
            if due and passed > due[0]:
                due.pop(0)
                assert self.server is not None
                self.server.kill()
                self.server.start()
                self.server_kills += 1
            number = self.source.randrange(WORKERS)
            os.kill(workers[number], signal.SIGKILL)
            self.kills += 1
            killed, workers[number] = workers[number], self.nursery.start(b"w")
            watch = threading.Thread(target=self.await_takeover, args=(ow, killed))
            watch.start()
            self.watches.append(watch)
        for watch in self.watches:
            watch.join()

    def is_enough(self, ow: Onceward) -> bool:
        """Return whether as much has happened as the caller asked for."""
        if self.kills < self.kills_min or not self.takeovers:
            return False
        try:
            ((leads_in,),) = ow.store.select("select count(*) from leads")
        except OncewardError:
            return False  # The database has just been killed.
        return bool(leads_in > self.leads_min)

    def await_takeover(self, ow: Onceward, killed: int) -> None:
        """Measure how long what the dead held stays theirs."""
        began = time.monotonic()
        owner = f"%/{killed}/%"
        held = "select cursor_name, lease_epoch from cursor_positions where lease_owner like ?"
        try:
            with ow.transaction() as tx:
                mine = [tuple(row) for row in tx.execute(held, [owner]) if row[0][0] != "~"]
            if not mine:
                return

            def is_taken_over() -> bool:
                with ow.transaction() as tx:
                    now = [tuple(row) for row in tx.execute(held, [owner])]
                return not any(each in now for each in mine)

            until(is_taken_over, "no worker took over")
            self.takeovers.append(time.monotonic() - began)
        except OncewardError:
            return  # The database is being killed.

    def heal(self, ow: Onceward) -> None:
        """Wait until everything that was submitted is assigned."""
        deadline = time.monotonic() + HEAL_SECONDS_MAX
        while time.monotonic() < deadline:
            time.sleep(0.1)
            with ow.transaction() as tx:
                (leads_in,) = tx.execute("select count(*) from leads")[0]
                (assigned,) = tx.execute("select count(distinct lead_id) from assignments")[0]
            if leads_in == assigned:
                return
        raise AssertionError((leads_in, assigned))


def check(ow: Onceward) -> dict[str, int]:
    """Every lead is assigned and billed once, to the same buyer, in the order of its niche."""
    with ow.transaction() as tx:
        arrived = [row[0] for row in tx.execute("select id from leads")]
        contacts = [row[0] for row in tx.execute("select contact from leads")]
        assigned = tx.execute("select lead_id, niche, buyer from assignments order by id")
        charged = tx.execute("select lead_id, buyer from charges")
        times, billed = Counter(row[0] for row in assigned), Counter(row[0] for row in charged)
        order = {
            row[0]: number
            for number, row in enumerate(
                tx.execute(f"select lead_id from offers order by {schema.PLACE[ow.store.engine]}")
            )
        }
    assert len(contacts) == len(set(contacts)), "a form was taken twice"
    lost = [lead for lead in arrived if not (times[lead] and billed[lead])]
    doubled = [lead for lead in arrived if times[lead] > 1 or billed[lead] > 1]
    assert not lost, lost
    assert not doubled, doubled
    assert set(times) == set(billed) == set(arrived)
    assert {(row[0], row[2]) for row in assigned} == {tuple(row) for row in charged}
    for niche in BUYERS:
        places = [order[row[0]] for row in assigned if row[1] == niche]
        assert places == sorted(places), niche
    assert not ow.dead.list()
    return {"leads": len(arrived), "lost": len(lost), "doubled": len(doubled)}


def main(engine: str, seconds: float, seed: int, *least: int) -> None:
    json.dump(Chaos(engine, seconds, seed, *least).run(), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), *map(int, sys.argv[3:6]))
