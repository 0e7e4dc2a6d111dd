"""Content: sends what lies in a run's directory: in parts, streamed, and shut into a sandbox.

Whoever made the run may have written anything, so no answer from here can run code or load
something from elsewhere, whatever the browser takes it for. Knows no run and no route.
"""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import PurePosixPath
from typing import Final

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from onceward import errors
from onceward.gate import answer
from onceward.lab import ranges
from onceward.lab.manifest import IMAGE_TYPES, VIDEO_TYPES
from onceward.rooted import RootedFile

CHUNK_BYTES: Final = 256 * 1024
#: A Markdown file is rendered whole, so it is read whole.
MARKDOWN_BYTES_MAX: Final = 128 * 1024
#: Files that are read at the same time; the threads that changes need are others.
READERS_MAX: Final = 8
CONTENT_POLICY: Final = (
    "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'"
)
TEXT: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
BYTES: Final = "application/octet-stream"
#: What videos and other files can be sent as.
VIDEO_ANSWERS: Final = (*VIDEO_TYPES.values(), BYTES)
ARTIFACT_ANSWERS: Final = (
    *(TEXT, HTML),
    *sorted({"application/json", *IMAGE_TYPES.values(), *VIDEO_ANSWERS}),
)
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_PAGE: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    "<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:46em;margin:1em auto;padding:0 1em;"
    "overflow-wrap:anywhere}}pre{{overflow:auto}}img{{max-width:100%}}</style>\n{body}</html>\n"
)
#: Opens a file, in a thread: it, its name, and the type under which it is sent.
Opened = Callable[[], tuple[RootedFile, str, str]]


class Sender:
    """Sends files; a few are read at a time, never by the threads that changes need."""

    def __init__(self) -> None:
        """Read nothing yet."""
        self._readers = anyio.CapacityLimiter(READERS_MAX)
        # What an agent wrote may take long to render: one at a time, and files do not wait for it.
        self._renderer = anyio.CapacityLimiter(1)

    async def file(self, request: Request, opened: Opened) -> Response:
        """Answer with a file, or with the part of it that is asked for."""
        file, name, media_type = await anyio.to_thread.run_sync(opened, limiter=self._readers)
        is_sent = False
        try:
            found = self._file(request, file, _headers(file, name), media_type)
            is_sent = isinstance(found, FileAnswer)
            return found
        finally:
            if not is_sent:
                file.close()

    async def rendered(self, request: Request, opened: Opened) -> Response:
        """Answer with a Markdown file as a page, without code and without foreign images."""
        rendering = partial(_render, opened)
        body, headers = await anyio.to_thread.run_sync(rendering, limiter=self._renderer)
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(body, headers={**headers, "content-type": HTML})

    def _file(
        self, request: Request, file: RootedFile, headers: dict[str, str], media_type: str
    ) -> Response:
        asked = dict(request.headers)
        if request.method == "HEAD":
            asked.pop("range", None)  # It asks about the whole.
        plan, size = ranges.plan(asked, file.stat), file.stat.size
        if isinstance(plan, ranges.NotModified):
            return Response(status_code=304, headers=headers)
        if isinstance(plan, ranges.Unsatisfiable):
            error = errors.RangeNotSatisfiable(fix=f"ask for bytes below {size}", size=size)
            return answer(error, {**headers, "content-range": plan.content_range(size)})
        start, length, status = 0, size, 200
        if isinstance(plan, ranges.Part):
            start, length, status = plan.start, plan.length, 206
            headers["content-range"] = plan.content_range(size)
        headers |= {"content-type": media_type, "content-length": str(length)}
        if request.method == "HEAD":
            return Response(status_code=status, headers=headers)
        return FileAnswer(file, start, length, status, headers, self._readers)


def _render(opened: Opened) -> tuple[bytes, dict[str, str]]:
    file, name, _ = opened()
    with file:
        if file.stat.size > MARKDOWN_BYTES_MAX:
            message = f"{name} is larger than {MARKDOWN_BYTES_MAX} bytes, so it is not rendered"
            raise errors.TooLarge(message, fix="read it as text, without `rendered`")
        text = file.read(0, MARKDOWN_BYTES_MAX).decode(errors="replace")
        headers = _headers(file, name)
    from markdown_it import MarkdownIt  # noqa: PLC0415 - few ask for it, and every start would wait

    body = MarkdownIt("commonmark", {"html": False}).render(text)
    tag = headers["etag"].strip('"')
    del headers["accept-ranges"]  # The page is made anew each time, and sent whole.
    page = _PAGE.format(title=html.escape(name), body=body)
    return page.encode(errors="replace"), {**headers, "etag": f'"{tag}-html"'}


def _headers(file: RootedFile, name: str) -> dict[str, str]:
    safe = _UNSAFE.sub("_", PurePosixPath(name).name)[-100:]
    return {
        **ranges.validators(file.stat),
        "content-security-policy": CONTENT_POLICY,
        "content-disposition": f'inline; filename="{safe}"',
    }


class FileAnswer(StreamingResponse):
    """A part of an open file; closes it when the answer is sent, or nobody listens any more."""

    def __init__(  # noqa: PLR0913, PLR0917 - made in one place
        self,
        file: RootedFile,
        start: int,
        length: int,
        status: int,
        headers: dict[str, str],
        readers: anyio.CapacityLimiter,
    ) -> None:
        """Own the file from here on."""
        self._file, self._start, self._length = file, start, length
        self._readers = readers
        super().__init__(self._chunks(), status, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()

    async def _chunks(self) -> AsyncIterator[bytes]:
        position, end = self._start, self._start + self._length
        while position < end:
            read = partial(self._file.read, position, min(CHUNK_BYTES, end - position))
            chunk = await anyio.to_thread.run_sync(read, limiter=self._readers)
            if not chunk:
                message = "the file became shorter while it was sent"
                raise errors.StorageError(message, fix="ask again")
            position += len(chunk)
            yield chunk
