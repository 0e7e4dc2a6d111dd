"""HTTP: the memory's MCP server at `/mcp`, for clients that do not start it themselves.

Owns the routes and nothing else; the gate in front of it decides who may come in.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Final

from fastapi import FastAPI
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import BaseModel
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onceward.failures import GATE_ANSWERS, wire_errors
from onceward.gate import BODY_BYTES_MAX
from onceward.memory.mcp.messages import NoMessage, check_request
from onceward.memory.mcp.server import MemoryServer
from onceward.version import __version__

#: Names under which a machine knows itself.
_OUR_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")


class Health(BaseModel, frozen=True):
    """The server answers."""

    status: str = "ok"
    version: str


def build_app(
    server: MemoryServer, *, names: Sequence[str], port: int, is_external: bool = False
) -> FastAPI:
    """Return the application; serve it behind the gate.

    Args:
        server: The memory.
        names: What this server goes by, without a port.
        port: Where it listens.
        is_external: Whether other machines can ask.

    """
    mcp = server.build()
    inner = mcp.streamable_http_app(
        streamable_http_path="/mcp",
        max_request_body_size=BODY_BYTES_MAX,
        transport_security=_security(names, port, is_external=is_external),
    )

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with mcp.session_manager.run():
            yield

    app = FastAPI(
        title="Onceward memory",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # a redirect would repeat the Host header
        lifespan=lifespan,
    )
    wire_errors(app)

    @app.get("/healthz", responses=GATE_ANSWERS)
    @app.head("/healthz", include_in_schema=False)
    async def health() -> Health:
        return Health(version=__version__)

    for each in inner.routes:
        if isinstance(each, Route):
            each.app = _CheckedRequests(each.app)
            app.router.routes.append(each)
    app.state.stop_waiting = server.listens.close
    return app


class _CheckedRequests:
    """Answers requests with an odd id, or with broken text, which the library would not answer."""

    def __init__(self, app: ASGIApp) -> None:
        """Pass everything else on to this application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        events: list[Message] = []
        size = 0
        # The library refuses what is larger.
        while size <= BODY_BYTES_MAX:
            events.append(await receive())
            size += len(events[-1].get("body", b""))
            if not events[-1].get("more_body"):
                break
        try:
            check_request(json.loads(b"".join(each.get("body", b"") for each in events)))
        except NoMessage as exc:
            answer = exc.answer.model_dump(mode="json", by_alias=True)
            await JSONResponse(answer, status_code=400)(scope, receive, send)
            return
        except (ValueError, RecursionError):
            pass  # No JSON, which the library refuses.

        async def replay() -> Message:
            return events.pop(0) if events else await receive()

        await self._app(scope, replay, send)


def _security(names: Sequence[str], port: int, *, is_external: bool) -> TransportSecuritySettings:
    """Return what the library checks once more behind the gate, which has checked it before."""
    if is_external:
        # The gate also lets in every literal address of this machine, and no list holds those.
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    hosts = [f"{name}:{port}" for name in (*_OUR_NAMES, *names)]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"http://{host}" for host in hosts],
    )
