"""Time every operation of Onceward on a store, one at a time."""

from collections.abc import Callable
from functools import partial

from bench import messages
from bench.once import functions
from bench.talk import GROUPS, Talk, message, with_groups
from bench.timing import Numbered, Round, Run, timed
from bench.workers import worked
from onceward.client import Onceward
from onceward.dispatch.inbox import Inbox
from onceward.memory import Memory
from onceward.retries import Failure, RetryMessage
from onceward.stores import Transaction

BATCH = 500
OWN = "a transaction of your own, one insert"
NEW = "`@once`, a new key"
RENEW = "a heartbeat: renew a lease"
ONE_BY_ONE = "a message through a worker, one by one"
#: What each is made of, besides Python: commits are what costs.
MADE_OF = {
    OWN: "1 commit",
    NEW: "2 commits: claim and finish",
    "`@once` with `tx`, a new key and one insert": "1 commit",
    "`@once`, a replay": "1 read",
    "acquire a lease and release it": "1 read, 2 commits",
    RENEW: "1 commit",
    "a checkpoint with one insert": "1 commit",
    ONE_BY_ONE: "1 commit; a page is read for many",
    f"a message in a batch of {BATCH}": f"a {BATCH}th of a commit, and a worker's start",
    "park a message that failed": "1 commit",
    "bury a dead letter": "1 commit",
    "receive a chat message": "1 commit",
    "a chat message and its answer": "5 commits",
    "add an entity to the memory": "1 commit",
    "open an entity": "reads",
    "search the memory for a word": "reads",
}
FAILURE = Failure(type="ValueError", message="no such niche", trace="x" * 500)


def rounds(run: Run, ow: Onceward) -> dict[str, Round]:
    """Return rounds of every operation on one store."""
    calls = run.size(200, quick=10)
    messages.tables(ow, run.size(2_000, quick=100), 8)
    found: list[Round] = [
        *_once(ow, calls),
        *_leases(ow, calls),
        partial(worked, ow),
        partial(worked, ow, batch=BATCH),
        *_failures(ow, calls),
        *_chat(ow, calls),
        *_memory(ow, calls),
    ]
    return dict(zip(MADE_OF, found, strict=True))


def _once(ow: Onceward, calls: int) -> list[Round]:
    plain, with_tx = functions(ow)
    Numbered(plain, calls, first=10**9)()

    def own(number: int) -> None:
        with ow.transaction() as tx:
            tx.execute("insert into bench_effects values (?)", [number])

    def replay() -> None:
        for number in range(calls):
            plain(10**9 + number)

    return [
        Numbered(own, calls),
        Numbered(plain, calls),
        Numbered(with_tx, calls),
        timed(replay, calls),
    ]


def _leases(ow: Onceward, calls: int) -> list[Round]:
    held = ow.cursors.acquire("held", "w1")
    assert held is not None

    def come_and_go(number: int) -> None:
        lease = ow.cursors.acquire(f"cursor{number % 10}", "w1")
        assert lease is not None
        lease.release()

    def move(number: int) -> None:
        with ow.transaction() as tx:
            tx.execute("insert into bench_effects values (?)", [number])
            held.checkpoint(str(number), tx)

    return [
        Numbered(come_and_go, calls),
        Numbered(lambda _: held.renew(), calls),
        Numbered(move, calls),
    ]


def _failures(ow: Onceward, calls: int) -> list[Round]:
    def kept(number: int) -> RetryMessage:
        return RetryMessage(
            cursor="failing", position=str(number), raw=b"{}", key=str(number % 100)
        )

    def each(work: Callable[[Transaction, RetryMessage], object]) -> Callable[[int], None]:
        def call(number: int) -> None:
            with ow.transaction() as tx:
                work(tx, kept(number))

        return call

    park = each(lambda tx, message: ow.retries.parked.park(tx, message, failure=FAILURE))
    bury = each(lambda tx, message: ow.dead.add(tx, message, FAILURE))
    return [Numbered(park, calls), Numbered(bury, calls, first=10**9)]


def _chat(ow: Onceward, calls: int) -> list[Round]:
    with_groups(ow, 2 * GROUPS)
    arrivals, talk = Inbox(ow.store), Talk(ow)

    def receive(number: int) -> None:
        # Not the groups that talk: a delivery would take what waits there.
        arrivals.receive(message(f"g{GROUPS + 1 + number % GROUPS}", 10**9 + number))

    return [Numbered(receive, calls), timed(partial(talk, calls // 2), calls // 2)]


def _memory(ow: Onceward, calls: int) -> list[Round]:
    memory = Memory(ow)

    def add(number: int) -> None:
        made = {"name": f"e{number}", "entityType": "thing", "observations": [f"word{number}"]}
        memory.create_entities([made])

    for number in range(calls):
        add(number)

    return [
        Numbered(add, calls, first=calls),
        timed(lambda: [memory.open_nodes([f"e{n}"]) for n in range(calls)], calls),
        timed(lambda: [memory.search_nodes(f"word{n}") for n in range(calls)], calls),
    ]
