"""Redirects: a urllib handler that follows none, so that no token or body reaches another host."""

from __future__ import annotations

import urllib.request
from email.message import Message
from typing import IO


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Handler for `build_opener` that turns every redirect into an HTTPError."""

    def redirect_request(  # noqa: PLR0913, PLR0917 - the library's signature
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> None:
        """Return None: do not follow."""
