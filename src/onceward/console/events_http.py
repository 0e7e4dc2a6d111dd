"""Events over HTTP: stream change notifications as server-sent events, or return them to a poll."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Final

import anyio.to_thread
from fastapi import APIRouter, Header, Query, Request, Response
from starlette.responses import StreamingResponse

from onceward.console.change_feed import ChangeEvent, ChangeFeed
from onceward.console.responses import answers, json_answer
from onceward.keys.encoding import encoded

#: A page that receives nothing for three keep-alives shows that its data may be old.
BEAT_SECONDS: Final = 2.0
#: How long a browser waits before it reconnects.
RETRY_MILLISECONDS: Final = 1_000
#: Maximum number of open streams; further requests are rejected, and their pages poll.
STREAMS_MAX: Final = 200
_NUMBER_MAX: Final = 2**53 - 1

Since = Annotated[
    int | None, Query(ge=0, le=_NUMBER_MAX, description="The number of the last event seen.")
]
LastSeen = Annotated[str | None, Header(alias="Last-Event-ID", max_length=20)]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedAreas:
    """Areas that changed, under one number."""

    n: int
    areas: tuple[str, ...]
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeList:
    """The changes after an event number."""

    events: list[ChangedAreas]
    #: Whether changes were missed: ask for everything.
    is_reset: bool
    #: Pass it as `since`.
    next: int
    as_of: str


def events_router(feed: ChangeFeed) -> APIRouter:
    """Return the route of the event stream."""
    router = APIRouter()
    streams = _Streams(feed)

    documented = answers(ChangeList)
    documented[200]["content"]["text/event-stream"] = {"schema": {"type": "string"}}

    @router.get("/api/console/events", responses=documented)
    async def events(
        request: Request,
        since: Since = None,
        last_seen: LastSeen = None,
        poll: Annotated[bool, Query(description="Return immediately, as JSON.")] = False,  # noqa: FBT002 - its name in the query
    ) -> Response:
        """Return the areas that changed after an event number, immediately or as a stream."""
        is_number = last_seen and last_seen.isascii() and last_seen.isdigit()
        number = int(last_seen) if last_seen and is_number else since
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if poll or streams.is_full:
            return await anyio.to_thread.run_sync(_polled, feed, number)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(
            streams.flow(number), media_type="text/event-stream", headers=headers
        )

    return router


class _Streams:
    """The open event streams."""

    def __init__(self, feed: ChangeFeed) -> None:
        self._pulse = feed
        self._open = 0

    @property
    def is_full(self) -> bool:
        return self._open >= STREAMS_MAX

    async def flow(self, number: int | None) -> AsyncIterator[bytes]:
        """Stream changes as they are detected, with keep-alives between them."""
        self._open += 1
        try:
            with self._pulse.subscribe() as waiter:
                yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
                while not self._pulse.closed:
                    news = self._pulse.since(number)
                    for event in news.events:
                        yield _format_event("changed", event.number, _body(event))
                    if not news.events:
                        kind = "reset" if news.is_reset else "beat"
                        yield _format_event(
                            kind, news.number, {"n": news.number, "as_of": self._pulse.as_of}
                        )
                    number = news.number
                    await waiter.wait(BEAT_SECONDS)
        finally:
            self._open -= 1


def _polled(feed: ChangeFeed, number: int | None) -> Response:
    """Check for changes now, because no background thread may be running, and respond."""
    feed.check_if_stale()
    news = feed.since(number)
    return json_answer(
        ChangeList(
            events=[_body(each) for each in news.events],
            is_reset=news.is_reset,
            next=news.number,
            as_of=feed.as_of,
        )
    )


def _body(event: ChangeEvent) -> ChangedAreas:
    return ChangedAreas(n=event.number, areas=event.areas, as_of=event.as_of)


def _format_event(kind: str, number: int, body: object) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, kind.encode(), encoded(body))
