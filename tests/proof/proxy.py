"""Proxy: a wire between a client and a server that delays, loses, cuts and repeats on request.

Owns what happens to bytes. Knows HTTP only as far as it repeats whole requests. One thing is done
at a time: each command ends the one before, and holds for open connections and new ones.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, Self

Direction = Literal["request", "answer"]

CONNECT_SECONDS_MAX: Final = 5.0
_CHUNK_BYTES: Final = 65536
#: Closes at once, with a reset instead of a good-bye.
_AT_ONCE: Final = struct.pack("ii", 1, 0)
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Plan:
    """What is done to bytes until the next command."""

    delay_seconds: float = 0.0
    #: Carry so many bytes in this direction; None for all.
    bytes_max: int | None = None
    direction: Direction | None = None
    #: Cut the connection after them, instead of being silent.
    is_cut: bool = False
    is_black: bool = False
    is_double: bool = False


@dataclass(kw_only=True)
class _Losing:
    """Which message of a client is the last one of its connection."""

    marker: bytes
    #: How many that contain the marker are still let through.
    left: int
    #: Whether the message arrives, and only its answer does not.
    arrives: bool


class _Connection:
    """A client and the server it talks to."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.plan: _Plan | None = None
        self.carried = 0
        self.held = b""
        #: Directions in which bytes were lost, so that nothing is carried there any more.
        self.silent: set[Direction] = set()
        self.is_ended = False
        self.is_losing = False
        self.thread = threading.Thread()

    def end(self, how: int) -> None:
        """Wake threads that read, or also write, here; the connection is closed by its thread."""
        self.is_ended = True
        for each in (self.client, self.server):
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                each.shutdown(how)

    def close_client(self) -> None:
        """Reset the client alone."""
        with suppress(OSError):
            self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.client.close()


class Proxy:
    """Listens on a port of 127.0.0.1 in threads of its own, in front of a server."""

    def __init__(self, host: str, port: int) -> None:
        """Stand in front of this server; whether it is up is asked at each connection."""
        self._server = (host, port)
        # Bound and never listening, so that no other process gets the port while we refuse.
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._place.bind(("127.0.0.1", 0))
        self.port: int = self._place.getsockname()[1]
        #: What was done, by kind, counted when it hit something.
        self.faults: Counter[str] = Counter()
        self._mutex = threading.Lock()
        self._closing = threading.Event()
        self._plan = _Plan()
        self._losing: _Losing | None = None
        self._open: set[_Connection] = set()
        self._repeats: list[threading.Thread] = []
        self._listening: socket.socket | None = None
        self._accepting = threading.Thread()
        self._listen()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- commands -------------------------------------------------------------------------------

    def pass_everything(self) -> None:
        """Carry everything from now on; what has lost bytes is reset, as it makes no sense now."""
        self._do(_Plan())
        for each in self._opened():
            if each.silent:
                each.end(socket.SHUT_RD)
                each.thread.join()
        self._listen()

    def delay(self, seconds: float) -> None:
        """Let every piece wait, in both directions."""
        self._do(_Plan(delay_seconds=seconds))

    def drop_after(self, count: int, direction: Direction, *, is_cut: bool = False) -> None:
        """Carry so many bytes of each connection in this direction; then be silent, or cut it."""
        self._do(_Plan(bytes_max=count, direction=direction, is_cut=is_cut))

    def blackhole(self) -> None:
        """Accept, and carry nothing."""
        self._do(_Plan(is_black=True))

    def refuse(self) -> None:
        """Refuse new connections, as if no process listened; open ones go on."""
        self._do(_Plan())
        if self._listening is not None:
            with suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)
            self._accepting.join()
            self._listening.close()
            self._listening = None

    def reset(self) -> None:
        """Reset all connections that are open, on both sides; new ones are welcome."""
        for each in self._opened():
            each.end(socket.SHUT_RD)
            each.thread.join()
            self.faults["reset"] += 1

    def duplicate(self) -> None:
        """Send every HTTP request twice, on two connections; the client gets one of the answers."""
        self._do(_Plan(is_double=True))

    def lose_answer_to(self, marker: bytes, nth: int = 1) -> None:
        """Let the nth message with this in it arrive, and cut before its answer is delivered."""
        self._losing = _Losing(marker=marker, left=nth, arrives=True)

    def lose_message_with(self, marker: bytes, nth: int = 1) -> None:
        """Cut instead of carrying the nth message with this in it."""
        self._losing = _Losing(marker=marker, left=nth, arrives=False)

    @property
    def has_lost(self) -> bool:
        """Say whether the message that was to be lost came by."""
        return self._losing is None

    def close(self) -> None:
        """End everything."""
        self.refuse()
        self._closing.set()
        for each in self._opened():
            each.end(socket.SHUT_RDWR)
            each.thread.join()
        for repeat in self._repeats:
            repeat.join()
        self._place.close()

    # --- connections ----------------------------------------------------------------------------

    def _do(self, plan: _Plan) -> None:
        self._plan = plan

    def _opened(self) -> list[_Connection]:
        with self._mutex:
            return list(self._open)

    def _listen(self) -> None:
        if self._listening is None:
            self._listening = socket.create_server(("127.0.0.1", self.port), backlog=128)
            self._accepting = threading.Thread(target=self._accept, args=[self._listening])
            self._accepting.start()

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                try:
                    server = socket.create_connection(self._server, CONNECT_SECONDS_MAX)
                except OSError:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                    client.close()
                    continue
                server.settimeout(None)
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = _Connection(client, server)
                connection.thread = threading.Thread(target=self._serve, args=[connection])
                with self._mutex:  # A thread that finds it may wait for its thread.
                    self._open.add(connection)
                    connection.thread.start()

    def _serve(self, connection: _Connection) -> None:
        answers = threading.Thread(target=self._carry, args=[connection, "answer"])
        answers.start()
        self._carry(connection, "request")
        if connection.is_losing:
            connection.close_client()  # The answer is here. What else was sent, the server reads.
        answers.join()
        with self._mutex:
            self._open.discard(connection)
        connection.client.close()
        connection.server.close()

    def _carry(self, connection: _Connection, direction: Direction) -> None:
        ends = (connection.client, connection.server)
        source, target = ends if direction == "request" else ends[::-1]
        passes = self._request if direction == "request" else self._answer
        try:
            while data := source.recv(_CHUNK_BYTES):
                if not passes(connection, data):
                    return
        except OSError:
            connection.end(socket.SHUT_RD)
        is_lost = connection.is_losing and direction == "answer"  # So is the good-bye after it.
        if not (connection.is_ended or is_lost or direction in connection.silent):
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)

    # --- bytes ----------------------------------------------------------------------------------

    def _request(self, connection: _Connection, data: bytes) -> bool:
        """Carry what a client said; False when it is not heard any more."""
        lost = self._is_lost(data)
        if lost is not None:
            self.faults["answer lost" if lost.arrives else "message lost"] += 1
            if not lost.arrives:
                connection.end(socket.SHUT_RD)
                return False
            connection.is_losing = True
        if connection.is_losing:  # The rest of the message too, if it comes in pieces.
            connection.server.sendall(data)
            return True
        if self._plan.is_double or connection.held:
            connection.held += data
            while whole := self._whole_request(connection):
                if self._plan.is_double:
                    self._send_beside(whole)
                connection.server.sendall(whole)
            return True
        return self._pass(connection, "request", data)

    def _answer(self, connection: _Connection, data: bytes) -> bool:
        """Carry what the server said; the answer that is to be lost is read, and no more."""
        if connection.is_losing:
            with suppress(OSError):
                connection.client.shutdown(socket.SHUT_RD)
            return True
        return self._pass(connection, "answer", data)

    def _pass(self, connection: _Connection, direction: Direction, data: bytes) -> bool:
        target = connection.server if direction == "request" else connection.client
        plan = self._plan
        if plan.delay_seconds:
            self.faults["delayed"] += 1
            self._closing.wait(plan.delay_seconds)
        left = len(data)
        if plan.is_black or direction in connection.silent:
            left = 0
        elif plan.direction == direction and plan.bytes_max is not None:
            if connection.plan is not plan:
                connection.plan, connection.carried = plan, 0
            left = min(left, plan.bytes_max - connection.carried)
            connection.carried += left
        if left:
            target.sendall(data[:left])
        if left < len(data) and direction not in connection.silent:
            self.faults["cut" if plan.is_cut else "silent"] += 1
            if plan.is_cut:
                connection.end(socket.SHUT_RD)
                return False
            connection.silent.add(direction)
        return True

    def _is_lost(self, data: bytes) -> _Losing | None:
        with self._mutex:
            losing = self._losing
            if losing is None or losing.marker not in data:
                return None
            losing.left -= data.count(losing.marker)
            if losing.left > 0:
                return None
            self._losing = None
            return losing

    def _whole_request(self, connection: _Connection) -> bytes:
        """Return the first request that is held here whole."""
        if not self._plan.is_double:
            whole, connection.held = connection.held, b""
            return whole
        head, ending, _ = connection.held.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        size = len(head) + len(ending) + (int(length[1]) if length else 0)
        if not ending or size > len(connection.held):
            return b""
        whole, connection.held = connection.held[:size], connection.held[size:]
        return whole

    def _send_beside(self, request: bytes) -> None:
        """Send it on a connection of its own, and wait for its answer without showing it."""

        def send() -> None:
            with (
                suppress(OSError),
                socket.create_connection(self._server, CONNECT_SECONDS_MAX) as server,
            ):
                server.sendall(request)
                if server.recv(_CHUNK_BYTES):
                    self.faults["doubled"] += 1

        self._repeats.append(threading.Thread(target=send))
        self._repeats[-1].start()
