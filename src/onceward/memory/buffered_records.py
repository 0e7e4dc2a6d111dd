"""Buffered records: validate records without the store, keep them on disk, and write them later.

The result of a record is known only after its replay, which is idempotent. A buffered call includes
the root and the validation mode of its memory, because another process may replay it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from onceward.memory.capture.command_capture import SOURCE, CommandContext, capture
from onceward.memory.capture.fix_verification import apply_fix
from onceward.memory.capture.issues import strip_control_characters
from onceward.memory.capture.run_command import CommandResult
from onceward.memory.client import Memory, in_context
from onceward.memory.entity_names import type_of
from onceward.memory.graph import Graph
from onceward.memory.graph.graph import UnwrittenGraph
from onceward.memory.models import WriteStatus
from onceward.memory.offline_buffer import Buffer
from onceward.memory.recorder import Recorder
from onceward.memory.serialization import JsonObject, to_json

#: Source, mode, repo and branch of a record.
RecordContext = tuple[str, str, str, str]
MakeMemory = Callable[[str, str, str, str], Memory]
_CAPTURE: Final = "capture"
#: A fix of `onceward memory fix`: its attempt number is determined at the replay.
_FIX: Final = "fix"


def validate_offline(
    memory: Memory, method: str, facts: Mapping[str, Any], where: RecordContext
) -> JsonObject:
    """Validate a record, derive its name, and return the answer for a buffered one."""
    _, mode, repo, branch = where
    graph = UnwrittenGraph(memory.graph, WriteStatus.BUFFERED, is_offline=True)
    recorder = Recorder(graph, origin=memory.origin, mode=mode, repo=repo, branch=branch)
    shape: JsonObject = to_json(getattr(recorder, method.removeprefix("record_"))(**facts))
    if method == "record_fix" and type_of(facts["issue"]) not in ("Error", "Warning"):
        # A fix is named after its issue; only the store knows whether the issue is an error.
        return {**shape, "isNameProvisional": True}
    return shape


def buffer_record(
    buffer: Buffer, graph: Graph, method: str, facts: Mapping[str, Any], where: RecordContext
) -> bool:
    """Buffer a call of one of the client's `record_…` methods; its arguments are redacted."""
    rules = graph.settings
    identity = [method, where, {name: facts[name] for name in facts if name != "ts"}, rules]
    return buffer.append({"method": method, "where": where, "facts": facts, **rules}, identity)


def buffer_capture(
    buffer: Buffer, memory: Memory, result: CommandResult, context: CommandContext
) -> bool:
    """Buffer a captured command, redacted."""
    # An escape sequence inside a secret would prevent its redaction.
    shown = replace(
        result,
        stdout=strip_control_characters(result.stdout),
        stderr=strip_control_characters(result.stderr),
    )
    clean = memory.graph.redactor.value({"result": asdict(shown), "context": asdict(context)})
    assert isinstance(clean, dict), type(clean)
    rules = memory.graph.settings
    return buffer.append({"method": _CAPTURE, **clean, **rules}, [_CAPTURE, clean, rules])


def buffer_fix(
    buffer: Buffer, memory: Memory, facts: Mapping[str, Any], where: RecordContext
) -> bool:
    """Buffer a fix reported by a person, redacted; the same fix later is another attempt."""
    redactor = memory.graph.redactor
    clean = {"where": [redactor.text(each) for each in where], "facts": redactor.value(dict(facts))}
    rules = memory.graph.settings
    return buffer.append({"method": _FIX, **clean, **rules}, [_FIX, clean, rules])


def replay(call: Mapping[str, Any], make_memory: MakeMemory) -> None:
    """Write a buffered call."""
    method: str = call["method"]
    if method == _CAPTURE:
        memory = _buffered_memory(call, (SOURCE, "", "", ""), make_memory)
        capture(memory, CommandResult(**call["result"]), CommandContext(**call["context"]))
        return
    if method != _FIX and not method.startswith("record_"):
        message = f"{method[:80]!r} is not a record method"
        raise ValueError(message)
    memory = _buffered_memory(call, call["where"], make_memory)
    if method == _FIX:
        apply_fix(memory, **call["facts"])
    else:
        getattr(memory, method)(**call["facts"])


def _buffered_memory(
    call: Mapping[str, Any], where: RecordContext, make_memory: MakeMemory
) -> Memory:
    """Return a client with the settings of the one that buffered the call."""
    memory = make_memory(*where)
    own = memory.graph.settings
    # Calls buffered by an earlier version lack these settings.
    rules = {name: call.get(name, own[name]) for name in own}
    return memory if rules == own else in_context(memory, *where, settings=rules)
