"""Shop: an app whose workers the console's stories start, freeze and kill.

Its store is the environment's, and its handlers do nothing but take their time.
"""

from __future__ import annotations

import os
import time
from typing import Final

from onceward.client import Onceward
from onceward.workers import App, Message
from onceward.workers.sources import Table

#: Which table each cursor reads; a name may hold a slash, and a space.
TABLES: Final = {
    "lead_intake": "leads",
    "billing/invoices": "invoices",
    "emails": "emails",
    "reports v2": "reports",
}
#: How long a dead worker keeps what it held.
LEASE_SECONDS: Final = float(os.environ.get("SHOP_LEASE_SECONDS", "60"))
#: How long one message takes.
WORK_SECONDS: Final = float(os.environ.get("SHOP_WORK_SECONDS", "0"))

app = App()


def handle(message: Message) -> None:
    """Take some time."""
    del message
    time.sleep(WORK_SECONDS)


for _cursor, _table in TABLES.items():
    app.consumer(
        _cursor,
        source=Table(_table, time_column="created_at"),
        lease_seconds=LEASE_SECONDS,
        poll_seconds=0.2,
    )(handle)


def create(ow: Onceward) -> None:
    """Make the tables."""
    with ow.transaction() as tx:
        for table in TABLES.values():
            tx.execute(
                f"create table {table} (id integer primary key autoincrement,"
                " created_at text not null, text text not null)"
            )


def add(ow: Onceward, table: str, *texts: str, at: str) -> None:
    """Let messages come in."""
    with ow.transaction() as tx:
        for text in texts:
            row = [at, text]
            tx.execute(f"insert into {table} (created_at, text) values (?, ?)", row)
