"""MCP server: a slow or disconnected subscriber does not delay other clients."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.memory.mcp import mcp_server as server_module
from onceward.memory.mcp.mcp_server import GRAPH_URI, MemoryServer


class Subscriber:
    """A session on the other end of which something happens, or nothing."""

    def __init__(self, *, stuck: Counter[str] | None = None, is_gone: bool = False) -> None:
        #: Counts those who are stuck now, and at most; None for one that is not.
        self.stuck, self.is_gone = stuck, is_gone
        self.notified = 0

    async def send_resource_updated(self, uri: str) -> None:
        assert uri == GRAPH_URI
        if self.is_gone:
            raise BrokenPipeError
        if self.stuck is not None:
            self.stuck["now"] += 1
            self.stuck["most"] = max(self.stuck["most"], self.stuck["now"])
            try:
                await asyncio.Event().wait()
            finally:
                self.stuck["now"] -= 1
        self.notified += 1


def test_subscribers_that_are_stuck_or_gone_neither_stall_nor_fail_a_call(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are notified; those are waited for once, together, and dropped."""
    monkeypatch.setattr(server_module, "NOTIFY_SECONDS_MAX", 0.05)
    server = MemoryServer(ow)
    fine = [Subscriber(), Subscriber()]
    stuck = Counter[str]()
    bad = [Subscriber(stuck=stuck) for _ in range(50)] + [Subscriber(is_gone=True)]
    sessions: dict[str, Any] = {str(at): each for at, each in enumerate([fine[0], *bad, fine[1]])}
    server._subscribers.update(sessions)

    async def tell() -> None:
        async with asyncio.timeout(60):
            await server._notify_subscribers()
            await server._notify_subscribers()

    asyncio.run(tell())
    assert [each.notified for each in fine] == [2, 2]
    assert stuck == {"now": 0, "most": 50}
    assert list(server._subscribers) == ["0", "52"]
