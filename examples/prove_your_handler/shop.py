"""A shop whose orders are lines of a file. It charges each of them once, or so it hopes."""

from pathlib import Path

from bank import Bank

import onceward
from onceward.stores import Transaction
from onceward.workers import Message


def shop(place: Path) -> onceward.App:
    """Return the app; its store is `$ONCEWARD_STORE`."""
    app = onceward.App()
    bank = Bank(place / "bank.txt")
    orders = onceward.sources.JournalSource(place / "orders.jsonl")

    @app.consumer("orders_v1", source=orders)
    def charge(order: Message, tx: Transaction) -> None:
        bank.charge(order["id"], order["cents"])
        tx.execute("insert into charges values (?, ?)", [order["id"], order["cents"]])

    return app
