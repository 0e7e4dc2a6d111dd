"""Stdio: the wire between a server and the program that started it, one JSON-RPC message a line.

Owns the two pipes: where a line ends and how long it may be, what is answered to a line that is no
message, and the end: when the client leaves or a signal comes, what was asked is still answered.
Knows not what the messages mean, and writes nothing but messages to stdout.
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

from onceward.memory.mcp.messages import NoMessage, check_request

#: A longer line is let go, and its sender told.
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
#: While so many requests wait for their answers, nothing more is read.
REQUESTS_OPEN_MAX: Final = 1000
#: How long a client that left, or a signal, waits for the answers to what was asked before.
LAST_ANSWERS_SECONDS_MAX: Final = 10.0
#: How long a client may take to read the very last of them.
LAST_WRITE_SECONDS_MAX: Final = 1.0

_READ_BYTES: Final = 256 * 1024
#: What a pipe that says it can be written to takes without waiting.
_WRITE_BYTES: Final = 4096
#: How much of either end of a line is kept to find the id in it.
_END_BYTES: Final = 512
#: Requests that are answered when the connection ends, and so are not waited for.
_UNENDING: Final = frozenset({"subscriptions/listen"})
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
    """Serve the client at stdin and stdout until it leaves, or until a signal.

    Returns whether it was a signal.
    """
    with _taken(0, os.open(os.devnull, os.O_RDONLY)) as source, _taken(1, os.dup(2)) as sink:
        return await _Wire(source, sink).serve(server)


@contextlib.contextmanager
def _taken(fd: int, instead: int) -> Iterator[int]:
    """Take a standard stream for ourselves; who else uses it gets `instead`."""
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
class Line:
    """One line without its newline; of one that was too long only both ends are kept."""

    data: bytes
    is_whole: bool = True


class LineCutter:
    """Cuts bytes into lines in linear time and bounded memory."""

    def __init__(self, *, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        """Keep lines up to that length."""
        self._max = line_bytes_max
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[Line]:
        """Take the next bytes and return the lines that they end; blank ones are left out."""
        *ended, rest = data.split(b"\n")
        lines: list[Line] = []
        for each in ended:
            self._extend(each)
            lines += self.close()
        self._extend(rest)
        return lines

    def close(self) -> list[Line]:
        """Return the line that was begun, if one was."""
        line = Line(b"".join(self._parts).strip(), is_whole=self._size <= self._max)
        self._parts, self._size = [], 0
        return [line] if line.data else []

    def _extend(self, part: bytes) -> None:
        self._size += len(part)
        if part:
            self._parts.append(part)
        if self._size > self._max:
            kept = b"".join(self._parts)
            self._parts = [kept[:_END_BYTES], kept[_END_BYTES:][-_END_BYTES:]]


def read_message(line: Line) -> JSONRPCMessage:
    """Return the message in a line; raise NoMessage when there is none."""
    if not line.is_whole:
        problem = f"a line has at most {LINE_BYTES_MAX} bytes"
        raise NoMessage(INVALID_REQUEST, problem, _shown_id(line.data))
    try:
        message = jsonrpc_message_adapter.validate_json(line.data, by_name=False)
    except ValueError as exc:
        check_request(_value(line.data))
        problem = "the line is no JSON-RPC 2.0 message that can be read"
        raise NoMessage(INVALID_REQUEST, problem, _shown_id(line.data)) from exc
    if isinstance(message, JSONRPCNotification):
        # The library ignores an id that it does not know, and nothing would be answered.
        check_request(_value(line.data))
    return message


def _value(data: bytes) -> object:
    """Return the JSON value of a line; raise NoMessage when there is none."""
    try:
        return json.loads(data.decode())
    except UnicodeDecodeError as exc:
        raise NoMessage(PARSE_ERROR, "the line is not UTF-8", _shown_id(data)) from exc
    except RecursionError as exc:
        raise NoMessage(PARSE_ERROR, "the line is nested too deeply", _shown_id(data)) from exc
    except ValueError as exc:
        raise NoMessage(PARSE_ERROR, "the line is not JSON", _shown_id(data)) from exc


def _shown_id(data: bytes) -> RequestId | None:
    """Return the id that either end of a line shows; in between it could be anything's."""
    found = _ID_FIRST.match(data[:_END_BYTES]) or _ID_LAST.search(data[-_END_BYTES:])
    with contextlib.suppress(ValueError):
        request_id: RequestId | None = json.loads(found[1]) if found else None
        return request_id
    return None


# --- the wire ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Wire:
    """Two descriptors, and the requests that came in by one and wait to leave by the other."""

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
        """Read no more; asked twice, wait for nothing either."""
        if self._is_stopped:
            self._waiting.cancel()
        self._is_stopped = True
        self._reading.cancel()

    # --- what comes in

    async def _read(self, to_server: _ToServer, answers: _FromServer) -> None:
        async with to_server, answers:
            with self._reading:
                cutter = LineCutter()
                while data := await self._next_bytes():
                    for line in cutter.feed(data):
                        await self._take(line, to_server, answers)
                for line in cutter.close():
                    await self._take(line, to_server, answers)
            with self._waiting, anyio.move_on_after(LAST_ANSWERS_SECONDS_MAX):
                await self._until_open(0)

    async def _next_bytes(self) -> bytes:
        # A file is always ready, and the loop refuses to wait for one.
        with contextlib.suppress(PermissionError):
            await anyio.wait_readable(self.source)
        try:
            return os.read(self.source, _READ_BYTES)
        except OSError:  # A terminal that hung up.
            return b""

    async def _take(self, line: Line, to_server: _ToServer, answers: _FromServer) -> None:
        try:
            message = read_message(line)
        except NoMessage as exc:
            _log.warning("a line on stdin was refused: %s", exc)
            await answers.send(SessionMessage(exc.answer))
            return
        if isinstance(message, JSONRPCRequest) and message.method not in _UNENDING:
            await self._until_open(REQUESTS_OPEN_MAX - 1)
            self._open.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._close((message.params or {}).get("requestId"))
        await to_server.send(SessionMessage(message))

    async def _until_open(self, count: int) -> None:
        """Wait until no more requests than that are open."""
        while len(self._open) > count:
            self._changed = anyio.Event()
            await self._changed.wait()

    def _close(self, request_id: object) -> None:
        if isinstance(request_id, (str, int)):
            self._open.discard(request_id)
            self._changed.set()

    # --- what goes out

    async def _write(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with from_server:
            async for each in from_server:
                try:
                    await self._send(_encoded(each.message))
                except OSError:
                    # Nobody is there to be answered; what was asked is done and ends all the same.
                    self._is_broken = True
                    self._reading.cancel()
                if isinstance(each.message, (JSONRPCResponse, JSONRPCError)):
                    self._close(each.message.id)
        self._written.set()

    async def _send(self, data: bytes) -> None:
        """Write in pieces that never block this thread; no buffer, so that nothing stays behind."""
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
        _log.exception("an answer cannot be written as JSON")
        assert isinstance(message, (JSONRPCResponse, JSONRPCError)), message
        error = ErrorData(code=INTERNAL_ERROR, message="the answer cannot be written as JSON")
        text = JSONRPCError(jsonrpc="2.0", id=message.id, error=error).model_dump_json()
    return text.encode() + b"\n"
