"""Replaying: a record, a fix or a capture that waited on disk, done as it would have been then.

Owns the form in which calls wait, with the root and the validation of the memory that kept them:
another process may replay them. Every one of them changes nothing when it is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from onceward.memory.buffer import Buffer
from onceward.memory.capture.capturing import SOURCE, Place, capture
from onceward.memory.capture.fixing import apply_fix
from onceward.memory.capture.issues import plain
from onceward.memory.capture.passing import Passed
from onceward.memory.client import Memory
from onceward.memory.graph import Graph

#: Source, mode, repo and branch of a record.
Where = tuple[str, str, str, str]
MakeMemory = Callable[[str, str, str, str], Memory]
_CAPTURE: Final = "capture"
#: As `onceward memory fix` records it: which attempt it is, is found out when it is written.
_FIX: Final = "fix"


def keep_record(
    buffer: Buffer, graph: Graph, method: str, facts: Mapping[str, Any], where: Where
) -> bool:
    """Keep a call of one of the memory's `record_…` methods; its facts have no secrets any more."""
    rules = _rules(graph)
    identity = [method, where, {name: facts[name] for name in facts if name != "ts"}, rules]
    return buffer.append({"method": method, "where": where, "facts": facts, **rules}, identity)


def keep_capture(buffer: Buffer, memory: Memory, passed: Passed, place: Place) -> bool:
    """Keep a command that ran, without secrets."""
    # A secret is not recognised with an escape sequence inside it.
    shown = replace(passed, stdout=plain(passed.stdout), stderr=plain(passed.stderr))
    clean = memory.graph.redactor.value({"passed": asdict(shown), "place": asdict(place)})
    assert isinstance(clean, dict), type(clean)
    rules = _rules(memory.graph)
    return buffer.append({"method": _CAPTURE, **clean, **rules}, [_CAPTURE, clean, rules])


def keep_fix(buffer: Buffer, memory: Memory, facts: Mapping[str, Any], where: Where) -> bool:
    """Keep a fix that a person reported, without secrets; the same later is another attempt."""
    redactor = memory.graph.redactor
    clean = {"where": [redactor.text(each) for each in where], "facts": redactor.value(dict(facts))}
    rules = _rules(memory.graph)
    return buffer.append({"method": _FIX, **clean, **rules}, [_FIX, clean, rules])


def of_same_store(memory: Memory) -> MakeMemory:
    """Return what makes memories of the same store that write as other sources."""

    def make(source: str, mode: str, repo: str, branch: str) -> Memory:
        return _made(memory, (source, mode, repo, branch), _rules(memory.graph))

    return make


def replay(call: Mapping[str, Any], make_memory: MakeMemory) -> None:
    """Do what waited."""
    method: str = call["method"]
    if method == _CAPTURE:
        memory = _as_kept(call, (SOURCE, "", "", ""), make_memory)
        capture(memory, Passed(**call["passed"]), Place(**call["place"]))
        return
    if method != _FIX and not method.startswith("record_"):
        message = f"{method[:80]!r} is no record"
        raise ValueError(message)
    memory = _as_kept(call, call["where"], make_memory)
    if method == _FIX:
        apply_fix(memory, **call["facts"])
    else:
        getattr(memory, method)(**call["facts"])


def _rules(graph: Graph) -> dict[str, str]:
    """Return what decides how a graph names and checks what is written to it."""
    return {"root": graph.root, "validation": str(graph.validation)}


def _as_kept(call: Mapping[str, Any], where: Where, make_memory: MakeMemory) -> Memory:
    """Return a memory that names and checks as the one that kept the call."""
    memory = make_memory(*where)
    own = _rules(memory.graph)
    # Calls that an earlier version kept do not say.
    rules = {name: call.get(name, own[name]) for name in own}
    return memory if rules == own else _made(memory, where, rules)


def _made(memory: Memory, where: Where, rules: Mapping[str, str]) -> Memory:
    source, mode, repo, branch = where
    return Memory(
        memory.ow,
        validation=rules["validation"],
        root=rules["root"],
        source=source,
        mode=mode,
        repo=repo,
        branch=branch,
        redactor=memory.graph.redactor,
    )
