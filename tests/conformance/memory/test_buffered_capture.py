"""Buffered captures contain no secrets, and a replay of a completed call is idempotent."""

import asyncio
import json
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.memory import Memory
from onceward.memory.buffered_records import buffer_capture, buffer_fix, replay
from onceward.memory.capture.command_capture import CommandContext, capture
from onceward.memory.capture.run_command import CommandResult
from onceward.memory.client import in_context
from onceward.memory.envelope import parse
from onceward.memory.mcp import tools
from onceward.memory.mcp.mcp_server import MemoryServer
from onceward.memory.offline_buffer import Buffer, BufferedCall
from onceward.system.redaction import REDACTED, Redactor

HANG_SECONDS = 60
#: A key of several lines, with characters that JSON writes as escape sequences.
SECRET = 'ab"c\\d\u00e9f-first\nsecond-line'
PLACE = CommandContext(cwd="/srv/shop", mode="debugger", repo="acme/shop", branch="main")
URL = "https://docs.example.org/a"


def _passed(stdout: str) -> CommandResult:
    return CommandResult(
        cmd="make check",
        exit_code=1,
        started_at="2026-01-01T00:00:00.000Z",
        ended_at="2026-01-01T00:00:02.000Z",
        duration_ms=2000,
        stdout=stdout,
        stderr="",
    )


def _colored(text: str) -> str:
    return "".join(f"\x1b[3{at % 8}m{each}" for at, each in enumerate(text)) + "\x1b[0m"


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(json.dumps({"env": SECRET}), id="JSON, ASCII only"),
        pytest.param(json.dumps({"env": SECRET}, ensure_ascii=False), id="JSON, any characters"),
        pytest.param('{"password": "ab\\"c\\u0041first\\nsecond-line"}', id="JSON, any escapes"),
        pytest.param("\n".join(map(_colored, SECRET.splitlines())), id="colours"),
    ],
)
def test_h63_a_secret_with_escape_sequences_does_not_wait_on_disk(
    ow: Onceward, tmp_path: Path, shown: str
) -> None:
    """It is redacted as a whole; all else is kept, and replayed as it would have been recorded."""
    memory = Memory(ow, redactor=Redactor([SECRET]))
    buffer = Buffer(tmp_path / "b")
    passed = _passed(f'error: bad "path\\u0041"\n{shown}\nthe\tend \\n \u00fc\n')
    assert buffer_capture(buffer, memory, passed, PLACE)
    assert not buffer_capture(buffer, memory, passed, PLACE)
    [kept] = (tmp_path / "b").glob("*.json")
    waiting = json.loads(kept.read_text())["result"]["stdout"]
    assert REDACTED in waiting
    for part in ("first", "second", "u0041first"):
        assert part not in kept.read_text()
    assert waiting.startswith('error: bad "path\\u0041"\n')
    assert waiting.endswith("\nthe\tend \\n \u00fc\n")
    assert buffer.replay(lambda call: replay(call, partial(in_context, memory))) == 1
    before = memory.read_graph()
    assert 'err#bad "path\\u0041"' in [each["name"] for each in before["entities"]]
    captured = capture(memory, passed, PLACE)
    assert memory.read_graph() == before
    [command] = memory.graph.open([captured.command]).entities
    fact = parse(command.observations[0].content)
    assert fact is not None
    assert fact.data["stdoutHead"] == waiting


def test_h63_a_replayed_capture_reports_its_own_issue_as_new(ow: Onceward, tmp_path: Path) -> None:
    """It is recorded again to tell what is known; its own record is not what was known before."""
    memory, buffer = Memory(ow), Buffer(tmp_path / "b")
    old = replace(_passed("error: old\n"), started_at="2025-01-01T00:00:00.000Z")
    capture(memory, old, PLACE)
    passed = _passed("error: old\nerror: new\n")
    buffer_capture(buffer, memory, passed, PLACE)
    assert buffer.replay(lambda call: replay(call, partial(in_context, memory))) == 1
    reported = {each.name: each for each in capture(memory, passed, PLACE).issues}
    assert (reported["err#new"].is_new, reported["err#new"].known) == (True, None)
    assert not reported["err#old"].is_new
    assert reported["err#old"].known


def test_h63_a_fix_that_waited_counts_as_one_that_was_recorded_at_once(
    ow: Onceward, tmp_path: Path
) -> None:
    """Replayed twice it counts once; applied again after its issue came back, it counts again."""
    memory, buffer = Memory(ow, redactor=Redactor([SECRET])), Buffer(tmp_path / "b")
    facts = {"issue": "old", "strategy": f"use {SECRET}"}
    for minute in (0, 3):
        failed = replace(_passed("error: old\n"), **_minute(minute))
        works = replace(_passed("fine\n"), exit_code=0, **_minute(minute + 2))
        applied = {**facts, "ts": f"2026-01-01T00:{minute + 1:02}:00.000Z"}
        buffer_capture(buffer, memory, failed, PLACE)
        assert buffer_fix(buffer, memory, applied, ("cli", "", "", ""))
        assert not buffer_fix(buffer, memory, applied, ("cli", "", "", ""))
        buffer_capture(buffer, memory, works, PLACE)
    assert not [path for path in (tmp_path / "b").glob("*") if "second-line" in path.read_text()]

    def do_twice(call: BufferedCall) -> None:
        for _ in range(2):
            replay(call, partial(in_context, memory))

    assert buffer.replay(do_twice) == 6
    [fix] = memory.recall("err#old")["fixes"]
    assert (fix["strategy"], fix["verified"]) == (f"use {REDACTED}", 2)


def _minute(minute: int) -> dict[str, Any]:
    return {
        "started_at": f"2026-01-01T00:{minute:02}:00.000Z",
        "ended_at": f"2026-01-01T00:{minute:02}:02.000Z",
    }


def test_h63_a_document_whose_call_timed_out_is_noted_once(
    ow: Onceward, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the call is done after all, after the record that was kept in its place."""
    for call_seconds in (0.05, 1.0, 20.0):
        server = MemoryServer(
            ow, buffer=Buffer(tmp_path / f"{call_seconds}"), call_seconds=call_seconds
        )
        with monkeypatch.context() as patch:
            reported = timed_out(server, patch)
        if reported is not None:
            break
    assert reported is not None, "no call was begun in time"
    assert reported["observation"] == "buffered"
    [doc] = server._memory_for("mcp", "", "", "").graph.open([reported["name"]]).entities
    assert len(doc.observations) == 1


def timed_out(server: MemoryServer, patch: pytest.MonkeyPatch) -> dict[str, Any] | None:
    """Let a call time out while it writes, and end after its replay; None if it was not begun."""
    breaker = server.breaker
    assert breaker is not None
    breaker.start()
    graph = server._memory_for("mcp", "", "", "").graph
    real = graph.write
    has_begun, has_reported, may_write, has_written = (threading.Event() for _ in range(4))

    def write(*given: Any) -> Any:
        if threading.current_thread().name == "memory-recovery":
            assert has_reported.wait(HANG_SECONDS)
            return real(*given)
        has_begun.set()
        assert may_write.wait(HANG_SECONDS)
        written = real(*given)
        has_written.set()
        return written

    patch.setattr(graph, "write", write)

    async def call() -> dict[str, Any] | None:
        answer = await server._run_tool(tools.available_tools()["record_doc"], {"url": URL}, "mcp")
        was_begun = has_begun.is_set()
        has_reported.set()
        assert await asyncio.to_thread(breaker.is_recovered.wait, HANG_SECONDS)
        may_write.set()
        if was_begun:
            assert await asyncio.to_thread(has_written.wait, HANG_SECONDS)
        return answer.data if was_begun else None

    reported = asyncio.run(call())
    breaker.close()
    return reported
