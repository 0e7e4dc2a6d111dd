"""A web handler and a worker that share keys: an order is charged once, by either of them.

Every customer has keys of their own: `caller=` names the customer of a token, old or refreshed.

It needs httpx besides: `python -m pip install httpx`, then `python examples/fastapi_idempotent.py`.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI, Request

from onceward import Onceward
from onceward import open as open_handle
from onceward.outcomes import IdempotencyMiddleware
from onceward.outcomes.http_caller import caller_scope
from onceward.outcomes.http_request import AsgiScope
from onceward.outcomes.http_response import result_of
from onceward.stores import Transaction

#: One name for the work, used by both sides.
SCOPE = "charge"
#: Tokens that were issued, and to whom; a service looks into its session store.
CUSTOMERS = {b"Bearer first": "ada", b"Bearer refreshed": "ada"}


def customer(scope: AsgiScope) -> str | None:
    """Return the customer who sent a request; only a token that we know names one."""
    return CUSTOMERS.get(dict(scope["headers"]).get(b"authorization", b""))


def charge(tx: Transaction, order: str) -> dict[str, str]:
    """Charge an order: the effect that must happen once."""
    tx.execute("insert into charges values (?)", [order])
    return {"charged": order}


def web(ow: Onceward) -> FastAPI:
    """Return the application; the key is the order's number, so nothing else needs comparing."""
    app = FastAPI()
    app.add_middleware(
        IdempotencyMiddleware,
        store=ow,
        scope=SCOPE,
        fingerprint=None,
        caller=customer,
        required=True,
        on_crash="rerun",  # Every effect is in the transaction.
    )

    @app.post("/charges")
    def post_charge(request: Request) -> dict[str, str]:
        claim = request.scope["onceward"]
        with claim.transaction() as tx:
            return charge(tx, claim.key)

    return app


def worker(ow: Onceward, order: str) -> Any:  # noqa: ANN401 - any JSON value
    """Charge an order of ada's that came by queue, unless it was charged."""

    @ow.once(scope=caller_scope(SCOPE, "ada"), key=lambda order: order, fingerprint=None)
    def charge_once(order: str, tx: Transaction) -> dict[str, str]:
        return charge(tx, order)

    return result_of(charge_once(order))  # type: ignore[call-arg]  # tx is given


async def post(app: FastAPI, order: str | None, session: str = "first") -> str:
    """Send a request as a client would, in-process."""
    headers = {"Authorization": f"Bearer {session}"}
    if order is not None:
        headers["Idempotency-Key"] = order
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop.test") as client:
        answer = await client.post("/charges", headers=headers)
    replayed = " replayed" if "Idempotent-Replayed" in answer.headers else ""
    shown = answer.json()
    return f"{answer.status_code} {shown.get('detail', shown)}{replayed}"


def demo(ow: Onceward) -> None:
    """Ask for the same two orders both ways."""
    app = web(ow)
    with ow.transaction() as tx:
        tx.execute("create table charges (order_id text)")
    print(f"web, order-1:       {asyncio.run(post(app, 'order-1'))}")
    print(f"web, order-1 again: {asyncio.run(post(app, 'order-1'))}")
    print(f"web, a new token:   {asyncio.run(post(app, 'order-1', 'refreshed'))}")
    print(f"worker, order-1:    {worker(ow, 'order-1')}")
    print(f"worker, order-2:    {worker(ow, 'order-2')}")
    print(f"web, order-2:       {asyncio.run(post(app, 'order-2'))}")
    print(f"web, without a key: {asyncio.run(post(app, None))}")
    with ow.transaction() as tx:
        made = tx.execute("select count(*) from charges")[0][0]
    print(f"charges made: {made}")


def main() -> None:
    """Show it on a store that is thrown away."""
    with tempfile.TemporaryDirectory() as place:
        ow = open_handle(f"sqlite:///{Path(place) / 'shop.db'}")
        demo(ow)
        ow.close()


if __name__ == "__main__":
    main()
