"""Peers: which user opened a loopback connection, as the kernel's socket table (`sock_diag`) says.

Where the kernel does not answer, the user is unknown. Knows nothing of HTTP.
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

#: What stands in for every user that a user namespace does not know.
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


class Connection(Protocol):
    """What is asked of the server's end of a connection."""

    def getsockname(self) -> tuple[str, int]: ...  # noqa: D102 - as in socket
    def getpeername(self) -> tuple[str, int]: ...  # noqa: D102 - the same
    def getsockopt(self, level: int, name: int, size: int, /) -> bytes: ...  # noqa: D102 - the same


class _End(NamedTuple):
    """One end of a connection; an IPv4 address that IPv6 wraps is the IPv4 address."""

    address: _Address
    port: int


def uid_of_peer(connection: Connection) -> int | None:
    """Return the user id of the process at the other end; None when it is not known.

    It is known only for a loopback connection whose both ends are open: a closed socket belongs to
    no process, and its row says 0, which is root.
    """
    if sys.platform != "linux":
        return None
    try:
        ours, theirs = _end(connection.getsockname()), _end(connection.getpeername())
        if not (ours.address.is_loopback and theirs.address.is_loopback):
            return None
        uid = _uid_of_row(theirs, ours)
        # As long as our end is established, no other connection has these addresses and ports. So
        # the row was our peer's, and not that of a process that has taken over its port since.
        state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    except (OSError, ValueError, struct.error):
        return None
    return uid if state == _ESTABLISHED else None


def is_our_uid(uid: int | None) -> bool:
    """Tell whether it is the user of this process, and certainly so."""
    return uid is not None and uid == os.geteuid() and uid not in _overflow_uids()


def can_tell_owner() -> bool:
    """Tell whether a process of our user would be recognised here, by trying it."""
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


def _end(name: tuple[str, int]) -> _End:
    address = ipaddress.ip_address(name[0])
    return _End(_unwrapped(address), name[1])


def _unwrapped(address: _Address) -> _Address:
    return getattr(address, "ipv4_mapped", None) or address


def _uid_of_row(source: _End, target: _End) -> int | None:
    """Return the user of the socket from `source` to `target`; None unless it is open and in use.

    The kernel answers within the call that asks, so this never waits.
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
    with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as asking:
        asking.sendto(header + request, (0, 0))
        answer, sender = asking.recvfrom(_ANSWER_BYTES_MAX)
    if sender[0] != 0 or _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None  # not from the kernel, or an error: there is no such socket
    return _uid_in(answer[_HEADER.size :], source, target)


def _uid_in(row: bytes, source: _End, target: _End) -> int | None:
    family, state, _, _ = _ROW.unpack_from(row)
    source_port, target_port, *packed = _ADDRESSES.unpack_from(row, _ROW.size)
    length = 4 if family == socket.AF_INET else 16
    ends = [_unwrapped(ipaddress.ip_address(each[:length])) for each in packed]
    *_, uid, inode = _ROW_REST.unpack_from(row, _ROW.size + _ADDRESSES.size)
    # Without an exact match the kernel may answer with a listening socket at that address.
    is_asked = (_End(ends[0], source_port), _End(ends[1], target_port)) == (source, target)
    return uid if is_asked and state == _ESTABLISHED and inode != 0 else None
