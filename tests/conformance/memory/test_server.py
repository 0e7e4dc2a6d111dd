"""The memory server: who listens badly, or not any more, costs nobody else anything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onceward.handle import Onceward
from onceward.memory.mcp import server as server_module
from onceward.memory.mcp.server import GRAPH_URI, MemoryServer


class Subscriber:
    """A session on the other end of which something happens, or nothing."""

    def __init__(self, *, is_stuck: bool = False, is_gone: bool = False) -> None:
        self.is_stuck, self.is_gone = is_stuck, is_gone
        self.told = 0

    async def send_resource_updated(self, uri: str) -> None:
        assert uri == GRAPH_URI
        if self.is_gone:
            raise BrokenPipeError
        if self.is_stuck:
            await asyncio.Event().wait()
        self.told += 1


def test_subscribers_that_are_stuck_or_gone_neither_stall_nor_fail_a_call(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are told; those are waited for once, a little, and not told any more."""
    monkeypatch.setattr(server_module, "TELL_SECONDS_MAX", 0.05)
    server = MemoryServer(ow)
    fine = [Subscriber(), Subscriber()]
    bad = [Subscriber(is_stuck=True) for _ in range(50)] + [Subscriber(is_gone=True)]
    sessions: dict[str, Any] = {str(at): each for at, each in enumerate([fine[0], *bad, fine[1]])}
    server._subscribers.update(sessions)

    async def tell() -> None:
        async with asyncio.timeout(2):
            await server._tell()
            await server._tell()

    asyncio.run(tell())
    assert [each.told for each in fine] == [2, 2]
    assert list(server._subscribers) == ["0", "52"]
