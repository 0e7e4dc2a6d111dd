"""Read-only: reject changing requests to the Lab and conversations of a read-only console.

`ActionExecutor` rejects the console's own actions and still allows dry runs. The Lab and the
conversations have routes of their own, which are blocked here.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from onceward.errors import RequestRefused
from onceward.http.guard import error_response

#: Path prefixes of changes that do not go through the console's actions.
_BLOCKED_PATHS: Final = (
    "/api/runs",
    "/api/experiments",
    "/api/feedback",
    "/api/export",
    "/api/chat",
)
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def read_only() -> RequestRefused:
    """Return the error of a read-only console."""
    message = "this console is read-only; nothing was changed"
    return RequestRefused(message, fix="start it without --read-only to change anything")


class ReadOnly:
    """ASGI middleware that rejects changes of the Lab and of conversations."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass reading requests on; reject the others."""
        is_change = scope["type"] == "http" and scope["method"] not in _READS
        if is_change and scope["path"].startswith(_BLOCKED_PATHS):
            await error_response(read_only())(scope, receive, send)
            return
        await self._app(scope, receive, send)
