"""The proxy does to a wire what it says."""

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.proof.proxy import Proxy
from tests.support.background_servers import in_background

PATIENCE_SECONDS = 60.0
#: How long it takes to believe that nothing comes.
SILENCE_SECONDS = 0.1
REQUEST = b"POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 3\r\n\r\nabc"


class Echo(socketserver.ThreadingTCPServer):
    """Answers each piece with the same piece in capitals, and keeps what it got."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), EchoHandler)
        self.heard: list[bytes] = []
        self.changed = threading.Condition()

    def wait_heard(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.heard) >= count, PATIENCE_SECONDS)


class EchoHandler(socketserver.BaseRequestHandler):
    """One connection."""

    def handle(self) -> None:
        assert isinstance(self.server, Echo)
        try:
            while data := self.request.recv(65536):
                with self.server.changed:
                    self.server.heard.append(data)
                    self.server.changed.notify_all()
                self.request.sendall(data.upper())
        except ConnectionError:
            return


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server, in_background(server):
        yield server


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", echo.server_address[1]) as made:
        yield made


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), PATIENCE_SECONDS)


def ask(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    return client.recv(65536)


def is_silent(client: socket.socket) -> bool:
    client.settimeout(SILENCE_SECONDS)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(PATIENCE_SECONDS)
    return False


def test_everything_passes(proxy: Proxy, echo: Echo) -> None:
    """Bytes and the end of them arrive on the other side, and nothing counts as a fault."""
    with connect(proxy) as client:
        assert ask(client, b"hello") == b"HELLO"
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    assert echo.heard == [b"hello"]
    assert not proxy.faults


def test_bytes_are_dropped_after_the_nth(proxy: Proxy, echo: Echo) -> None:
    """The server hears so many, then nothing; once everything passes that connection is reset."""
    proxy.drop_after(3, "request")
    with connect(proxy) as client:
        assert ask(client, b"hello") == b"HEL"
        client.sendall(b"more")
        assert is_silent(client)
        proxy.pass_everything()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with connect(proxy) as client:
        assert ask(client, b"again") == b"AGAIN"
    assert echo.heard == [b"hel", b"again"]
    assert proxy.faults == {"silent": 1}


def test_answers_are_cut_after_the_nth_byte(proxy: Proxy) -> None:
    """The client gets so many bytes and a reset."""
    proxy.drop_after(2, "answer", is_cut=True)
    with connect(proxy) as client:
        client.sendall(b"hello")
        with pytest.raises(ConnectionResetError):
            assert len(client.recv(65536)) == 2
            client.recv(1)
    assert proxy.faults == {"cut": 1}


def test_a_reset_ends_what_is_open(proxy: Proxy) -> None:
    """Both sides are reset, and the next connection is served."""
    with connect(proxy) as client:
        assert ask(client, b"a") == b"A"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with connect(proxy) as client:
        assert ask(client, b"b") == b"B"
    assert proxy.faults == {"reset": 1}


def test_a_black_hole_and_a_closed_door(proxy: Proxy, echo: Echo) -> None:
    """The one is silent, the other refuses connections, until everything passes again."""
    proxy.blackhole()
    with connect(proxy) as client:
        client.sendall(b"lost")
        assert is_silent(client)
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    proxy.pass_everything()
    with connect(proxy) as client:
        assert ask(client, b"found") == b"FOUND"
    assert echo.heard == [b"found"]


def test_delays(proxy: Proxy) -> None:
    """What is said takes a while in both directions."""
    proxy.delay(SILENCE_SECONDS)
    with connect(proxy) as client:
        client.sendall(b"a")
        assert is_silent(client)
        assert client.recv(1) == b"A"
    assert proxy.faults == {"delayed": 2}


def test_requests_are_doubled(proxy: Proxy, echo: Echo) -> None:
    """A request that comes in pieces is sent twice and whole; its client gets one answer."""
    proxy.duplicate()
    with connect(proxy) as client:
        client.sendall(REQUEST[:20])
        assert is_silent(client)
        assert ask(client, REQUEST[20:]) == REQUEST.upper()
        echo.wait_heard(2)
        assert is_silent(client)
    assert echo.heard == [REQUEST, REQUEST]


@pytest.mark.parametrize(
    ("lose", "heard"),
    [
        (Proxy.lose_answer_to, [b"first commit", b"begin", b"commit", b"new"]),
        (Proxy.lose_message_with, [b"first commit", b"begin", b"new"]),
    ],
)
def test_an_answer_is_lost(
    proxy: Proxy, echo: Echo, lose: Callable[[Proxy, bytes, int], None], heard: list[bytes]
) -> None:
    """The second message with the word in it arrives or not; its answer never does."""
    lose(proxy, b"commit", 2)
    with connect(proxy) as other, connect(proxy) as client:
        assert ask(other, b"first commit") == b"FIRST COMMIT"
        assert ask(client, b"begin") == b"BEGIN"
        assert not proxy.has_lost
        client.sendall(b"commit")
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert proxy.has_lost
        assert ask(other, b"new") == b"NEW"
    assert echo.heard == heard
