"""Read-only: keeps a console that only shows from changing anything through the pages it frames.

What goes through `actions` refuses by itself and still thinks actions through; the Lab and the
conversations have doors of their own, and these are closed here.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from onceward.errors import RequestRefused
from onceward.http.guard import error_response

#: Whose changes do not go through the console's actions.
_DOORS: Final = ("/api/runs", "/api/experiments", "/api/feedback", "/api/export", "/api/chat")
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def read_only() -> RequestRefused:
    """Return the refusal of a console that only shows."""
    message = "this console is read-only"
    return RequestRefused(message, fix="start it without --read-only to change anything")


class ReadOnly:
    """Let nothing through that changes the Lab or a conversation."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand in front of `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what reads."""
        is_change = scope["type"] == "http" and scope["method"] not in _READS
        if is_change and scope["path"].startswith(_DOORS):
            await error_response(read_only())(scope, receive, send)
            return
        await self._app(scope, receive, send)
