"""Peer user: find the user who opened a loopback connection, from the kernel (`sock_diag`).

If the kernel does not answer, the user is unknown. Knows nothing of HTTP.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import struct
import sys
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, Protocol

#: The kernel reports this id for every user that is not mapped into our user namespace.
OVERFLOW_UID: Final = 65534
_OVERFLOW_FILE: Final = Path("/proc/sys/kernel/overflowuid")

# Constants of <linux/netlink.h>, <linux/sock_diag.h>, <linux/inet_diag.h> and <net/tcp_states.h>.
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_ANY_STATE: Final = 0xFFFFFFFF
_NO_COOKIE: Final = b"\xff" * 8
_ESTABLISHED: Final = 1
#: Length, type, flags, sequence number, port.
_HEADER: Final = struct.Struct("=IHHII")
#: Family, protocol, extensions, padding, states.
_REQUEST: Final = struct.Struct("=BBBBI")
#: Source port, destination port, source, destination.
_ADDRESSES: Final = struct.Struct("!HH16s16s")
#: Interface, cookie.
_REST: Final = struct.Struct("=I8s")
#: Family, state, timer, retransmits.
_ROW: Final = struct.Struct("=BBBB")
#: Interface, cookie, expires, receive queue, send queue, user id, inode.
_ROW_REST: Final = struct.Struct("=I8sIIIII")
_ANSWER_BYTES_MAX: Final = 8192

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class PeerSocket(Protocol):
    """The methods of `socket.socket` that `uid_of_peer` calls on the server's end."""

    def getsockname(self) -> tuple[str, int]: ...  # noqa: D102 - as in socket
    def getpeername(self) -> tuple[str, int]: ...  # noqa: D102 - the same
    def getsockopt(self, level: int, name: int, size: int, /) -> bytes: ...  # noqa: D102 - the same


class _Endpoint(NamedTuple):
    """One end of a connection; an IPv4-mapped IPv6 address is stored as IPv4."""

    address: _Address
    port: int


def uid_of_peer(connection: PeerSocket) -> int | None:
    """Return the user id of the process at the other end; None if it is unknown.

    It is known only for a loopback connection with both ends open: the kernel reports a closed
    socket with user id 0, which is root.
    """
    if sys.platform != "linux":
        return None
    try:
        ours, theirs = _endpoint(connection.getsockname()), _endpoint(connection.getpeername())
        if not (ours.address.is_loopback and theirs.address.is_loopback):
            return None
        uid = _query_uid(theirs, ours)
        # While our end is established, no other connection has these addresses and ports. So the
        # row belongs to our peer, not to a process that reused its port since.
        state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    except (OSError, ValueError, struct.error):
        return None
    return uid if state == _ESTABLISHED else None


def is_our_uid(uid: int | None) -> bool:
    """Return whether a user id is certainly that of this process."""
    return uid is not None and uid == os.geteuid() and uid not in _overflow_uids()


def can_identify_peers() -> bool:
    """Return whether this machine can identify peers of our user; opens a test connection."""
    with (
        contextlib.suppress(OSError),
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname(), timeout=1),
        listener.accept()[0] as accepted,
    ):
        return is_our_uid(uid_of_peer(accepted))
    return False


@cache
def _overflow_uids() -> frozenset[int]:
    with contextlib.suppress(OSError, ValueError):
        return frozenset({OVERFLOW_UID, int(_OVERFLOW_FILE.read_text("ascii"))})
    return frozenset({OVERFLOW_UID})


def _endpoint(name: tuple[str, int]) -> _Endpoint:
    address = ipaddress.ip_address(name[0])
    return _Endpoint(_unmapped(address), name[1])


def _unmapped(address: _Address) -> _Address:
    return getattr(address, "ipv4_mapped", None) or address


def _query_uid(source: _Endpoint, target: _Endpoint) -> int | None:
    """Return the user id of the socket from `source` to `target`; None unless it is established.

    The kernel answers synchronously, so this never waits.
    """
    family = socket.AF_INET if source.address.version == 4 else socket.AF_INET6
    request = b"".join(
        (
            _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE),
            _ADDRESSES.pack(source.port, target.port, source.address.packed, target.address.packed),
            _REST.pack(0, _NO_COOKIE),
        )
    )
    size = _HEADER.size + len(request)
    header = _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as netlink:
        netlink.sendto(header + request, (0, 0))
        answer, sender = netlink.recvfrom(_ANSWER_BYTES_MAX)
    if sender[0] != 0 or _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None  # Not from the kernel, or an error: there is no such socket.
    return _parse_uid(answer[_HEADER.size :], source, target)


def _parse_uid(row: bytes, source: _Endpoint, target: _Endpoint) -> int | None:
    family, state, _, _ = _ROW.unpack_from(row)
    source_port, target_port, *packed = _ADDRESSES.unpack_from(row, _ROW.size)
    length = 4 if family == socket.AF_INET else 16
    ends = [_unmapped(ipaddress.ip_address(each[:length])) for each in packed]
    *_, uid, inode = _ROW_REST.unpack_from(row, _ROW.size + _ADDRESSES.size)
    # Without an exact match the kernel may answer with a listening socket at that address.
    is_asked = (_Endpoint(ends[0], source_port), _Endpoint(ends[1], target_port)) == (
        source,
        target,
    )
    return uid if is_asked and state == _ESTABLISHED and inode != 0 else None
