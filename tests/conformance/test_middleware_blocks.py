"""Several blocks of one handler: each is done or undone, and what is done is one commit."""

import asyncio
import threading
from contextlib import suppress
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Request

from onceward.client import Onceward
from onceward.errors import OncewardError, SqlFailed
from onceward.outcomes import IdempotencyMiddleware, OutcomeState
from onceward.outcomes.http_request import AsgiScope
from onceward.stores import Transaction
from tests.conformance.test_middleware_transactions import transaction
from tests.support.middleware_calls import Answer, Shop, ask, call

INSERT = "insert into effects values (?)"


@pytest.fixture
def shop(ow: Onceward) -> Shop:
    return Shop(ow)


def notes(shop: Shop) -> list[str]:
    with shop.ow.transaction() as tx:
        return [row[0] for row in tx.execute("select note from effects order by note")]


async def block(scope: AsgiScope, note: str, *, fails: bool = False) -> None:
    """Leave a note in a block of its own; a failure is swallowed, as by a careless handler."""
    with suppress(ZeroDivisionError):
        async with scope["onceward"].transaction() as tx:
            tx.execute(INSERT, [note])
            await asyncio.sleep(0)
            if fails:
                raise ZeroDivisionError


def block_in_thread(scope: AsgiScope, note: str, *, fails: bool = False) -> None:
    with suppress(ZeroDivisionError), scope["onceward"].transaction() as tx:
        tx.execute(INSERT, [note])
        if fails:
            raise ZeroDivisionError


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize(
    ("failing", "kept"),
    [
        ((), ["a", "b", "c"]),
        (("a",), ["b", "c"]),
        (("b",), ["a", "c"]),
        (("c",), ["a", "b"]),
        (("b", "c"), ["a"]),
        (("a", "b"), ["c"]),
        (("a", "b", "c"), []),
    ],
)
def test_a_block_that_fails_is_undone_alone(
    shop: Shop, failing: tuple[str, ...], kept: list[str], *, in_thread: bool
) -> None:
    """What the others did is committed with the answer, and not before it."""

    async def handler(scope: AsgiScope, _body: bytes) -> Answer:
        for note in "abc":
            if in_thread:
                await asyncio.to_thread(block_in_thread, scope, note, fails=note in failing)
            else:
                await block(scope, note, fails=note in failing)
            assert await asyncio.to_thread(notes, shop) == []
        return 200, [], b"ordered"

    app = shop.once(handler)
    first, again = call(app), call(app)
    assert first.status_code == again.status_code == 200
    assert again.headers["idempotent-replayed"] == "true"
    assert notes(shop) == kept


@pytest.mark.parametrize("ending", [503, ZeroDivisionError])
def test_a_request_that_fails_undoes_all_its_blocks(shop: Shop, ending: Any) -> None:
    """Blocks that were left in peace are undone too: nothing has happened, and a repeat runs."""

    async def handler(scope: AsgiScope, _body: bytes) -> Answer:
        await block(scope, "a")
        await block(scope, "b", fails=True)
        await block(scope, "c")
        if isinstance(ending, int):
            return ending, [], b""
        raise ending

    try:
        call(shop.once(handler))
    except ZeroDivisionError:
        assert ending is ZeroDivisionError
    assert notes(shop) == []
    assert shop.ow.outcomes.list()[0].state is OutcomeState.FREE


def test_a_block_inside_another_is_part_of_it(shop: Shop) -> None:
    """The outer one decides, as it does for `ow.transaction()`, in whatever context it began."""
    app = FastAPI()
    app.add_middleware(IdempotencyMiddleware, store=shop.ow)

    @app.post("/orders")
    def order(
        request: Request, tx: Annotated[Transaction, Depends(transaction)], fail: bool
    ) -> None:
        tx.execute(INSERT, ["outer"])
        block_in_thread(request.scope, "inner", fails=True)
        if fail:
            raise ZeroDivisionError

    assert call(app, "/orders?fail=0", key="kept").status_code == 200
    assert notes(shop) == ["inner", "outer"]
    with pytest.raises(ZeroDivisionError):
        call(app, "/orders?fail=1", key="undone")
    assert notes(shop) == ["inner", "outer"]


def test_a_block_inside_a_transaction_of_the_handlers_own_is_undone(shop: Shop) -> None:
    """They are two transactions; the block is the outermost of its own."""

    async def handler(scope: AsgiScope, _body: bytes) -> Answer:
        with shop.ow.transaction() as own:
            own.execute("select 1")
            await block(scope, "a", fails=True)
        return 200, [], b""

    assert call(shop.once(handler)).status_code == 200
    assert notes(shop) == []


@pytest.mark.parametrize(
    ("order", "failing", "status", "kept"),
    [
        ("ab", "a", 503, []),
        ("ab", "b", 503, []),
        ("ba", "a", 200, []),
        ("ba", "b", 200, ["a", "b"]),
    ],
)
def test_concurrent_blocks_commit_or_roll_back_together(
    shop: Shop, order: str, failing: str, status: int, kept: list[str]
) -> None:
    """A begins, then b, in two tasks: unless b is inside a, it is unknown what to undo."""

    async def handler(scope: AsgiScope, _body: bytes) -> Answer:
        async def leave_note(note: str) -> None:
            async with scope["onceward"].transaction() as tx:
                tx.execute(INSERT, [note])
                entered.set()
                await leaving[note].wait()
                if note == failing:
                    raise ZeroDivisionError

        leaving = {note: asyncio.Event() for note in order}
        tasks: dict[str, asyncio.Task[None]] = {}
        for note in "ab":
            entered = asyncio.Event()
            tasks[note] = asyncio.create_task(leave_note(note))
            await entered.wait()
        for note in order:
            leaving[note].set()
            await asyncio.gather(tasks[note], return_exceptions=True)
        return 200, [], b""

    assert call(shop.once(handler)).status_code == status
    assert notes(shop) == kept
    state = OutcomeState.DONE if status == 200 else OutcomeState.FREE
    assert shop.ow.outcomes.list()[0].state is state


def test_a_statement_that_fails_is_undone_with_its_block(shop: Shop) -> None:
    """The database refuses one statement, the handler lives with it: the other block stays."""

    async def handler(scope: AsgiScope, _body: bytes) -> Answer:
        await block(scope, "a")
        with pytest.raises(SqlFailed):
            async with scope["onceward"].transaction() as tx:
                tx.execute(INSERT, ["b"])
                tx.execute("insert into nowhere values (1)")
        return 200, [], b""

    assert call(shop.once(handler)).status_code == 200
    assert notes(shop) == ["a"]


@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_when_the_database_undid_everything_nothing_is_recorded(shop: Shop) -> None:
    """A block that cannot be undone alone takes the others and the answer with it."""

    async def handler(scope: AsgiScope, _body: bytes) -> Answer:
        await block(scope, "a")
        with pytest.raises(OncewardError):
            async with scope["onceward"].transaction() as tx:
                tx.execute("create table once (id integer primary key)")
                tx.execute("insert into once values (1)")
                tx.execute("insert or rollback into once values (1)")
        return 200, [], b""

    assert call(shop.once(handler)).status_code == 503
    assert notes(shop) == []
    assert shop.ow.outcomes.list()[0].state is OutcomeState.FREE


@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_a_failed_block_in_an_abandoned_thread_rolls_back_the_others(shop: Shop) -> None:
    """It cannot be undone alone while a statement of its runs, so nothing of the request stays."""
    endless = (
        "with recursive n(x) as (select 1 union all select x + 1 from n) select count(x) from n"
    )

    async def handler(scope: AsgiScope, _body: bytes) -> Answer:
        begun = threading.Event()

        def work(tx: Transaction) -> None:
            tx.execute(INSERT, ["b"])
            begun.set()
            tx.execute(endless)

        await block(scope, "a")
        with suppress(ZeroDivisionError):
            async with scope["onceward"].transaction() as tx:
                unawaited = asyncio.get_running_loop().run_in_executor(None, work, tx)
                await asyncio.to_thread(wait_until_busy, tx, begun)
                raise ZeroDivisionError
        while not unawaited.done():  # An interrupt ends what runs now, not what begins next.
            tx._connection.interrupt()
            await asyncio.sleep(0.01)
        await asyncio.gather(unawaited, return_exceptions=True)
        return 200, [], b""

    answer = call(shop.once(handler))
    assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
    assert notes(shop) == []
    assert shop.ow.outcomes.list()[0].state is OutcomeState.FREE


def wait_until_busy(tx: Transaction, begun: threading.Event) -> None:
    """Return when another thread is inside a statement that does not end."""
    begun.wait()
    connection: Any = getattr(tx, "_connection")  # noqa: B009 - of a protocol that has none
    looks = 0
    while looks < 50:
        looks = looks + 1 if connection.busy.locked() else 0
        threading.Event().wait(0.001)


def test_what_a_block_kept_for_the_end_goes_with_it(shop: Shop) -> None:
    """A checkpoint of a block that failed does not move the cursor; one of another block does."""
    lease = shop.ow.cursors.acquire("c", "w1")
    other = shop.ow.cursors.acquire("d", "w1")
    assert lease is not None
    assert other is not None

    async def handler(scope: AsgiScope, _body: bytes) -> Answer:
        async with scope["onceward"].transaction() as tx:
            lease.checkpoint("1", tx=tx)
        with pytest.raises(ZeroDivisionError):
            async with scope["onceward"].transaction() as tx:
                other.checkpoint("1", tx=tx)
                raise ZeroDivisionError
        return 200, [], b""

    assert call(shop.once(handler)).status_code == 200
    assert (lease.position, other.position) == ("1", None)
    assert shop.ow.cursors.show("c").position == "1"
    assert shop.ow.cursors.show("d").position is None


def test_a_block_that_fails_after_the_answer_touches_nothing(shop: Shop) -> None:
    """The transaction has ended by then, and its connection may be in use elsewhere."""

    async def app(scope: AsgiScope, receive: Any, send: Any) -> None:
        await receive()
        await block(scope, "a")
        async with scope["onceward"].transaction() as tx:
            tx.execute(INSERT, ["b"])
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"done"})
            raise ZeroDivisionError

    once = IdempotencyMiddleware(app, store=shop.ow)

    async def scenario() -> None:
        with pytest.raises(ZeroDivisionError):
            await ask(once)
        assert (await ask(once)).content == b"done"

    asyncio.run(scenario())
    assert notes(shop) == ["a", "b"]
