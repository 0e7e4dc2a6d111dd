"""Conversation HTTP: routes to read, post to and follow conversations, and the chat page.

Parses requests and builds responses; served behind the request guard. Posting messages uses threads
of its own, and a waiting long poll uses none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeVar

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response

from onceward.dispatch import response_models
from onceward.dispatch.conversation_long_poll import ChatNotifier, wait_for_news
from onceward.dispatch.conversations import PLACE_MAX, ChatPage, Chats
from onceward.dispatch.inbox import PAGE_ITEMS_MAX
from onceward.dispatch.models import NewMessage
from onceward.dispatch.response_models import answers
from onceward.dispatch.views import group_item, page_body, state_body, status_body
from onceward.errors import InvalidArgument
from onceward.http.built_pages import add_document
from onceward.http.guard import page_token_for
from onceward.http.long_poll import WAIT_SECONDS_MAX, Notifier, cancel_on_disconnect
from onceward.keys.encoding import encoded
from onceward.system import Clock, SystemClock

T = TypeVar("T")
#: Maximum number of concurrent reads; posted messages have their own threads.
READERS_MAX: Final = 8
#: Maximum number of concurrently posted messages.
WRITERS_MAX: Final = 16
_TAG_CHARACTERS_MAX: Final = 64

Since = Annotated[
    int, Query(ge=0, le=PLACE_MAX, description="`nextCursor` of the previous page; 0 is the start.")
]
Limit = Annotated[
    int,
    Query(
        ge=1,
        description=f"Maximum number of items; values above {PAGE_ITEMS_MAX} are reduced to it.",
    ),
]
Last = Annotated[
    int | None,
    Query(ge=1, description="Return this many items from the end, instead of those after `since`."),
]
Before = Annotated[
    int | None, Query(ge=0, le=PLACE_MAX, description="With `last`: `previousCursor` of a page.")
]
Wait = Annotated[
    float,
    Query(
        ge=0,
        le=WAIT_SECONDS_MAX,
        allow_inf_nan=False,
        description="If there are no items, wait up to this many seconds for one.",
    ),
]
Tag = Annotated[
    str | None,
    Query(
        max_length=_TAG_CHARACTERS_MAX,
        description="With `wait`: `state.tag` of the previous page; a new state also ends it.",
    ),
]


def notifier_of(chats: Chats) -> ChatNotifier:
    """Return a notifier that wakes requests when a conversation changes."""

    def fingerprint(group: str) -> object:
        place, activity = chats.fingerprint(group)
        return place, state_body(activity)["tag"]

    return ChatNotifier(fingerprint)


def dispatch_router(
    chats: Chats,
    *,
    version: str,
    notifier: Notifier | None = None,
    clock: Clock | None = None,
) -> APIRouter:
    """Return the routes of conversations.

    Args:
        chats: The conversations to serve.
        version: The version shown on the page.
        notifier: Wakes waiting requests; close it before the server stops.
        clock: The clock for waiting.

    """
    router = APIRouter()
    readers = _Threads(READERS_MAX)
    _add_config(router, chats, readers, version)
    _add_receiving(router, chats)
    _add_reading(router, chats, readers, notifier or notifier_of(chats), clock or SystemClock())
    add_document(router, "chat.html", at=("/chat", "/chat/{group}"))
    return router


class _Threads:
    """Runs one kind of work in threads of its own, so that it cannot delay other kinds."""

    def __init__(self, most: int) -> None:
        self._limit = anyio.CapacityLimiter(most)

    async def do(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=self._limit)


def _add_config(router: APIRouter, chats: Chats, readers: _Threads, version: str) -> None:
    @router.get("/api/chat/config", responses=answers(response_models.ChatConfig))
    @router.head("/api/chat/config", include_in_schema=False)
    async def config(request: Request) -> Response:
        """Return the version, limits and token that a page needs to post messages."""
        groups = [group_item(each) for each in await readers.do(chats.groups)]
        return _json({"token": page_token_for(request.scope), "version": version, "groups": groups})

    @router.get("/api/chat/groups", responses=answers(response_models.GroupList))
    @router.head("/api/chat/groups", include_in_schema=False)
    async def groups() -> Response:
        """List the conversations, by name."""
        return _json({"items": [group_item(each) for each in await readers.do(chats.groups)]})

    @router.get("/api/dispatch/status", responses=answers(response_models.Status))
    @router.head("/api/dispatch/status", include_in_schema=False)
    async def status() -> Response:
        """Return the status of every group."""
        return _json(status_body(await readers.do(chats.board)))


def _add_receiving(router: APIRouter, chats: Chats) -> None:
    writers = _Threads(WRITERS_MAX)
    documented = answers(response_models.MessageReceipt, 404, 415)
    documented[201] = documented[200] | {"description": "The message is stored."}
    known = "The message was already stored; if its text differs, it is now edited."
    documented[200]["description"] = known

    @router.post(
        "/api/chat/{group}/messages",
        status_code=201,
        responses=documented,
    )
    async def receive(group: str, body: response_models.PostedMessage) -> Response:
        """Store a message durably. Idempotent by its id."""
        message = NewMessage(group=group, **body.model_dump())
        received = await writers.do(lambda: chats.receive(message))
        answer = {"id": body.id, "seq": received.seq, "fate": received.fate}
        return _json(answer, 201 if received.fate == "new" else 200)


def _add_reading(
    router: APIRouter, chats: Chats, readers: _Threads, notifier: Notifier, clock: Clock
) -> None:
    chats.on_change(notifier.notify)
    path = "/api/chat/{group}/messages"

    @router.get(path, responses=answers(response_models.Conversation, 404))
    @router.head(path, include_in_schema=False)
    async def follow(  # noqa: PLR0913, PLR0917 - the parameters of the query
        group: str,
        request: Request,
        since: Since = 0,
        limit: Limit = PAGE_ITEMS_MAX,
        last: Last = None,
        before: Before = None,
        wait: Wait = 0,
        state: Tag = None,
    ) -> Response:
        """Return items after a cursor, or the last ones; can wait for new items."""
        if before is not None and last is None:
            message = "before: is allowed with `last` only"
            raise InvalidArgument(message, fix="add last=50, or omit before", field="before")
        if last is not None:
            upto = PLACE_MAX if before is None else before
            return _json(page_body(await readers.do(lambda: chats.last(group, last, upto))))

        async def read() -> ChatPage:
            return await readers.do(lambda: chats.page(group, since, limit))

        def is_news(page: ChatPage) -> bool:
            return bool(page.items) or state not in (None, state_body(page.activity)["tag"])

        page = await read()
        if wait and not is_news(page):
            work = wait_for_news(
                read, is_news, topic=group, seconds=wait, notifier=notifier, clock=clock
            )
            # The client may disconnect during the wait.
            page = await cancel_on_disconnect(request.receive, work) or page
        return _json(page_body(page))


def _json(body: Mapping[str, Any], status: int = 200) -> Response:
    return Response(encoded(body), status, media_type="application/json")
