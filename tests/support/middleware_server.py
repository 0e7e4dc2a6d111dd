"""Server: uvicorn with the middleware, on a socket that outlives it.

python -m tests.support.middleware_server STORE_URL SOCKET_DESCRIPTOR ON_CRASH LEASE_SECONDS
"""

import asyncio
import os
import socket
import sys
from typing import Any

import uvicorn

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.outcomes import IdempotencyMiddleware
from onceward.outcomes.http_request import AsgiScope, Receive, Send

INSERT = "insert into effects values (?)"


class Shop:
    """Leaves one row for each order, in the claim's transaction or apart from it."""

    def __init__(self, ow: Onceward) -> None:
        self.ow = ow

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        order = (await receive())["body"].decode()
        if scope["path"] == "/tx":
            async with scope["onceward"].transaction() as tx:
                tx.execute(INSERT, [order])
        else:
            await asyncio.to_thread(
                self.ow.store.run_in_own_transaction, lambda tx: tx.execute(INSERT, [order])
            )
        body = f"charged {order}".encode()
        headers = [(b"content-length", b"%d" % len(body)), (b"x-served-by", b"%d" % os.getpid())]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def main(url: str, descriptor: str, on_crash: Any, lease_seconds: str) -> None:
    ow = open_handle(url)
    app = IdempotencyMiddleware(
        Shop(ow), store=ow, scope="charge", on_crash=on_crash, lease_seconds=float(lease_seconds)
    )
    listening = socket.socket(fileno=int(descriptor))
    config = uvicorn.Config(app, lifespan="off", log_level="warning")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])
