"""Leads: the demo's app, a small lead platform for `onceward worker onceward.demo.leads:app`.

Leads arrive, are assigned to a niche, and are sold there in order, each to the buyer who was served
least. The tables have no unique constraints, so that a duplicate effect shows as a second row and
is counted.
"""

from __future__ import annotations

import os
from typing import Any, Final

from onceward.client import Onceward
from onceward.retries import FixedDelays
from onceward.stores import Transaction
from onceward.system import Clock, SystemClock, timestamp
from onceward.workers import App, Message, Reject
from onceward.workers.sources import Table

NICHES: Final = ("roofing", "solar", "plumbing", "gardens")
BUYERS: Final = {niche: tuple(f"{niche} {name}" for name in ("Ada", "Ben")) for niche in NICHES}
CENTS: Final = 2500
#: Short leases for quick takeovers; in production a minute is a better choice.
LEASE_SECONDS: Final = 2.0
#: How long selling takes: most kills hit a worker in the middle of it.
SELLING_SECONDS: Final = 0.2
#: Environment variable for slower sales, so that few leads keep workers busy.
SELLING_VARIABLE: Final = "ONCEWARD_DEMO_SELLING_SECONDS"
#: Every how many sales one fails at its first attempt.
BUSY_EVERY: Final = 23
SOON: Final = FixedDelays(seconds=(0.5, 1.0, 2.0))

_ID: Final = {
    "sqlite": "id integer primary key autoincrement",
    "postgres": "id bigint generated always as identity primary key",
}
#: Transaction id column, from which a reader on PostgreSQL sees which rows are final.
_XID: Final = {
    "sqlite": "",
    "postgres": ", onceward_xid xid8 not null default pg_current_xact_id()",
}
_PLACE: Final = {"sqlite": "id", "postgres": "onceward_xid, id"}
_BEST: Final = "select buyer, cents from demo_buyers where niche = ? order by served, buyer limit 1"
_SERVED: Final = "update demo_buyers set served = served + 1 where niche = ? and buyer = ?"
_SUBMIT: Final = "insert into demo_leads (niche, contact, created_at) values (?, ?, ?)"


class BuyerBusy(Exception):
    """The buyer's system did not respond; a retry will succeed."""


def lead_app(store: Onceward | str | None = None, *, clock: Clock | None = None) -> App:
    """Return the app for a store; without one, for the store in the environment."""
    app = App(store)
    at = clock or SystemClock()
    selling_seconds = float(os.environ.get(SELLING_VARIABLE, SELLING_SECONDS))

    @app.once(scope="demo.offer", key=lambda lead_id, *_: f"offer#{lead_id}")
    def offer(lead_id: int, niche: str, created_at: str, tx: Transaction) -> None:
        row = [lead_id, niche, created_at]
        tx.execute("insert into demo_offers (lead_id, niche, created_at) values (?, ?, ?)", row)

    @app.once(scope="demo.assign", key=lambda lead_id, *_: f"assign#{lead_id}")
    def assign(lead_id: int, niche: str, tx: Transaction) -> dict[str, Any]:
        ((buyer, cents),) = tx.execute(_BEST, [niche])
        tx.execute(_SERVED, [niche, buyer])
        row = [lead_id, niche, buyer]
        tx.execute("insert into demo_assignments (lead_id, niche, buyer) values (?, ?, ?)", row)
        return {"buyer": buyer, "cents": cents}

    @app.once(scope="demo.bill", key=lambda lead_id, *_: f"bill#{lead_id}")
    def bill(lead_id: int, buyer: str, cents: int, tx: Transaction) -> None:
        row = [lead_id, buyer, cents]
        tx.execute("insert into demo_charges (lead_id, buyer, cents) values (?, ?, ?)", row)

    leads = Table("demo_leads", time_column="created_at")
    options: dict[str, Any] = {"lease_seconds": LEASE_SECONDS, "poll_seconds": 0.3, "retry": SOON}

    @app.consumer("demo_intake", source=leads, order="none", **options)
    def take_in(lead: Message, tx: Transaction) -> None:  # noqa: ARG001 - `offer` joins it
        """Check a lead, and offer it in its niche."""
        if not lead["contact"]:
            message = "no person to call: the contact is empty"
            raise Reject(message)  # A permanent error: no retry would help.
        offer(lead["id"], lead["niche"], lead["created_at"])

    def sell(offered: Message, tx: Transaction) -> None:  # noqa: ARG001 - both join it
        """Assign a lead and bill its buyer: one commit, in the order of the niche."""
        lead_id = offered["lead_id"]
        at.sleep(selling_seconds)
        if lead_id % BUSY_EVERY == 0 and offered.attempt == 1:
            message = f"the buyer in {offered['niche']} did not answer in time"
            raise BuyerBusy(message)
        assigned = assign(lead_id, offered["niche"])
        bill(lead_id, assigned["buyer"], assigned["cents"])

    # One cursor per consumer and no partitions, so that a worker keeps its lease until it dies.
    for niche in NICHES:
        offers = Table("demo_offers", where={"niche": niche}, time_column="created_at")
        app.consumer(f"demo_{niche}", source=offers, **options)(sell)
    return app


def create(ow: Onceward) -> None:
    """Create the tables, and the buyers of every niche."""
    engine = ow.store.engine
    key, xid, place = _ID[engine], _XID[engine], _PLACE[engine]
    detail = "niche text not null, created_at text not null"
    with ow.transaction() as tx:
        for statement in (
            f"create table demo_leads ({key}, contact text not null, {detail}{xid})",
            f"create table demo_offers ({key}, lead_id bigint not null, {detail}{xid})",
            f"create table demo_assignments ({key}, lead_id bigint, niche text, buyer text)",
            f"create table demo_charges ({key}, lead_id bigint, buyer text, cents bigint)",
            "create table demo_buyers (niche text, buyer text, served bigint, cents bigint)",
            f"create table demo_heard ({key}, entry text)",
            f"create index demo_offers_by_niche on demo_offers (niche, {place})",
        ):
            tx.execute(statement)
        if engine == "postgres":
            tx.execute(f"create index demo_leads_in_order on demo_leads ({place})")
            tx.execute(f"create index demo_offers_in_order on demo_offers ({place})")
        rows = [[niche, name, 0, CENTS] for niche, names in BUYERS.items() for name in names]
        tx.execute_many("insert into demo_buyers values (?, ?, ?, ?)", rows)


def submit(ow: Onceward, niche: str, contact: str, *, clock: Clock) -> None:
    """Add one lead, as a web form would; a lead without a contact becomes a dead letter."""
    with ow.transaction() as tx:
        tx.execute(_SUBMIT, [niche, contact, timestamp(clock.now())])


#: The store is `$ONCEWARD_STORE`.
app = lead_app()
