"""Chat HTTP client: call the conversation routes behind the guard, over a store, in process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from onceward.client import Onceward
from onceward.console.app import build_app
from onceward.dispatch import response_models
from onceward.dispatch.conversation_long_poll import ChatNotifier
from onceward.dispatch.conversations import Chats
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.models import Group
from onceward.http.guard import GuardSettings, RequestGuard

PORT = 3939
TOKEN = "tok_1"
#: What should come at once comes within this, also on a busy machine.
SOON = 60.0


class Site:
    """Conversations behind the guard, with a dispatcher that was not started."""

    def __init__(self, ow: Onceward, directory: Path) -> None:
        self.ow = ow
        self.dispatcher = Dispatcher(ow, home=directory)
        self.dispatcher.groups.add(Group(name="team", channel="chat", command=("true",)))
        self.chats = Chats(ow, self.dispatcher)
        self.app = build_app(dispatch=self.chats)
        self.guard = RequestGuard(
            self.app, settings=GuardSettings(port=PORT, token=TOKEN, is_owner=lambda _: True)
        )

    @property
    def notifier(self) -> ChatNotifier:
        notifier = self.app.state.chat_notifier
        assert isinstance(notifier, ChatNotifier)
        return notifier

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.guard, raise_app_exceptions=True)
        base = f"http://127.0.0.1:{PORT}"
        headers = {"x-cm-lab-token": TOKEN}
        return httpx.AsyncClient(transport=transport, base_url=base, headers=headers)

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            async with self.client() as client:
                return await client.request(method, path, **options)

        return asyncio.run(send())

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.ask("GET", path, params=query)

    def say(self, text: str, group: str = "team", **fields: Any) -> httpx.Response:
        body = {"id": text[:50], "sender": "ann", "text": text, **fields}
        return self.ask(
            "POST", f"/api/chat/{group}/messages", content=json.dumps(body), headers=JSON
        )

    def answered(self, *replies: str, fails: str = "") -> None:
        """Do what a dispatcher does with an agent that says this."""
        self.dispatcher.arrivals.see()
        group = self.dispatcher.groups.show("team")
        delivery = self.dispatcher.deliveries.begin(group)
        assert delivery is not None
        for number, reply in enumerate(replies):
            key = f"{delivery.id}/{number}"
            self.dispatcher.outbox.add(delivery, reply, key=key, is_stored=True)
        if fails:
            self.dispatcher.deliveries.failed(delivery, fails)
        else:
            self.dispatcher.deliveries.done(delivery, delivery.batch.position)


JSON = {"content-type": "application/json"}
MESSAGES = "/api/chat/team/messages"


@pytest.fixture
def site(ow: Onceward, tmp_path: Path) -> Site:
    return Site(ow, tmp_path)


def body_of(response: httpx.Response, model: type[response_models._ResponseModel]) -> Any:
    """Return the body of a success, having held it against what the document says of it."""
    assert response.status_code in (200, 201), response.text
    model.model_validate_json(response.content)
    return response.json()
