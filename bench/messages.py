"""Make tables full of messages, and an app whose handlers insert one row for each."""

from onceward.client import Onceward
from onceward.stores import Transaction
from onceward.workers import App, Message
from onceward.workers.sources import TablePartitions, TableSource

POSTGRES = (
    """create table source (id bigint generated always as identity primary key, key text,
    payload text, onceward_xid xid8 not null default pg_current_xact_id())""",
    "create index source_in_order on source (onceward_xid, id)",
    "create index source_by_key on source (key, onceward_xid, id)",
)
SQLITE = (
    "create table source (id integer primary key autoincrement, key text, payload text)",
    "create index source_by_key on source (key, id)",
)
#: The numbers from 1 to so many, on either engine.
COUNTING = "with recursive n(i) as (select 1 union all select i + 1 from n where i < {})"


def tables(ow: Onceward, messages: int, keys: int) -> None:
    """Make a source of so many messages with so many keys, and a place for effects."""
    with ow.transaction() as tx:
        for sql in POSTGRES if ow.store.engine == "postgres" else SQLITE:
            tx.execute(sql)
        tx.execute("create table effects (id bigint, payload text)")
        tx.execute(
            f"insert into source (key, payload) {COUNTING.format(messages)}"
            f" select cast(i % {keys} as text), '{'x' * 20}' from n"
        )
    with ow.transaction() as tx:
        tx.execute("analyze source")


def one(message: Message, tx: Transaction) -> None:
    tx.execute("insert into effects values (?, ?)", [message["id"], message["payload"]])


def many(messages: list[Message], tx: Transaction) -> None:
    rows = [[message["id"], message["payload"]] for message in messages]
    tx.execute_many("insert into effects values (?, ?)", rows)


def app(ow: Onceward, name: str, *, batch: int | None = None, has_parts: bool = False) -> App:
    """Return an app that reads all messages under a new name: in one line, or one for each key."""
    made = App(ow)
    handler = many if batch else one
    if has_parts:
        parts = TablePartitions(ow, "source", by="key")
        made.consumer(f"{name}_{{key}}", source=parts, batch=batch)(handler)
    else:
        made.consumer(name, source=TableSource(ow, "source"), batch=batch)(handler)
    return made
