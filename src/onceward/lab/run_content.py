"""Run content: send files of a run's directory as ranges, streams or sandboxed documents.

The content is untrusted, so no response can run code or load external resources, whatever type
the browser assumes. Knows no run and no route.
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
from onceward.http.guard import error_response
from onceward.lab import byte_ranges
from onceward.lab.manifest import IMAGE_TYPES, VIDEO_TYPES
from onceward.system.safe_paths import RootedFile

CHUNK_BYTES: Final = 256 * 1024
#: Size limit for rendering, since a Markdown file is rendered in memory.
MARKDOWN_BYTES_MAX: Final = 128 * 1024
#: Files that may be read at the same time, in threads other than those of changes.
READERS_MAX: Final = 8
CONTENT_POLICY: Final = (
    "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'"
)
TEXT: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
BYTES: Final = "application/octet-stream"
#: Media types of videos and of other files.
VIDEO_MEDIA_TYPES: Final = (*VIDEO_TYPES.values(), BYTES)
ARTIFACT_MEDIA_TYPES: Final = (
    *(TEXT, HTML),
    *sorted({"application/json", *IMAGE_TYPES.values(), *VIDEO_MEDIA_TYPES}),
)
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_PAGE: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    "<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:46em;margin:1em auto;padding:0 1em;"
    "overflow-wrap:anywhere}}pre{{overflow:auto}}img{{max-width:100%}}</style>\n{body}</html>\n"
)
#: Opens a file in a thread; returns it, its name and its media type.
Opened = Callable[[], tuple[RootedFile, str, str]]


class FileSender:
    """Sends files, with a limited number of readers in separate threads."""

    def __init__(self) -> None:
        """Create the limits for readers and for rendering."""
        self._readers = anyio.CapacityLimiter(READERS_MAX)
        # Untrusted Markdown may take long to render: one at a time, without blocking files.
        self._renderer = anyio.CapacityLimiter(1)

    async def file(self, request: Request, opened: Opened) -> Response:
        """Return a response with a file, or with the requested range."""
        file, name, media_type = await anyio.to_thread.run_sync(opened, limiter=self._readers)
        is_sent = False
        try:
            found = self._file_response(request, file, _headers(file, name), media_type)
            is_sent = isinstance(found, FileStreamResponse)
            return found
        finally:
            if not is_sent:
                file.close()

    async def rendered(self, request: Request, opened: Opened) -> Response:
        """Return a Markdown file rendered as HTML, without scripts and external images."""
        rendering = partial(_render, opened)
        body, headers = await anyio.to_thread.run_sync(rendering, limiter=self._renderer)
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(body, headers={**headers, "content-type": HTML})

    def _file_response(
        self, request: Request, file: RootedFile, headers: dict[str, str], media_type: str
    ) -> Response:
        request_headers = dict(request.headers)
        if request.method == "HEAD":
            request_headers.pop("range", None)  # Range is defined for GET only.
        plan, size = byte_ranges.select_response(request_headers, file.stat), file.stat.size
        if isinstance(plan, byte_ranges.NotModified):
            return Response(status_code=304, headers=headers)
        if isinstance(plan, byte_ranges.Unsatisfiable):
            message = f"the range begins after the end of the file, which has {size} bytes"
            fix = "request a range that begins before its end, or omit the header Range"
            error = errors.RangeNotSatisfiable(message, fix=fix, size=size)
            return error_response(error, {**headers, "content-range": plan.content_range(size)})
        start, length, status = 0, size, 200
        if isinstance(plan, byte_ranges.PartialContent):
            start, length, status = plan.start, plan.length, 206
            headers["content-range"] = plan.content_range(size)
        headers |= {"content-type": media_type, "content-length": str(length)}
        if request.method == "HEAD":
            return Response(status_code=status, headers=headers)
        return FileStreamResponse(file, start, length, status, headers, self._readers)


def _render(opened: Opened) -> tuple[bytes, dict[str, str]]:
    file, name, _ = opened()
    with file:
        if file.stat.size > MARKDOWN_BYTES_MAX:
            message = f"{name} is larger than {MARKDOWN_BYTES_MAX} bytes, so it is not rendered"
            raise errors.TooLarge(message, fix="omit `rendered` to get it as text")
        text = file.read(0, MARKDOWN_BYTES_MAX).decode(errors="replace")
        headers = _headers(file, name)
    from markdown_it import MarkdownIt  # noqa: PLC0415 - rarely used, and slow to import

    body = MarkdownIt("commonmark", {"html": False}).render(text)
    tag = headers["etag"].strip('"')
    del headers["accept-ranges"]  # The page is rendered on each request, and sent completely.
    page = _PAGE.format(title=html.escape(name), body=body)
    return page.encode(errors="replace"), {**headers, "etag": f'"{tag}-html"'}


def _headers(file: RootedFile, name: str) -> dict[str, str]:
    safe = _UNSAFE.sub("_", PurePosixPath(name).name)[-100:]
    return {
        **byte_ranges.validators(file.stat),
        "content-security-policy": CONTENT_POLICY,
        "content-disposition": f'inline; filename="{safe}"',
    }


class FileStreamResponse(StreamingResponse):
    """Streams a range of an open file; closes it after sending or on disconnect."""

    def __init__(  # noqa: PLR0913, PLR0917 - made in one place
        self,
        file: RootedFile,
        start: int,
        length: int,
        status: int,
        headers: dict[str, str],
        readers: anyio.CapacityLimiter,
    ) -> None:
        """Take ownership of the file."""
        self._file_response, self._start, self._length = file, start, length
        self._readers = readers
        super().__init__(self._chunks(), status, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, then close the file."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file_response.close()

    async def _chunks(self) -> AsyncIterator[bytes]:
        position, end = self._start, self._start + self._length
        while position < end:
            read = partial(self._file_response.read, position, min(CHUNK_BYTES, end - position))
            chunk = await anyio.to_thread.run_sync(read, limiter=self._readers)
            if not chunk:
                message = "the file was truncated while it was sent; the response is incomplete"
                raise errors.StorageError(message, fix="request it again")
            position += len(chunk)
            yield chunk
