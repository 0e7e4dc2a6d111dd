"""Webhooks: tell somebody over HTTP, and find out whether they took it."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from typing import IO, Final

import orjson

from onceward.retries import retrying
from onceward.version import __version__

#: How long one attempt may take.
POST_SECONDS_MAX: Final = 5.0


class WebhookRefused(Exception):
    """The other side answered, and did not take it."""

    def __init__(self, status: int, retry_after: str | None) -> None:
        """Keep what decides whether another attempt may help."""
        #: Never tried again at once when it is a 4xx.
        self.status = status
        #: How long the other side wants to be left alone.
        self.retry_after = retry_after
        super().__init__(f"the webhook answered {status}")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would turn our POST into a GET: it is a refusal."""

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


_opener: Final = urllib.request.build_opener(_NoRedirects)


@retrying(on=(OSError, WebhookRefused))
def post(url: str, body: Mapping[str, object], key: str) -> None:
    """Send JSON, three attempts in all; the key lets the other side recognise a repeat."""
    request = urllib.request.Request(  # noqa: S310 - http and https only, as the rules check
        url,
        data=orjson.dumps(body),
        headers={
            "Content-Type": "application/json",
            "Idempotency-Key": key,
            "User-Agent": f"onceward/{__version__}",
        },
        method="POST",
    )
    try:
        with _opener.open(request, timeout=POST_SECONDS_MAX) as answer:
            answer.read(1024)
    except urllib.error.HTTPError as exc:
        with exc:
            raise WebhookRefused(exc.code, exc.headers.get("Retry-After")) from None
