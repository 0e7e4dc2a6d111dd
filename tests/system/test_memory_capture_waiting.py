"""`onceward memory capture` while another process writes records that waited."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onceward.memory.buffer import Buffer, directory_for
from onceward.memory.replaying import of_same_store, replay
from tests.system.capture_place import Place, place

__all__ = ["place"]

ERROR = {"message": "boom", "kind": "E", "detector": "human"}


def test_h63_a_capture_does_not_overtake_records_that_another_process_writes(
    place: Place, tmp_path: Path
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
                assert "older records wait to be written" in first.stderr
                second = place.run("capture", "--json", "--", "sh", "-c", "exit 4")
                assert second.returncode == 4
                told = json.loads(second.stdout)
                assert (told["recorded"], told["buffered"]) == (False, True)
                assert memory.graph.counts().entities == 0
            replay(call, of_same_store(memory))

        assert buffer.replay(do) == 3
        assert done == ["record_error", "capture", "capture"]
        assert buffer.pending() == 0
        names = [each.name for each in memory.graph.read().entities]
    assert names[0] == "err#boom"
    assert len([each for each in names if each.startswith("run#")]) == 2
    after = place.capture("sh", "-c", "exit 5")
    assert "memory: recorded, exit code 5" in after.stderr
