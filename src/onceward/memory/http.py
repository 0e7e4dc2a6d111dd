"""HTTP: the memory's MCP server at `/mcp`, for clients that do not start it themselves.

Owns the routes and nothing else; the gate in front of it decides who may come in.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

from fastapi import FastAPI
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import BaseModel
from starlette.routing import Route

from onceward.failures import GATE_ANSWERS, wire_errors
from onceward.gate import BODY_BYTES_MAX
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

    app.router.routes += [each for each in inner.routes if isinstance(each, Route)]
    app.state.stop_waiting = server.listens.close
    return app


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
