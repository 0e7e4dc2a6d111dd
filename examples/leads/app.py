"""The lead platform: intake, distribution by niche, assignment and billing.

Run it with `onceward worker leads.app:app --processes 3`. Leads come into the table `leads`, from a
form or another program. Every domain operation has an idempotency key, so that a worker, an HTTP
handler and a person with a script can all ask for it, and it happens once.
"""

import os
from typing import Any

from onceward.stores import Transaction
from onceward.workers import App, Message, Reject
from onceward.workers.sources import Table

#: The store is `$ONCEWARD_STORE`.
app = App()
#: Niches in which buyers compete hard: one lead at a time, so that prices settle.
COMPETITIVE = frozenset({"roofing", "solar"})
#: How long a dead worker keeps what it held. A minute is a good choice; the test is in a hurry.
LEASE_SECONDS = float(os.environ.get("LEADS_LEASE_SECONDS", "60"))


@app.once(scope="leads.offer", key=lambda lead_id, *_: f"offer#{lead_id}")
def offer(lead_id: int, niche: str, tx: Transaction) -> None:
    """Let a lead be distributed."""
    tx.execute("insert into offers (lead_id, niche) values (?, ?)", [lead_id, niche])


@app.once(scope="leads.assign", key=lambda lead_id, *_: f"assign#{lead_id}")
def assign(lead_id: int, niche: str, tx: Transaction) -> dict[str, Any]:
    """Give a lead to the buyer of its niche who was served least."""
    rows = tx.execute(
        "select buyer, cents from buyers where niche = ? order by served, buyer limit 1", [niche]
    )
    if not rows:
        raise Reject(niche)
    buyer, cents = rows[0]
    tx.execute(
        "update buyers set served = served + 1 where niche = ? and buyer = ?", [niche, buyer]
    )
    tx.execute(
        "insert into assignments (lead_id, niche, buyer) values (?, ?, ?)", [lead_id, niche, buyer]
    )
    return {"buyer": buyer, "cents": cents}


@app.once(scope="leads.bill", key=lambda lead_id, *_: f"bill#{lead_id}")
def bill(lead_id: int, buyer: str, cents: int, tx: Transaction) -> None:
    """Charge a buyer for a lead."""
    tx.execute(
        "insert into charges (lead_id, buyer, cents) values (?, ?, ?)", [lead_id, buyer, cents]
    )


@app.consumer(
    "lead_intake_v1",
    source=Table("leads"),
    order="none",
    lease_seconds=LEASE_SECONDS,
    poll_seconds=0.2,
)
def intake(lead: Message, tx: Transaction) -> None:  # noqa: ARG001 - `offer` joins it
    """Check a lead and put it into its niche."""
    if not lead["contact"].strip():
        raise Reject(lead["id"])  # There is no contact to call: no retry will help.
    offer(lead["id"], lead["niche"])


@app.consumer(
    "distribution_niche_{niche}",
    source=Table("offers", by="niche"),
    lease_seconds=LEASE_SECONDS,
    poll_seconds=0.2,
    max_in_flight=8,
    group=lambda niche: niche if niche in COMPETITIVE else "open",
    max_in_flight_per_group=lambda group: 1 if group in COMPETITIVE else 4,
)
def distribute(offered: Message, tx: Transaction) -> None:  # noqa: ARG001 - both join it
    """Assign a lead and bill its buyer: one commit, in the order of the niche."""
    lead_id, niche = offered["lead_id"], offered["niche"]
    assigned = assign(lead_id, niche)
    bill(lead_id, assigned["buyer"], assigned["cents"])
