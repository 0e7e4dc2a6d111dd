"""Webhooks: what is sent, what is tried again, and what is not."""

from __future__ import annotations

import pytest

from onceward.workers.webhooks import WebhookRefused, post
from tests.support.webhook_server import hook


def test_json_is_sent_with_a_key() -> None:
    """The other side can recognise a repeat by a header and by the body."""
    with hook() as server:
        post(server.url, {"id": "alert_1:fired"}, "alert_1:fired")
        ((headers, body),) = server.taken
    assert headers["idempotency-key"] == "alert_1:fired"
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("onceward/")
    assert body == {"id": "alert_1:fired"}


def test_a_server_in_trouble_is_asked_three_times() -> None:
    """Then it is the caller's."""
    with hook() as server:
        server.answers = [500, 503]
        post(server.url, {}, "k")
        assert len(server.taken) == 3
        server.answers = [500, 500, 500]
        with pytest.raises(WebhookRefused, match="500"):
            post(server.url, {}, "k")
        assert len(server.taken) == 6
        assert {headers["idempotency-key"] for headers, _ in server.taken} == {"k"}


@pytest.mark.parametrize("status", [400, 401, 404, 410])
def test_a_refusal_is_not_repeated(status: int) -> None:
    """Asking again at once would not help."""
    with hook() as server:
        server.answers = [status]
        with pytest.raises(WebhookRefused):
            post(server.url, {}, "k")
        assert len(server.taken) == 1


def test_a_redirect_is_a_refusal() -> None:
    """Following it would make a GET of our POST, and call it sent."""
    with hook() as server:
        server.headers = {"Location": server.url}
        server.answers = [302, 302, 302]
        with pytest.raises(WebhookRefused, match="302"):
            post(server.url, {}, "k")


def test_a_closed_port_is_an_error() -> None:
    """After three attempts."""
    with hook() as server:
        url = server.url
    with pytest.raises(OSError, match="refused"):
        post(url, {}, "k")
