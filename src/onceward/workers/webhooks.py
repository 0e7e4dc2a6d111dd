"""Webhooks: tell somebody over HTTP, and find out whether they took it."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Final

import orjson

from onceward.redirects import NoRedirects
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


#: A redirect would turn our POST into a GET: it is a refusal.
_opener: Final = urllib.request.build_opener(NoRedirects)


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
