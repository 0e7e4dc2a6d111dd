"""Webhooks: post JSON over HTTP, with retries and an idempotency key."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Final

import orjson

from onceward.http.redirects import NoRedirects
from onceward.retries import retrying
from onceward.version import __version__

#: Timeout of one attempt.
POST_SECONDS_MAX: Final = 5.0


class WebhookRefused(Exception):
    """The webhook answered with an error status."""

    def __init__(self, status: int, retry_after: str | None) -> None:
        """Keep what decides whether a retry may help."""
        #: 4xx is not retried.
        self.status = status
        #: The answer's `Retry-After` header.
        self.retry_after = retry_after
        super().__init__(f"the webhook answered {status}")


#: A redirect would turn the POST into a GET, so it counts as an error.
_opener: Final = urllib.request.build_opener(NoRedirects)


@retrying(on=(OSError, WebhookRefused))
def post(url: str, body: Mapping[str, object], key: str) -> None:
    """Post JSON with at most three attempts; the receiver can detect repeats by the key."""
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
