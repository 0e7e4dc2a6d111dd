"""Redirects: calls that follow none, because a token or a body would go with them."""

from __future__ import annotations

import urllib.request
from email.message import Message
from typing import IO


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """For an opener: whoever answers with a redirect has refused."""

    def redirect_request(  # noqa: PLR0913, PLR0917 - the library's signature
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> None:
        """Follow none."""
