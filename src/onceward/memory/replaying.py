"""Replaying: a record or a capture that waited on disk, done as it would have been then.

Owns the form in which calls wait. Every one of them changes nothing when it is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from onceward.memory.buffer import Buffer
from onceward.memory.capture.capturing import Place, capture
from onceward.memory.capture.issues import plain
from onceward.memory.capture.passing import Passed
from onceward.memory.client import Memory

#: Source, mode, repo and branch of a record.
Where = tuple[str, str, str, str]
MakeMemory = Callable[[str, str, str, str], Memory]
_CAPTURE: Final = "capture"


def keep_record(buffer: Buffer, method: str, facts: Mapping[str, Any], where: Where) -> bool:
    """Keep a call of one of the memory's `record_…` methods; its facts have no secrets any more."""
    identity = [method, where, {name: facts[name] for name in facts if name != "ts"}]
    return buffer.append({"method": method, "where": where, "facts": facts}, identity)


def keep_capture(buffer: Buffer, memory: Memory, passed: Passed, place: Place) -> bool:
    """Keep a command that ran, without secrets."""
    # A secret is not recognised with an escape sequence inside it.
    shown = replace(passed, stdout=plain(passed.stdout), stderr=plain(passed.stderr))
    clean = memory.graph.redactor.value({"passed": asdict(shown), "place": asdict(place)})
    assert isinstance(clean, dict), type(clean)
    return buffer.append({"method": _CAPTURE, **clean}, [_CAPTURE, clean])


def of_same_store(memory: Memory) -> MakeMemory:
    """Return what makes memories of the same store that write as other sources."""
    graph = memory.graph

    def make(source: str, mode: str, repo: str, branch: str) -> Memory:
        return Memory(
            memory.ow,
            validation=graph.validation,
            root=graph.root,
            source=source,
            mode=mode,
            repo=repo,
            branch=branch,
            redactor=graph.redactor,
        )

    return make


def replay(call: Mapping[str, Any], make_memory: MakeMemory) -> None:
    """Do what waited."""
    if call["method"] == _CAPTURE:
        capture(
            make_memory("capture", "", "", ""), Passed(**call["passed"]), Place(**call["place"])
        )
        return
    method: str = call["method"]
    if not method.startswith("record_"):
        message = f"{method[:80]!r} is no record"
        raise ValueError(message)
    getattr(make_memory(*call["where"]), method)(**call["facts"])
