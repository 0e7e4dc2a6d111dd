"""`onceward memory capture` and `fix` while another process replays buffered records."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from onceward.memory.buffered_records import replay
from onceward.memory.client import in_context
from onceward.memory.offline_buffer import Buffer, directory_for
from tests.support.memory_commands import MemoryDirectory, place, python

__all__ = ["place"]

ERROR = {"message": "boom", "kind": "E", "detector": "human"}


def test_h63_a_capture_does_not_overtake_records_that_another_process_writes(
    place: MemoryDirectory, tmp_path: Path
) -> None:
    """It waits after them, says so, and the other process writes it."""
    from onceward.memory import Memory

    home = tmp_path / "home"
    place.environment["ONCEWARD_HOME"] = str(home)
    with Memory.open(place.environment["ONCEWARD_STORE"]) as memory:
        buffer = Buffer(directory_for(home, memory.graph.store.address))
        where = ("mcp:test", "", "", "")
        buffer.append({"method": "record_error", "where": where, "facts": ERROR}, 0)
        done: list[str] = []

        def do(call: Mapping[str, Any]) -> None:
            done.append(call["method"])
            if len(done) == 1:
                first = place.capture("sh", "-c", "exit 3")
                assert first.returncode == 3
                assert "older records are being written" in first.stderr
                second = place.run("capture", "--json", "--", "sh", "-c", "exit 4")
                assert second.returncode == 4
                reported = json.loads(second.stdout)
                assert (reported["recorded"], reported["buffered"]) == (False, True)
                assert memory.graph.counts().entities == 0
            replay(call, partial(in_context, memory))

        assert buffer.replay(do) == 3
        assert done == ["record_error", "capture", "capture"]
        assert buffer.pending() == 0
        names = [each.name for each in memory.graph.read().entities]
    assert names[0] == "err#boom"
    assert len([each for each in names if each.startswith("run#")]) == 2
    after = place.capture("sh", "-c", "exit 5")
    assert "memory: recorded, exit code 5" in after.stderr


def test_h63_a_fix_does_not_overtake_records_that_another_process_writes(
    place: MemoryDirectory, tmp_path: Path
) -> None:
    """Its issue is one of them. It waits, says so, and is written after its issue."""
    from onceward.memory import Memory

    home = tmp_path / "home"
    place.environment["ONCEWARD_HOME"] = str(home)
    with Memory.open(place.environment["ONCEWARD_STORE"]) as memory:
        buffer = Buffer(directory_for(home, memory.graph.store.address))
        where = ("mcp:test", "", "", "")
        buffer.append({"method": "record_error", "where": where, "facts": ERROR}, 0)
        buffered: list[dict[str, Any]] = []

        def do(call: Mapping[str, Any]) -> None:
            if not buffered:
                buffered.append(place.json("fix", "err#boom", "--strategy", "duck"))
                by_message = place.run("fix", "boom", "--strategy", "run")
                assert by_message.returncode == 0, by_message.stderr
                assert "older records are being written" in by_message.stderr
                assert "buffered: fix#" in by_message.stdout
                assert "provisional" in by_message.stdout
                refused = place.run("fix", "boom", "--strategy", "s", "--doc", "no url")
                assert refused.returncode != 0
                assert memory.graph.counts().entities == 0
            replay(call, partial(in_context, memory))

        assert buffer.replay(do) == 3
        names = [each.name for each in memory.graph.read().entities]
    assert names[:2] == ["err#boom", buffered[0]["name"]]
    assert (buffered[0]["entity"], buffered[0]["observation"]) == ("buffered", "buffered")
    again = place.run("fix", "boom", "--strategy", "duck")
    assert again.stdout == f"known already: {buffered[0]['name']}\n"


def test_h63_a_capture_ends_though_the_process_that_writes_older_records_is_stopped(
    place: MemoryDirectory, tmp_path: Path
) -> None:
    """Its record waits on disk; once the other process is gone, the next command writes both."""
    from onceward.memory import Memory

    home = tmp_path / "home"
    place.environment["ONCEWARD_HOME"] = str(home)
    with Memory.open(place.environment["ONCEWARD_STORE"]) as memory:
        buffer = Buffer(directory_for(home, memory.graph.store.address))
        where = ("mcp:test", "", "", "")
        buffer.append({"method": "record_error", "where": where, "facts": ERROR}, 0)
        program = (
            "import os, signal, sys\n"
            "from pathlib import Path\n"
            "from onceward.memory.offline_buffer import Buffer\n"
            "def stop(_): os.kill(os.getpid(), signal.SIGSTOP)\n"
            "Buffer(Path(sys.argv[1])).replay(stop)\n"
        )
        holder = subprocess.Popen([*python(program), str(buffer.directory)])
        try:
            _, status = os.waitpid(holder.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            first = place.capture("sh", "-c", "exit 3")
            assert first.returncode == 3
            assert "older records are being written" in first.stderr
            assert buffer.pending() == 2
        finally:
            holder.kill()
            holder.wait()
        second = place.capture("sh", "-c", "exit 4")
        assert "memory: recorded, exit code 4" in second.stderr
        assert buffer.pending() == 0
        names = [each.name for each in memory.graph.read().entities]
    assert names[0] == "err#boom"
    assert len([each for each in names if each.startswith("run#")]) == 2
