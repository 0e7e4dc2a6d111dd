"""Kill one worker process after another at one crash point, real worker threads and all.

Run as `python -m tests.system.worker_matrix POINT TIMES SEED URL`. Forks from a parent that has
everything imported. Prints a JSON summary; a broken promise is an AssertionError and exit code 1.
"""

import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import orjson

from onceward.handle import open as open_handle
from onceward.retries import Steps
from onceward.stores import Transaction
from onceward.workers import App, Item, Message, Worker
from tests.system.lives import Ack, live_and_die

#: How many passes of the point a child may make before it dies.
PASSES_MAX = 12
LEASE_SECONDS = 0.2
SCHEDULE = Steps(seconds=(0.0, 0.01))


class Numbers:
    """Messages 1, 2, 3 and so on, without end."""

    def read(self, after: str | None, limit: int) -> list[Item]:
        first = int(after or 0) + 1
        return [
            Item(position=str(number), raw=orjson.dumps({"n": number, "k": f"k{number % 3}"}))
            for number in range(first, first + min(limit, 5))
        ]


class Working:
    """Every message up to a cursor had its effect once, waits, or is a dead letter."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.positions: Counter[str] = Counter()
        #: What handlers did elsewhere, where nothing can be undone.
        self.elsewhere = Path(tempfile.mkdtemp()) / "elsewhere"
        self.elsewhere.touch()
        self.kills = 0
        with open_handle(url) as ow, ow.transaction() as tx:
            tx.execute("create table if not exists effects (cursor_name text, n bigint)")
            tx.execute("create unique index one_effect on effects (cursor_name, n)")

    def app(self) -> App:
        app = App(self.url)
        common = {"source": Numbers(), "lease_seconds": LEASE_SECONDS, "retry": SCHEDULE}
        app.consumer("by_cursor", **common)(effect)  # type: ignore[arg-type]
        app.consumer("by_key", order="key", key=lambda data: data["k"], **common)(effect)  # type: ignore[arg-type]
        app.consumer("alone", order="none", batch=4, **common)(effects)  # type: ignore[arg-type]

        @app.consumer("elsewhere", **common)  # type: ignore[arg-type]
        def elsewhere(message: Message) -> None:
            if fails(message):
                raise ValueError(message.data["n"])
            with self.elsewhere.open("ab", buffering=0) as file:
                file.write(b"%d\n" % message.data["n"])

        return app

    def work(self, life: int, ack: Ack) -> None:
        ack(str(life))
        Worker(self.app(), threads=3).run()

    def check(self) -> None:
        self.kills += 1
        with open_handle(self.url) as ow:
            for name in ("by_cursor", "by_key", "alone"):
                self.check_cursor(ow, name)
            found = ow.cursors.list("elsewhere")
            reached = int(found[0].position or 0) if found else 0
            dead = {int(each.position) for each in ow.dead.list(cursor="elsewhere", limit=10_000)}
        did = Counter(int(line) for line in self.elsewhere.read_text().split())
        assert set(range(1, reached + 1)) - dead <= set(did)
        # Each kill can repeat the one message that was under way.
        assert did.total() - len(did) <= self.kills

    def check_cursor(self, ow: object, name: str) -> None:
        with ow.transaction() as tx:  # type: ignore[attr-defined]
            rows = tx.execute(
                "select last_position from cursor_positions where cursor_name = ?", [name]
            )
            reached = int(rows[0][0] or 0) if rows else 0
            done = {
                row[0] for row in tx.execute("select n from effects where cursor_name = ?", [name])
            }
            parked = {int(row[0]) for row in tx.query("parked_list", cursor=name)}
            letters = {
                int(row[0])
                for row in tx.execute(
                    "select position from onceward_dead where cursor_name = ?", [name]
                )
            }
        assert reached >= self.positions[name], "a cursor went back"
        self.positions[name] = reached
        everything = done | parked | letters
        assert everything == set(range(1, reached + 1)), (name, reached)
        assert len(done) + len(parked) + len(letters) == reached, (name, reached)


def fails(message: Message) -> bool:
    """Say whether this attempt fails: some messages once, some for good."""
    number = message.data["n"]
    return number % 7 == 0 or (number % 5 == 0 and message.attempt == 1)


def effect(message: Message, tx: Transaction) -> None:
    # No "on conflict": a second effect would be an error.
    row = [message.cursor, message.data["n"]]
    tx.execute("insert into effects values (?, ?)", row)
    if fails(message):
        raise ValueError(message.data["n"])


def effects(messages: list[Message], tx: Transaction) -> None:
    for message in messages:
        effect(message, tx)


SCENARIOS = {"worker.": Working}


def main(point: str, times: int, seed: int, url: str) -> None:
    source = random.Random(seed)
    scenario = Working(url)
    scenario.app()
    for life in range(times):
        live_and_die(scenario.work, f"{point}:{source.randint(1, PASSES_MAX)}", life)
        scenario.check()
    shutil.rmtree(scenario.elsewhere.parent)
    json.dump({"kills": scenario.kills, "processed": scenario.positions.total()}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
