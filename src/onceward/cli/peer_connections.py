"""Peer connections: record the user id of each connection's peer, before its first request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

from onceward.http.guard import PEER_UID
from onceward.http.peers import uid_of_peer

if TYPE_CHECKING:
    import asyncio


class PeerAwareProtocol(H11Protocol):
    """HTTP, with the user id of the process at the other end in the `state` of every request.

    The id is read once per connection, because a later connection from the same port may be another
    user's.
    """

    def connection_made(  # type: ignore[override]  # as in the class above
        self, transport: asyncio.Transport
    ) -> None:
        """Read the peer's user id."""
        super().connection_made(transport)
        uid = uid_of_peer(transport.get_extra_info("socket"))
        self.app_state = {**self.app_state, PEER_UID: uid}
