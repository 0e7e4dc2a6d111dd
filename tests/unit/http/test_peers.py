"""Peers: which user is at the other end of a connection, by real sockets and the real kernel."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from onceward.http import peers
from onceward.http.peers import can_identify_peers, is_our_uid, uid_of_peer
from tests.support.namespaces import SECOND_UID

ROOT = Path(__file__).parent.parent.parent.parent


class Loopback:
    """A server's socket, and connections to it."""

    def __init__(self, family: int = socket.AF_INET, *, is_dual: bool = False) -> None:
        self._stack = ExitStack()
        address = "127.0.0.1" if family == socket.AF_INET else "::" if is_dual else "::1"
        made = socket.create_server((address, 0), family=family, dualstack_ipv6=is_dual)
        self.listener = self._stack.enter_context(made)
        self.listener.settimeout(120)  # ends a test that hangs
        self.port: int = self.listener.getsockname()[1]

    def connect(
        self, address: str = "127.0.0.1", family: int = socket.AF_INET, port: int = 0
    ) -> tuple[socket.socket, socket.socket]:
        """Return the client's end and the server's."""
        client = self._stack.enter_context(socket.socket(family))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if port:
            client.bind((address, port))
        client.connect((address, self.port))
        return client, self._stack.enter_context(self.listener.accept()[0])

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    made = Loopback()
    yield made
    made.close()


def test_h65_our_own_connection_is_ours(loopback: Loopback) -> None:
    """The kernel names the user who opened the other end."""
    _, accepted = loopback.connect()
    assert uid_of_peer(accepted) == os.geteuid()
    assert can_identify_peers() == is_our_uid(os.geteuid())


@pytest.mark.parametrize(
    ("server", "is_dual", "address", "client"),
    [
        (socket.AF_INET6, False, "::1", socket.AF_INET6),
        (socket.AF_INET6, True, "::1", socket.AF_INET6),
        (socket.AF_INET6, True, "127.0.0.1", socket.AF_INET),
        (socket.AF_INET6, True, "::ffff:127.0.0.1", socket.AF_INET6),
        (socket.AF_INET, False, "::ffff:127.0.0.1", socket.AF_INET6),
        (socket.AF_INET, False, "127.0.0.1", socket.AF_INET),
    ],
)
def test_h65_every_kind_of_loopback_address_is_recognised(
    server: int, is_dual: bool, address: str, client: int
) -> None:
    """IPv4, IPv6, and IPv4 wrapped in IPv6 at either end."""
    if not _has_ipv6() and socket.AF_INET6 in (server, client):
        pytest.skip("no IPv6 on this machine, so its addresses were not tried")
    loopback = Loopback(server, is_dual=is_dual)
    try:
        _, accepted = loopback.connect(address, client)
        assert uid_of_peer(accepted) == os.geteuid()
    finally:
        loopback.close()


def test_h65_a_peer_that_has_closed_is_unknown(loopback: Loopback) -> None:
    """A closed socket's row says root, or is gone; neither makes a caller the owner."""
    for end in ("close", "shutdown", "reset"):
        client, accepted = loopback.connect()
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        if end == "shutdown":
            client.shutdown(socket.SHUT_WR)
        elif end == "reset":
            _reset(client)
        else:
            client.close()
        assert uid_of_peer(accepted) is None, end


def test_h65_a_reused_port_identifies_no_user(loopback: Loopback) -> None:
    """What a reset connection sent is not its successor's, though address and port are the same.

    The port changes hands at the worst moment: after its address was read, before its row is.
    """
    client, accepted = loopback.connect()
    port = client.getsockname()[1]
    client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    successors: list[socket.socket] = []

    class TakenOver:
        getsockname = accepted.getsockname
        getsockopt = accepted.getsockopt

        @staticmethod
        def getpeername() -> tuple[str, int]:
            found: tuple[str, int] = accepted.getpeername()
            _reset(client)
            successors.append(loopback.connect(port=port)[1])
            return found

    assert uid_of_peer(TakenOver()) is None
    assert uid_of_peer(successors[0]) == os.geteuid()
    assert accepted.recv(100), "the request of the first one can still be read"
    assert uid_of_peer(accepted) is None


def test_a_peer_elsewhere_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only loopback connections have both ends in this kernel."""
    monkeypatch.setattr(peers, "_query_uid", None)
    for ours, theirs in (
        ("192.0.2.1", "192.0.2.1"),
        ("127.0.0.1", "192.0.2.1"),
        ("?", "127.0.0.1"),
    ):
        assert uid_of_peer(_Named(ours, theirs)) is None


def test_h65_without_the_kernels_answer_no_peer_is_the_owner(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandbox without sock_diag, or another system."""
    _, accepted = loopback.connect()
    real = socket.socket

    def refuse(family: int = -1, *arguments: int) -> socket.socket:
        if family == socket.AF_NETLINK:
            raise PermissionError
        return real(family, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", refuse)
        assert uid_of_peer(accepted) is None
    with monkeypatch.context() as patched:
        patched.setattr(sys, "platform", "darwin")
        assert uid_of_peer(accepted) is None
        assert not can_identify_peers()


def test_h65_the_overflow_user_owns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands for every user that a namespace does not know."""
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert not is_our_uid(65534)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert is_our_uid(1000)
    for uid in (0, 1001, 65534, None):
        assert not is_our_uid(uid)


def test_h65_in_a_user_namespace_without_users_no_peer_is_the_owner() -> None:
    """There everybody has the overflow uid, so that uid says nothing."""
    inside = ["unshare", "--user"]
    if subprocess.run([*inside, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no user namespaces for us here, so none was tried")
    script = (
        "import os; from onceward.http.peers import can_identify_peers; "
        "print(os.geteuid(), can_identify_peers())"
    )
    ran = subprocess.run(
        [*inside, sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "65534 False\n"


_AS_ANOTHER = """
import encodings.idna, os, socket, sys  # before the user changes, who may not read them
from onceward.http.peers import is_our_uid, uid_of_peer
uid, port = int(sys.argv[1]), int(sys.argv[2])
os.setgroups([]); os.setgid(uid); os.setuid(uid)
client = socket.create_connection(("127.0.0.1", port))
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
accepted, _ = listener.accept()
found = uid_of_peer(accepted)
print(found, is_our_uid(found), flush=True)
sys.stdin.read()
"""


@pytest.mark.usefixtures("second_user")
def test_h65_root_and_another_user_are_not_each_others_owner(loopback: Loopback) -> None:
    """A user is not the owner of root's server, and root is not the owner of a user's."""
    command = [sys.executable, "-c", _AS_ANOTHER, str(SECOND_UID), str(loopback.port)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        accepted, _ = loopback.listener.accept()
        with accepted, socket.create_connection(("127.0.0.1", int(process.stdout.readline()))):
            assert uid_of_peer(accepted) == SECOND_UID
            assert not is_our_uid(SECOND_UID)
            assert process.stdout.readline() == "0 False\n"
        process.communicate("")


def _reset(client: socket.socket) -> None:
    """Close it with a reset instead of an orderly end."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


class _Named:
    """A connection between two addresses."""

    def __init__(self, ours: str, theirs: str) -> None:
        self._ours, self._theirs = ours, theirs

    def getsockname(self) -> tuple[str, int]:
        return self._ours, 3939

    def getpeername(self) -> tuple[str, int]:
        return self._theirs, 50_000

    def getsockopt(self, _level: int, _name: int, _size: int, /) -> bytes:
        return b"\x01"
