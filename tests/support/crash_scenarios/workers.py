"""Workers under kill -9: real processes with threads, and where every message is afterwards."""

from collections import Counter
from collections.abc import Sequence

import orjson

from onceward.client import open as open_handle
from onceward.retries import FixedDelays
from onceward.stores import Transaction
from onceward.workers import App, Item, Message, Worker
from tests.support.killed_processes import Ack, Life, Place, Scenario

LEASE_SECONDS = 0.2
SCHEDULE = FixedDelays(seconds=(0.0, 0.01))


class Numbers:
    """Messages 1, 2, 3 and so on, without end."""

    def read(self, after: str | None, limit: int) -> list[Item]:
        first = int(after or 0) + 1
        return [
            Item(position=str(number), raw=orjson.dumps({"n": number, "k": f"k{number % 3}"}))
            for number in range(first, first + min(limit, 5))
        ]


class Working(Scenario):
    """Every message up to a cursor had its effect once, waits, or is a dead letter."""

    passes_max = 12

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        #: What handlers did elsewhere, where nothing can be undone.
        self.elsewhere = self.directory / "elsewhere"
        self.elsewhere.touch()
        with open_handle(self.url) as ow, ow.transaction() as tx:
            tx.execute("create table if not exists effects (cursor_name text, n bigint)")
            tx.execute("create unique index one_effect on effects (cursor_name, n)")

    def app(self, ack: Ack) -> App:
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
            ack(str(message.data["n"]))

        return app

    def work(self, life: int, ack: Ack) -> None:  # noqa: ARG002 - the shape
        Worker(self.app(ack), threads=3).run()

    def check(self, lives: Sequence[Life]) -> None:
        with open_handle(self.url) as ow:
            for name in ("by_cursor", "by_key", "alone"):
                self.check_cursor(ow, name)
            found = ow.cursors.list("elsewhere")
            reached = int(found[0].position or 0) if found else 0
            dead = {int(each.position) for each in ow.dead.list(cursor="elsewhere", limit=10_000)}
        did = Counter(int(line) for line in self.elsewhere.read_text().split())
        assert set(range(1, reached + 1)) - dead <= set(did)
        # Each life but the first can repeat the one message that was under way.
        self.repeated = did.total() - len(did)
        assert self.repeated < len(lives)
        assert {int(ack) for life in lives for ack in life.acks} <= set(did)

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


SCENARIOS: dict[str, type[Scenario]] = {"worker.": Working}
#: Points of others that a worker passes at every message.
ALSO = ("transaction.before_commit", "transaction.after_commit", "retries.park.after_insert")
