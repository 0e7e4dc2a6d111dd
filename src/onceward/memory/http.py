"""Memory HTTP: the memory's MCP server at `/mcp`, for clients that connect to a running server.

Defines the routes; the request guard in front of it authenticates and limits requests.
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

from onceward.http.errors import GUARD_RESPONSES, install_error_handlers
from onceward.http.guard import BODY_BYTES_MAX
from onceward.memory.mcp.mcp_server import MemoryServer
from onceward.memory.mcp.request_checks import InvalidMessage, check_request
from onceward.version import __version__

#: Host names of the loopback interface.
_OUR_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")


class MemoryHealth(BaseModel, frozen=True):
    """Answer of the health check."""

    status: str = "ok"
    version: str


def build_app(
    server: MemoryServer, *, names: Sequence[str], port: int, is_external: bool = False
) -> FastAPI:
    """Return the application; serve it behind the request guard.

    Args:
        server: The memory.
        names: Host names of this server, without a port.
        port: The port that it listens on.
        is_external: Whether other machines can connect.
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
    install_error_handlers(app)

    @app.get("/healthz", responses=GUARD_RESPONSES)
    @app.head("/healthz", include_in_schema=False)
    async def health() -> MemoryHealth:
        return MemoryHealth(version=__version__)

    for each in inner.routes:
        if isinstance(each, Route):
            each.app = _CheckedRequests(each.app)
            app.router.routes.append(each)
    app.state.stop_waiting = server.listen_handler.close
    return app


class _CheckedRequests:
    """Answers requests with an invalid id or invalid Unicode, which the MCP library ignores."""

    def __init__(self, app: ASGIApp) -> None:
        """Forward all other requests to this application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        events: list[Message] = []
        size = 0
        # The library rejects larger bodies.
        while size <= BODY_BYTES_MAX:
            events.append(await receive())
            size += len(events[-1].get("body", b""))
            if not events[-1].get("more_body"):
                break
        try:
            check_request(json.loads(b"".join(each.get("body", b"") for each in events)))
        except InvalidMessage as exc:
            answer = exc.answer.model_dump(mode="json", by_alias=True)
            await JSONResponse(answer, status_code=400)(scope, receive, send)
            return
        except (ValueError, RecursionError):
            pass  # Not JSON; the library rejects it.

        async def replay() -> Message:
            return events.pop(0) if events else await receive()

        await self._app(scope, replay, send)


def _security(names: Sequence[str], port: int, *, is_external: bool) -> TransportSecuritySettings:
    """Return the library's DNS rebinding settings; the guard has checked the same before."""
    if is_external:
        # The guard also accepts all IP addresses of this machine, which cannot be listed here.
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    hosts = [f"{name}:{port}" for name in (*_OUR_NAMES, *names)]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"http://{host}" for host in hosts],
    )
