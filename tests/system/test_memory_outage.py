"""A memory server whose PostgreSQL is missing, stops, freezes and recovers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from onceward.memory import Memory
from onceward.system import SystemClock
from onceward.testing.postgres import PostgresServer, _children
from tests.support.evidence import Entry, Evidence
from tests.support.mcp_clients import Pipe, pipe

#: Far more than anything here takes; a server that hangs is killed then, and the test fails.
HANG_SECONDS = 300
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    made = PostgresServer(is_synced=False)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def _serving(tmp_path: Path, url: str, *options: str) -> Iterator[Pipe]:
    with pipe(tmp_path, "--store", url, *options) as client:
        guard = threading.Timer(HANG_SECONDS, client.process.kill)
        guard.start()
        try:
            client.open()
            yield client
        finally:
            guard.cancel()


def _name(number: int) -> str:
    """Return a message without digits, which are part of no name."""
    return "boom " + " ".join(WORDS[int(digit)] for digit in str(number))


def _record(client: Pipe, number: int) -> str:
    """Record an error; returns what became of it."""
    client.call("record_error", message=_name(number), kind="E", detector="human")
    result = client.answer()["result"]
    assert not result.get("isError"), result
    assert result["structuredContent"]["name"] == f"err#{_name(number)}"
    status: str = result["structuredContent"]["entity"]
    return status


def _read(client: Pipe) -> dict[str, Any]:
    client.call("search_nodes", query="type:Error", limit=1)
    found: dict[str, Any] = client.answer()["result"]
    return found


def _until_direct(client: Pipe, number: int) -> int:
    """Record one after the other until one is written at once; returns the next number."""
    while _record(client, number) == "buffered":
        number += 1
        SystemClock().sleep(0.05)
    return number + 1


def _processes(server: PostgresServer) -> list[int]:
    assert server._process is not None
    return [server._process.pid, *_children(server._process.pid)]


def _all_once_in_order(url: str, count: int) -> None:
    with Memory.open(url) as memory:
        found = memory.graph.read().entities
        assert [each.name for each in found] == [f"err#{_name(each)}" for each in range(count)]
        assert {len(each.observations) for each in found} == {1}
        assert memory.graph.problems() == []


@pytest.mark.prove
def test_h63_the_store_goes_and_comes_back_under_a_memory_server(
    tmp_path: Path,
    server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    evidence: Evidence,
    *,
    prove: bool,
) -> None:
    """Away at the start, killed in the middle: every record is there once, in order."""
    monkeypatch.setenv("ONCEWARD_HOME", str(tmp_path / "home"))
    away_seconds, records = (60.0, 200) if prove else (0.0, 12)
    clock = SystemClock()
    with _serving(tmp_path, server.url) as client:
        client.request("tools/list")
        assert len(client.answer()["result"]["tools"]) == 17
        refused = _read(client)
        assert refused["isError"]
        assert refused["_meta"]["onceward/error"]["code"] == "UNAVAILABLE"
        fates = [_record(client, number) for number in range(3)]
        assert fates == ["buffered"] * 3
        server.start()
        number = _until_direct(client, 3)
        assert not _read(client).get("isError")

        server.kill()
        killed_at = clock.monotonic()
        for sent in range(records):
            status = _record(client, number)
            assert status == "buffered"
            number += 1
            clock.sleep(max(0.0, away_seconds * sent / records - (clock.monotonic() - killed_at)))
        assert _read(client)["isError"]
        # The same again waits once, and is one record.
        assert _record(client, number - 1) == "buffered"
        server.start()
        number = _until_direct(client, number)
        code, _, log = client.end()
        assert code == 0
    _all_once_in_order(server.url, number)
    assert log.count('"store.unavailable"') == 2
    assert log.count('"store.available"') == 2
    assert "call.timed_out" not in log
    evidence.record(
        Entry(
            campaign="records to a memory server whose database is killed",
            layer="postgres",
            claims=("M1", "M2"),
            engine="postgres",
            schedules=1,
            faults={"kill": 1},
            work=number,
        )
    )


def test_h63_a_frozen_store_is_reported_in_time(
    tmp_path: Path, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call waits longer than its timeout: reads fail by it, records are kept."""
    monkeypatch.setenv("ONCEWARD_HOME", str(tmp_path / "home"))
    server.start()
    with _serving(tmp_path, server.url, "--timeout", "0.5") as client:
        number = _until_direct(client, 0)
        pids = _processes(server)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            refused = _read(client)
            assert "did not answer within 0.5 s" in refused["content"][0]["text"]
            assert _record(client, number) == "buffered"
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        number = _until_direct(client, number + 1)
        _, _, log = client.end()
    _all_once_in_order(server.url, number)
    assert "call.timed_out" in log
