"""The same shop, which asks the bank under a key, and looks before it asks again."""

from pathlib import Path

from bank import Bank

import onceward
from onceward.outcomes import Done, NotDone
from onceward.stores import Transaction
from onceward.workers import Message


def shop(place: Path) -> onceward.App:
    """Return the app; its store is `$ONCEWARD_STORE`."""
    app = onceward.App()
    bank = Bank(place / "bank.txt")
    orders = onceward.sources.JournalSource(place / "orders.jsonl")

    def look(order: int, _cents: int) -> Done | NotDone:
        return Done(None) if order in bank.charged() else NotDone()

    @app.once(scope="shop.pay", key=lambda order, _: f"order#{order}", reconcile=look)
    def pay(order: int, cents: int) -> None:
        bank.charge(order, cents)

    @app.consumer("orders_v1", source=orders)
    def charge(order: Message, tx: Transaction) -> None:
        pay(order["id"], order["cents"])
        tx.execute("insert into charges values (?, ?)", [order["id"], order["cents"]])

    return app
