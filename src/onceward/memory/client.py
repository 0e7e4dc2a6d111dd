"""Memory client: the nine graph operations, records, recall and provenance; sync and async.

Takes and returns the JSON shapes of memory servers. The graph validates writes; `CallRunner`
retries and logs calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from logging import INFO
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors.arguments import reject_field
from onceward.memory import input_parsing, serialization
from onceward.memory.envelope import redact
from onceward.memory.graph import Graph
from onceward.memory.memory_calls import CallRunner, MemoryCall
from onceward.memory.models import (
    ChangeId,
    Link,
    NewEntity,
    NewObservations,
    Removal,
    Validation,
    WriteBatch,
    WriteOrigin,
    WriteResult,
)
from onceward.memory.provenance import explain
from onceward.memory.recall import recall
from onceward.memory.recorder import Recorded, Recorder
from onceward.memory.serialization import JsonObject
from onceward.system import Clock, Randomness
from onceward.system.redaction import Redactor

P = ParamSpec("P")
R = TypeVar("R")


def _record_method(
    event: str, method: Callable[Concatenate[Recorder, P], Recorded]
) -> Callable[Concatenate[Memory, P], JsonObject]:
    """Return a Memory method that calls this Recorder method and returns JSON."""

    @wraps(method)
    def record(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> JsonObject:
        with self.calls.begin(event, INFO) as call:
            recorded = call.run(lambda: method(self.recorder, *args, **kwargs))
            call.set_key([recorded.name])
            return _to_object(recorded)

    return record


class Memory:
    """A client of the knowledge graph. Every call is idempotent; transient failures are retried."""

    def __init__(  # noqa: PLR0913 - one store, and the defaults of every write
        self,
        ow: Onceward,
        *,
        validation: Validation | str = Validation.POLICY,
        root: str = "",
        source: str = "python",
        run: str | None = None,
        mode: str = "",
        repo: str = "",
        branch: str = "",
        redactor: Redactor | None = None,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """Use this store.

        `validation` is `policy`, `strict` or `lenient`. File names below `root` are stored relative
        to it. `source` and `run` are stored with every write; `mode`, `repo` and `branch` are part
        of every record.
        """
        self.graph = Graph(
            ow.store, redactor=redactor, validation=_validation(validation), root=root
        )
        self.ow = ow
        self._clock = clock
        self.origin = WriteOrigin(source=source, run=run)
        self.recorder = Recorder(
            self.graph, clock=clock, origin=self.origin, mode=mode, repo=repo, branch=branch
        )
        self.calls = CallRunner(ow.store, self.graph.redactor, clock=clock, randomness=randomness)

    @classmethod
    def open(cls, url: str | None = None, **options: Any) -> Self:  # noqa: ANN401 - those of __init__
        """Open a store like `onceward.open`, and use it; `close` closes the store."""
        return cls(open_handle(url), **options)

    def close(self) -> None:
        """Close the store's connections."""
        self.ow.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- graph operations ------------------------------------------------------------------------

    def create_entities(self, entities: Sequence[NewEntity | Mapping[str, Any]]) -> JsonObject:
        """Create missing entities, and add missing observations to existing ones."""
        with self.calls.begin("create_entities", INFO) as call:
            asked = input_parsing.entities(entities, is_strict=self.graph.is_strict)
            call.set_key([each.name for each in asked])
            return serialization.new_entities(self._write(call, WriteBatch(entities=asked)))

    def create_relations(self, relations: Sequence[Link | Mapping[str, Any]]) -> JsonObject:
        """Create relations; raises EntityMissing naming the entities that do not exist."""
        with self.calls.begin("create_relations", INFO) as call:
            asked = input_parsing.links(relations, is_strict=self.graph.is_strict)
            call.set_key([each.from_name for each in asked])
            return serialization.new_relations(self._write(call, WriteBatch(relations=asked)))

    def add_observations(
        self, observations: Sequence[NewObservations | Mapping[str, Any]]
    ) -> JsonObject:
        """Add observations; raises EntityMissing naming the entities that do not exist."""
        with self.calls.begin("add_observations", INFO) as call:
            asked = input_parsing.observations(observations, is_strict=self.graph.is_strict)
            call.set_key([each.entity_name for each in asked])
            written = self._write(call, WriteBatch(observations=asked))
            return serialization.new_observations(written, map(self._clean, asked))

    def delete_entities(self, names: Sequence[str]) -> JsonObject:
        """Soft-delete entities with their observations and relations; `restore` undoes it."""
        with self.calls.begin("delete_entities", INFO) as call:
            asked = input_parsing.names(names, field="entityNames")
            call.set_key(asked)
            return self._remove(call, Removal(entities=asked))

    def delete_observations(
        self, deletions: Sequence[NewObservations | Mapping[str, Any]]
    ) -> JsonObject:
        """Soft-delete observations by their exact text."""
        with self.calls.begin("delete_observations", INFO) as call:
            asked = input_parsing.deletions(deletions, is_strict=self.graph.is_strict)
            call.set_key([each.entity_name for each in asked])
            return self._remove(call, Removal(observations=asked))

    def delete_relations(self, relations: Sequence[Link | Mapping[str, Any]]) -> JsonObject:
        """Soft-delete relations."""
        with self.calls.begin("delete_relations", INFO) as call:
            asked = input_parsing.links(relations, is_strict=self.graph.is_strict)
            call.set_key([each.from_name for each in asked])
            return self._remove(call, Removal(relations=asked))

    def read_graph(self, *, limit: int | None = None, cursor: str | None = None) -> JsonObject:
        """Return all entities and relations, in pages if a limit is given or needed."""
        with self.calls.begin("read_graph") as call:
            after = _maybe_text(cursor, "cursor")
            found = call.run(lambda: self.graph.read(limit=limit, cursor=after))
            return serialization.subgraph(found)

    def search_nodes(
        self, query: str, *, limit: int | None = None, cursor: str | None = None
    ) -> JsonObject:
        """Return the entities that match a query, best first, and their relations."""
        with self.calls.begin("search_nodes") as call:
            call.set_text_key(input_parsing.text(query, "query"))
            after = _maybe_text(cursor, "cursor")
            found = call.run(lambda: self.graph.search(query, limit=limit, cursor=after))
            return serialization.subgraph(found)

    def open_nodes(self, names: Sequence[str]) -> JsonObject:
        """Return the entities with these names, and their relations."""
        with self.calls.begin("open_nodes") as call:
            asked = input_parsing.names(names)
            call.set_key(asked)
            return serialization.subgraph(call.run(lambda: self.graph.open(asked)))

    # --- records ---------------------------------------------------------------------------------

    record_run = _record_method("record_run", Recorder.run)
    record_command = _record_method("record_command", Recorder.command)
    record_error = _record_method("record_error", Recorder.error)
    record_fix = _record_method("record_fix", Recorder.fix)
    record_outcome = _record_method("record_outcome", Recorder.outcome)
    record_doc = _record_method("record_doc", Recorder.doc)

    # --- recall and history ----------------------------------------------------------------------

    def recall(self, text: str) -> JsonObject:
        """Return a short summary of what is known about a key, an error, a command or words."""
        with self.calls.begin("recall") as call:
            call.set_text_key(input_parsing.text(text, "text"))
            return _to_object(call.run(lambda: recall(self.graph, text, clock=self._clock)))

    def explain(self, name: str) -> JsonObject:
        """Return the provenance of each fact about an entity."""
        with self.calls.begin("explain") as call:
            call.set_key([input_parsing.text(name, "name")])
            return _to_object(call.run(lambda: explain(self.graph, name)))

    def history(self, name: str, *, limit: int = 100) -> JsonObject:
        """Return the changes of an entity, newest first; also of a deleted one."""
        with self.calls.begin("history") as call:
            call.set_key([input_parsing.text(name, "name")])
            return serialization.history(call.run(lambda: self.graph.history(name, limit=limit)))

    def restore(self, *, name: str | None = None, change: int | None = None) -> JsonObject:
        """Undo a deletion: of an entity by name, or one change by number.

        If the entity was created again since, `changes` lists the deletions whose parts it lacks.
        """
        with self.calls.begin("restore", INFO) as call:
            asked, number = _maybe_text(name, "name"), _maybe_change(change)
            call.set_key([asked or f"change {change}"])
            touched = call.run(
                lambda: self.graph.restore(name=asked, change=number, origin=self.origin)
            )
            done = serialization.removed(touched, "restored")
            if asked is None or any((touched.entities, touched.observations, touched.relations)):
                return done
            left = self.graph.deletions_left(self.graph.stored_name(asked))
            numbers = " or ".join(map(str, left))
            hint = f": it exists; to restore earlier parts, restore change {numbers}"
            return {**done, "message": done["message"] + (hint if left else ""), "changes": left}

    def _clean(self, group: NewObservations) -> NewObservations:
        """Return a group of observations as the graph stores it."""
        redactor = self.graph.redactor
        contents = tuple(redact(each, redactor) for each in group.contents)
        name = self.graph.stored_form(group.entity_name)
        return NewObservations(entity_name=name, contents=contents)

    def _write(self, call: MemoryCall, batch: WriteBatch) -> WriteResult:
        return call.run(lambda: self.graph.write(batch, self.origin))

    def _remove(self, call: MemoryCall, removal: Removal) -> JsonObject:
        touched = call.run(lambda: self.graph.remove(removal, self.origin))
        return serialization.removed(touched, "deleted")


def in_context(  # noqa: PLR0913 - the context of a record has these parts
    memory: Memory,
    source: str,
    mode: str = "",
    repo: str = "",
    branch: str = "",
    *,
    settings: Mapping[str, str] | None = None,
) -> Memory:
    """Return a client of the same store with another source and context of its records.

    `settings` are those of `Graph.settings`. Default: the same.
    """
    rules = settings or memory.graph.settings
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


def _maybe_text(value: object, field: str) -> str | None:
    return None if value is None else input_parsing.text(value, field)


def _validation(value: Validation | str) -> Validation:
    try:
        return Validation(value)
    except ValueError:
        problem = f"{str(value)[:80]!r} is not a validation mode"
        reject_field("validation", problem, f"pass one of {', '.join(Validation)}")


def _maybe_change(value: object) -> ChangeId | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        fix = "pass the `change` of an entry that history() returned"
        reject_field("change", f"must be an integer, not {value!r:.60}", fix)
    return ChangeId(value)


def _to_object(value: object) -> JsonObject:
    shape = serialization.to_json(value)
    assert isinstance(shape, dict), type(value)
    return shape


def _in_thread(
    method: Callable[Concatenate[Memory, P], R],
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, R]]:
    """Return an async method that runs this Memory method in a thread."""

    @wraps(method)
    async def call(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self.memory, *args, **kwargs)

    return call


class AsyncMemory:
    """The async client: each call runs in a thread and does not block the event loop."""

    def __init__(self, memory: Memory) -> None:
        """Wrap this client."""
        self.memory = memory

    @classmethod
    async def open(cls, url: str | None = None, **options: Any) -> Self:  # noqa: ANN401 - as above
        """Open a store, like `Memory.open`."""
        return cls(await asyncio.to_thread(Memory.open, url, **options))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    close = _in_thread(Memory.close)
    create_entities = _in_thread(Memory.create_entities)
    create_relations = _in_thread(Memory.create_relations)
    add_observations = _in_thread(Memory.add_observations)
    delete_entities = _in_thread(Memory.delete_entities)
    delete_observations = _in_thread(Memory.delete_observations)
    delete_relations = _in_thread(Memory.delete_relations)
    read_graph = _in_thread(Memory.read_graph)
    search_nodes = _in_thread(Memory.search_nodes)
    open_nodes = _in_thread(Memory.open_nodes)
    record_run = _in_thread(Memory.record_run)
    record_command = _in_thread(Memory.record_command)
    record_error = _in_thread(Memory.record_error)
    record_fix = _in_thread(Memory.record_fix)
    record_outcome = _in_thread(Memory.record_outcome)
    record_doc = _in_thread(Memory.record_doc)
    recall = _in_thread(Memory.recall)
    explain = _in_thread(Memory.explain)
    history = _in_thread(Memory.history)
    restore = _in_thread(Memory.restore)
