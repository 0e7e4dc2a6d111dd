"""HTTP: the routes and the page of conversations, as they stand behind the gate.

Owns what is read from a request and how an answer is dressed. Messages come in through threads of
their own, and whoever waits for news occupies none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeVar

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response

from onceward.bells import WAIT_SECONDS_MAX, Bell, unless_gone
from onceward.dispatch import schemas
from onceward.dispatch.arrivals import PAGE_ITEMS_MAX
from onceward.dispatch.chats import PLACE_MAX, ChatPage, Chats
from onceward.dispatch.models import NewMessage
from onceward.dispatch.schemas import answers
from onceward.dispatch.views import board_body, group_item, page_body, state_body
from onceward.dispatch.waiting import ChatBell, wait_for_news
from onceward.errors import InvalidArgument
from onceward.failures import Documented
from onceward.gate import token_for
from onceward.keys.encoding import encoded
from onceward.pages import add_pages
from onceward.seams import Clock, SystemClock

T = TypeVar("T")
#: Conversations that are read at the same time; the threads that messages need are others.
READERS_MAX: Final = 8
#: Messages that come in at the same time.
WRITERS_MAX: Final = 16
_TAG_CHARACTERS_MAX: Final = 64

Since = Annotated[
    int, Query(ge=0, le=PLACE_MAX, description="`nextCursor` of the page before; 0 is the start.")
]
Limit = Annotated[
    int, Query(ge=1, description=f"How many at the most; above {PAGE_ITEMS_MAX} it is that.")
]
Last = Annotated[
    int | None, Query(ge=1, description="So many from the end, instead of what is behind `since`.")
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
        description="If nothing is there, answer when something is, or after so many seconds.",
    ),
]
Tag = Annotated[
    str | None,
    Query(
        max_length=_TAG_CHARACTERS_MAX,
        description="With `wait`: `state.tag` of the page before; another state is news, too.",
    ),
]


def bell_of(chats: Chats) -> ChatBell:
    """Return the bell that rings when something changes in a conversation."""

    def pulse(group: str) -> object:
        place, standing = chats.pulse(group)
        return place, state_body(standing)["tag"]

    return ChatBell(pulse)


def dispatch_router(
    chats: Chats,
    *,
    version: str,
    bell: Bell | None = None,
    clock: Clock | None = None,
) -> APIRouter:
    """Return the routes of conversations.

    Args:
        chats: What they are about.
        version: What the page says this is.
        bell: Wakes who waits for news; close it before the server stops.
        clock: The clock for waiting.

    """
    router = APIRouter()
    readers = _Threads(READERS_MAX)
    _add_config(router, chats, readers, version)
    _add_receiving(router, chats)
    _add_reading(router, chats, readers, bell or bell_of(chats), clock or SystemClock())
    add_pages(router, __package__, page="chat.html", base="/chat", at=("/chat", "/chat/{group}"))
    return router


class _Threads:
    """Threads for one kind of work, so that it holds up no other kind."""

    def __init__(self, most: int) -> None:
        self._limit = anyio.CapacityLimiter(most)

    async def do(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=self._limit)


def _add_config(router: APIRouter, chats: Chats, readers: _Threads, version: str) -> None:
    @router.get("/api/chat/config", response_model=schemas.ChatConfig, responses=answers())
    @router.head("/api/chat/config", include_in_schema=False)
    async def config(request: Request) -> Response:
        """Tell a page what it must know before its first message."""
        groups = [group_item(each) for each in await readers.do(chats.groups)]
        return _json({"token": token_for(request.scope), "version": version, "groups": groups})

    @router.get("/api/chat/groups", response_model=schemas.GroupList, responses=answers())
    @router.head("/api/chat/groups", include_in_schema=False)
    async def groups() -> Response:
        """List the conversations, by name."""
        return _json({"items": [group_item(each) for each in await readers.do(chats.groups)]})

    @router.get("/api/dispatch/status", response_model=schemas.Status, responses=answers())
    @router.head("/api/dispatch/status", include_in_schema=False)
    async def status() -> Response:
        """Tell where every group stands."""
        return _json(board_body(await readers.do(chats.board)))


def _add_receiving(router: APIRouter, chats: Chats) -> None:
    writers = _Threads(WRITERS_MAX)
    known: Documented = {
        200: {"model": schemas.Kept, "description": "It came before; if edited, it is now so."}
    }

    @router.post(
        "/api/chat/{group}/messages",
        status_code=201,
        response_model=schemas.Kept,
        responses={**known, **answers(404, 415)},
    )
    async def receive(group: str, body: schemas.PostedMessage) -> Response:
        """Take a message; durable when it is answered, and harmless to repeat."""
        message = NewMessage(group=group, **body.model_dump())
        received = await writers.do(lambda: chats.receive(message))
        told = {"id": body.id, "seq": received.seq, "fate": received.fate}
        return _json(told, 201 if received.fate == "new" else 200)


def _add_reading(
    router: APIRouter, chats: Chats, readers: _Threads, bell: Bell, clock: Clock
) -> None:
    chats.on_change(bell.ring)
    path = "/api/chat/{group}/messages"

    @router.get(path, response_model=schemas.Conversation, responses=answers(404))
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
        """Return what was said behind a cursor, or last; wait for news if there is nothing."""
        if before is not None and last is None:
            message = "before: goes with `last`, which says how many"
            raise InvalidArgument(message, fix="add last=50", field="before")
        if last is not None:
            upto = PLACE_MAX if before is None else before
            return _json(page_body(await readers.do(lambda: chats.last(group, last, upto))))

        async def read() -> ChatPage:
            return await readers.do(lambda: chats.page(group, since, limit))

        def is_news(page: ChatPage) -> bool:
            return bool(page.items) or state not in (None, state_body(page.standing)["tag"])

        page = await read()
        if wait and not is_news(page):
            work = wait_for_news(read, is_news, topic=group, seconds=wait, bell=bell, clock=clock)
            # The client may hang up meanwhile; then nobody is there to read what is answered.
            page = await unless_gone(request.receive, work) or page
        return _json(page_body(page))


def _json(body: Mapping[str, Any], status: int = 200) -> Response:
    return Response(encoded(body), status, media_type="application/json")
