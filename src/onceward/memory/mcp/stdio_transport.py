"""Stdio transport: JSON-RPC messages, one per line, over stdin and stdout.

Splits and limits lines, and answers invalid ones with an error. When the client disconnects or a
signal arrives, requests in progress are still answered. Writes only messages to stdout.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import re
import select
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)

from onceward.memory.mcp.request_checks import InvalidMessage, check_request

#: A longer line is discarded, and answered with an error.
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
#: Reading pauses while this many requests are unanswered.
REQUESTS_OPEN_MAX: Final = 1000
#: Grace period for open requests after the client disconnects or a signal arrives.
LAST_ANSWERS_SECONDS_MAX: Final = 10.0
#: Grace period for writing the last answers.
LAST_WRITE_SECONDS_MAX: Final = 1.0

_READ_BYTES: Final = 256 * 1024
#: A pipe that polls as writable accepts this much without blocking (PIPE_BUF).
_WRITE_BYTES: Final = 4096
#: How much of both ends of a discarded line is kept, to find its id.
_END_BYTES: Final = 512
#: Requests that end with the connection, and so are not waited for.
_LONG_RUNNING_METHODS: Final = frozenset({"subscriptions/listen"})
#: Clients write the id first or last.
_ID_FIRST: Final = re.compile(
    rb'\s*\{\s*"jsonrpc"\s*:\s*"[\d.]*"\s*,\s*"id"\s*:\s*(\d{1,15}|"[^"\\]*")\s*[,}]'
)
_ID_LAST: Final = re.compile(rb'"id"\s*:\s*(\d{1,15}|"[^"\\]*")\s*\}\s*$')

_CANCELLED: Final = "notifications/cancelled"

_ToServer = MemoryObjectSendStream[SessionMessage | Exception]
_FromServer = MemoryObjectSendStream[SessionMessage]
_log = logging.getLogger("onceward.memory")


async def serve(server: Server[Any]) -> bool:
    """Serve the client on stdin and stdout until it disconnects or a signal arrives.

    Returns whether it was a signal.
    """
    with (
        _redirected(0, os.open(os.devnull, os.O_RDONLY)) as source,
        _redirected(1, os.dup(2)) as sink,
    ):
        return await _StdioConnection(source, sink).serve(server)


@contextlib.contextmanager
def _redirected(fd: int, instead: int) -> Iterator[int]:
    """Yield a duplicate of a standard stream, and redirect the stream to `instead`."""
    own = os.dup(fd)
    os.dup2(instead, fd)
    os.close(instead)
    try:
        yield own
    finally:
        os.dup2(own, fd)
        os.close(own)


# --- lines ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StdioLine:
    """One line without its newline; if it is too long, only both ends are kept."""

    data: bytes
    is_complete: bool = True


class LineSplitter:
    """Splits bytes into lines in linear time and bounded memory."""

    def __init__(self, *, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        """Keep lines up to this length."""
        self._max = line_bytes_max
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[StdioLine]:
        """Add bytes, and return the lines that they complete, without blank ones."""
        *ended, rest = data.split(b"\n")
        lines: list[StdioLine] = []
        for each in ended:
            self._extend(each)
            lines += self.close()
        self._extend(rest)
        return lines

    def close(self) -> list[StdioLine]:
        """Return the incomplete last line, if any."""
        line = StdioLine(b"".join(self._parts).strip(), is_complete=self._size <= self._max)
        self._parts, self._size = [], 0
        return [line] if line.data else []

    def _extend(self, part: bytes) -> None:
        self._size += len(part)
        if part:
            self._parts.append(part)
        if self._size > self._max:
            kept = b"".join(self._parts)
            self._parts = [kept[:_END_BYTES], kept[_END_BYTES:][-_END_BYTES:]]


def read_message(line: StdioLine) -> JSONRPCMessage:
    """Return the message in a line; raise InvalidMessage if it is invalid."""
    if not line.is_complete:
        problem = f"a line has at most {LINE_BYTES_MAX} bytes"
        raise InvalidMessage(INVALID_REQUEST, problem, _visible_id(line.data))
    try:
        message = jsonrpc_message_adapter.validate_json(line.data, by_name=False)
    except ValueError as exc:
        check_request(_json_value(line.data))
        problem = "the line is not a valid JSON-RPC 2.0 message"
        raise InvalidMessage(INVALID_REQUEST, problem, _visible_id(line.data)) from exc
    if isinstance(message, JSONRPCNotification):
        # The library treats a request with an invalid id as a notification, and never answers.
        check_request(_json_value(line.data))
    return message


def _json_value(data: bytes) -> object:
    """Return the JSON value of a line; raise InvalidMessage if it is invalid."""
    try:
        return json.loads(data.decode())
    except UnicodeDecodeError as exc:
        raise InvalidMessage(PARSE_ERROR, "the line is not UTF-8", _visible_id(data)) from exc
    except RecursionError as exc:
        raise InvalidMessage(
            PARSE_ERROR, "the line is nested too deeply", _visible_id(data)
        ) from exc
    except ValueError as exc:
        raise InvalidMessage(PARSE_ERROR, "the line is not JSON", _visible_id(data)) from exc


def _visible_id(data: bytes) -> RequestId | None:
    """Return the request id at either end of a line; an id in between may be nested."""
    found = _ID_FIRST.match(data[:_END_BYTES]) or _ID_LAST.search(data[-_END_BYTES:])
    with contextlib.suppress(ValueError):
        request_id: RequestId | None = json.loads(found[1]) if found else None
        return request_id
    return None


# --- connection ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _StdioConnection:
    """The connection with the client, and its unanswered requests."""

    source: int
    sink: int
    _open: set[RequestId] = field(default_factory=set)
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _reading: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _waiting: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _written: anyio.Event = field(default_factory=anyio.Event)
    _is_stopped: bool = False
    _is_broken: bool = False

    async def serve(self, server: Server[Any]) -> bool:
        to_server, inbound = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outbound, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, self._stop)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, to_server, outbound.clone())
            tasks.start_soon(self._write, from_server)
            await server.run(inbound, outbound, server.create_initialization_options())
            with anyio.move_on_after(LAST_WRITE_SECONDS_MAX):
                await self._written.wait()
            tasks.cancel_scope.cancel()
        return self._is_stopped

    def _stop(self) -> None:
        """Stop reading; on the second signal stop waiting for answers as well."""
        if self._is_stopped:
            self._waiting.cancel()
        self._is_stopped = True
        self._reading.cancel()

    # --- input

    async def _read(self, to_server: _ToServer, answers: _FromServer) -> None:
        async with to_server, answers:
            with self._reading:
                cutter = LineSplitter()
                while data := await self._next_bytes():
                    for line in cutter.feed(data):
                        await self._handle_line(line, to_server, answers)
                for line in cutter.close():
                    await self._handle_line(line, to_server, answers)
            with self._waiting, anyio.move_on_after(LAST_ANSWERS_SECONDS_MAX):
                await self._wait_until_open(0)

    async def _next_bytes(self) -> bytes:
        # Regular files are always readable, and epoll rejects them.
        with contextlib.suppress(PermissionError):
            await anyio.wait_readable(self.source)
        try:
            return os.read(self.source, _READ_BYTES)
        except OSError:  # The terminal hung up.
            return b""

    async def _handle_line(
        self, line: StdioLine, to_server: _ToServer, answers: _FromServer
    ) -> None:
        try:
            message = read_message(line)
        except InvalidMessage as exc:
            _log.warning("a line on stdin was rejected: %s", exc)
            await answers.send(SessionMessage(exc.answer))
            return
        if isinstance(message, JSONRPCRequest) and message.method not in _LONG_RUNNING_METHODS:
            await self._wait_until_open(REQUESTS_OPEN_MAX - 1)
            self._open.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._mark_answered((message.params or {}).get("requestId"))
        await to_server.send(SessionMessage(message))

    async def _wait_until_open(self, count: int) -> None:
        """Wait until at most this many requests are open."""
        while len(self._open) > count:
            self._changed = anyio.Event()
            await self._changed.wait()

    def _mark_answered(self, request_id: object) -> None:
        if isinstance(request_id, (str, int)):
            self._open.discard(request_id)
            self._changed.set()

    # --- output

    async def _write(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with from_server:
            async for each in from_server:
                try:
                    await self._send(_encoded(each.message))
                except OSError:
                    # The client is gone; requests in progress still complete.
                    self._is_broken = True
                    self._reading.cancel()
                if isinstance(each.message, (JSONRPCResponse, JSONRPCError)):
                    self._mark_answered(each.message.id)
        self._written.set()

    async def _send(self, data: bytes) -> None:
        """Write in pieces that never block the event loop, without a buffer."""
        left = memoryview(data)
        poll = select.poll()
        poll.register(self.sink, select.POLLOUT)
        with io.FileIO(self.sink, "wb", closefd=False) as sink:
            while left and not self._is_broken:
                if not poll.poll(0):
                    await anyio.wait_writable(self.sink)
                left = left[sink.write(left[:_WRITE_BYTES]) or 0 :]


def _encoded(message: JSONRPCMessage) -> bytes:
    try:
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
    except ValueError:
        _log.exception("a result cannot be serialised as JSON")
        assert isinstance(message, (JSONRPCResponse, JSONRPCError)), message
        error = ErrorData(code=INTERNAL_ERROR, message="the result cannot be serialised as JSON")
        text = JSONRPCError(jsonrpc="2.0", id=message.id, error=error).model_dump_json()
    return text.encode() + b"\n"
