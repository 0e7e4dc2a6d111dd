"""Memory: the graph as a client calls it: nine verbs, records, recall, explain; sync and async.

Takes and gives the JSON shapes that clients of memory servers know. Owns no rule: what may be
written is the graph's to say, how often a call is tried is `Calls`'.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from logging import INFO
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from onceward.errors import InvalidArgument
from onceward.handle import Onceward
from onceward.handle import open as open_handle
from onceward.memory import shapes, spellings
from onceward.memory.calling import Call, Calls
from onceward.memory.envelope import redact
from onceward.memory.explaining import explain
from onceward.memory.graph import Graph
from onceward.memory.models import (
    Batch,
    ChangeId,
    Link,
    NewEntity,
    NewObservations,
    Origin,
    Removal,
    Validation,
    Written,
)
from onceward.memory.recalling import recall
from onceward.memory.recorded import Recorded
from onceward.memory.recording import Recorder
from onceward.memory.shapes import Shape
from onceward.seams import Clock, Randomness
from onceward.secrets import Redactor

#: How many deletions are named of which an entity still lacks something.
LEFT_MAX: Final = 5

P = ParamSpec("P")
R = TypeVar("R")


def _recorded(
    event: str, method: Callable[Concatenate[Recorder, P], Recorded]
) -> Callable[Concatenate[Memory, P], Shape]:
    """Return a method that records with one of the Recorder's, and answers in JSON."""

    @wraps(method)
    def record(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> Shape:
        with self.calls.begin(event, INFO) as call:
            recorded = call.attempt(lambda: method(self.recorder, *args, **kwargs))
            call.about([recorded.name])
            return _object(recorded)

    return record


class Memory:
    """What agents know. Every call is harmless to repeat, and is tried again when it may help."""

    def __init__(  # noqa: PLR0913 - one store, and what is said with every write
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
        """Remember in this store.

        `validation` says what is checked against the policy: what uses its words, everything, or
        nothing. Files below `root` are named relative to it. `source` and `run` are kept with
        everything written; `mode`, `repo` and `branch` stand in what is recorded.
        """
        self.graph = Graph(
            ow.store, redactor=redactor, validation=_validation(validation), root=root
        )
        self.ow = ow
        self._clock = clock
        self.origin = Origin(source=source, run=run)
        self.recorder = Recorder(
            self.graph, clock=clock, origin=self.origin, mode=mode, repo=repo, branch=branch
        )
        self.calls = Calls(ow.store, self.graph.redactor, clock=clock, randomness=randomness)

    @classmethod
    def open(cls, url: str | None = None, **options: Any) -> Self:  # noqa: ANN401 - those of __init__
        """Open a store, as `onceward.open` does, and remember in it; `close` closes it."""
        return cls(open_handle(url), **options)

    def close(self) -> None:
        """Give the store's connections back."""
        self.ow.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the nine verbs --------------------------------------------------------------------------

    def create_entities(self, entities: Sequence[NewEntity | Mapping[str, Any]]) -> Shape:
        """Create the entities that are not there, and add the observations that are not."""
        with self.calls.begin("create_entities", INFO) as call:
            asked = spellings.entities(entities, is_strict=self.graph.is_strict)
            call.about([each.name for each in asked])
            return shapes.new_entities(self._write(call, Batch(entities=asked)))

    def create_relations(self, relations: Sequence[Link | Mapping[str, Any]]) -> Shape:
        """Relate entities; refused with the names of those that are not there."""
        with self.calls.begin("create_relations", INFO) as call:
            asked = spellings.links(relations, is_strict=self.graph.is_strict)
            call.about([each.from_name for each in asked])
            return shapes.new_relations(self._write(call, Batch(relations=asked)))

    def add_observations(
        self, observations: Sequence[NewObservations | Mapping[str, Any]]
    ) -> Shape:
        """Add what was observed; refused with the names of the entities that are not there."""
        with self.calls.begin("add_observations", INFO) as call:
            asked = spellings.observations(observations, is_strict=self.graph.is_strict)
            call.about([each.entity_name for each in asked])
            written = self._write(call, Batch(observations=asked))
            return shapes.new_observations(written, map(self._clean, asked))

    def delete_entities(self, names: Sequence[str]) -> Shape:
        """Delete entities with their observations and relations; `restore` brings them back."""
        with self.calls.begin("delete_entities", INFO) as call:
            asked = spellings.names(names, field="entityNames")
            call.about(asked)
            return self._remove(call, Removal(entities=asked))

    def delete_observations(
        self, deletions: Sequence[NewObservations | Mapping[str, Any]]
    ) -> Shape:
        """Delete observations by their text."""
        with self.calls.begin("delete_observations", INFO) as call:
            asked = spellings.deletions(deletions, is_strict=self.graph.is_strict)
            call.about([each.entity_name for each in asked])
            return self._remove(call, Removal(observations=asked))

    def delete_relations(self, relations: Sequence[Link | Mapping[str, Any]]) -> Shape:
        """Delete relations."""
        with self.calls.begin("delete_relations", INFO) as call:
            asked = spellings.links(relations, is_strict=self.graph.is_strict)
            call.about([each.from_name for each in asked])
            return self._remove(call, Removal(relations=asked))

    def read_graph(self, *, limit: int | None = None, cursor: str | None = None) -> Shape:
        """Return everything, page by page if a limit is given or there is too much for one."""
        with self.calls.begin("read_graph") as call:
            after = _maybe_text(cursor, "cursor")
            found = call.attempt(lambda: self.graph.read(limit=limit, cursor=after))
            return shapes.subgraph(found)

    def search_nodes(
        self, query: str, *, limit: int | None = None, cursor: str | None = None
    ) -> Shape:
        """Return the entities that fit a query, the best first, and their relations."""
        with self.calls.begin("search_nodes") as call:
            call.about_text(_text(query, "query"))
            after = _maybe_text(cursor, "cursor")
            found = call.attempt(lambda: self.graph.search(query, limit=limit, cursor=after))
            return shapes.subgraph(found)

    def open_nodes(self, names: Sequence[str]) -> Shape:
        """Return the entities of these names, and their relations."""
        with self.calls.begin("open_nodes") as call:
            asked = spellings.names(names)
            call.about(asked)
            return shapes.subgraph(call.attempt(lambda: self.graph.open(asked)))

    # --- records ---------------------------------------------------------------------------------

    record_run = _recorded("record_run", Recorder.run)
    record_command = _recorded("record_command", Recorder.command)
    record_error = _recorded("record_error", Recorder.error)
    record_fix = _recorded("record_fix", Recorder.fix)
    record_outcome = _recorded("record_outcome", Recorder.outcome)
    record_doc = _recorded("record_doc", Recorder.doc)

    # --- looking back ----------------------------------------------------------------------------

    def recall(self, text: str) -> Shape:
        """Return what is known about a key, an error, a command or any words; short."""
        with self.calls.begin("recall") as call:
            call.about_text(_text(text, "text"))
            return _object(call.attempt(lambda: recall(self.graph, text, clock=self._clock)))

    def explain(self, name: str) -> Shape:
        """Return where each fact about an entity came from."""
        with self.calls.begin("explain") as call:
            call.about([_text(name, "name")])
            return _object(call.attempt(lambda: explain(self.graph, name)))

    def history(self, name: str, *, limit: int = 100) -> Shape:
        """Return what happened to an entity, newest first; also to one that was deleted."""
        with self.calls.begin("history") as call:
            call.about([_text(name, "name")])
            return shapes.history(call.attempt(lambda: self.graph.history(name, limit=limit)))

    def restore(self, *, name: str | None = None, change: int | None = None) -> Shape:
        """Bring back what was deleted: an entity by its name, or one change by its number.

        Of an entity that was made anew, `changes` has the deletions whose parts it lacks.
        """
        with self.calls.begin("restore", INFO) as call:
            asked, number = _maybe_text(name, "name"), _maybe_change(change)
            call.about([asked or f"change {change}"])
            touched = call.attempt(
                lambda: self.graph.restore(name=asked, change=number, origin=self.origin)
            )
            done = shapes.removed(touched, "restored")
            if asked is None or any((touched.entities, touched.observations, touched.relations)):
                return done
            left = call.attempt(lambda: self._left(asked))
            told = f": it is there; for what it had before, restore change {' or '.join(left)}"
            message = done["message"] + (told if left else "")
            return {**done, "message": message, "changes": [int(each) for each in left]}

    def _left(self, name: str) -> list[str]:
        """Return the numbers of its own deletions of which an entity still lacks something."""
        clean = self.graph.stored_name(name)
        rows = self.graph.store.read("memory_change_left", name=clean, limit=LEFT_MAX)
        return [str(number) for (number,) in rows]

    def _clean(self, group: NewObservations) -> NewObservations:
        """Return a group as the graph has stored it."""
        redactor = self.graph.redactor
        contents = tuple(redact(each, redactor) for each in group.contents)
        return NewObservations(
            entity_name=self.graph.meant(group.entity_name)[0], contents=contents
        )

    def _write(self, call: Call, batch: Batch) -> Written:
        return call.attempt(lambda: self.graph.write(batch, self.origin))

    def _remove(self, call: Call, removal: Removal) -> Shape:
        touched = call.attempt(lambda: self.graph.remove(removal, self.origin))
        return shapes.removed(touched, "deleted")


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        message = f"{field}: must be a text"
        raise InvalidArgument(message, fix="pass a string", field=field)
    return value


def _maybe_text(value: object, field: str) -> str | None:
    return None if value is None else _text(value, field)


def _validation(value: Validation | str) -> Validation:
    try:
        return Validation(value)
    except ValueError as exc:
        message = f"validation: {str(value)[:80]!r} is not a mode of validation"
        fix = f"pass one of {', '.join(Validation)}"
        raise InvalidArgument(message, fix=fix, field="validation") from exc


def _maybe_change(value: object) -> ChangeId | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        message = "change: must be a whole number"
        raise InvalidArgument(message, fix="take the number from the history", field="change")
    return ChangeId(value)


def _object(value: object) -> Shape:
    shape = shapes.plain(value)
    assert isinstance(shape, dict), type(value)
    return shape


def _awaited(
    method: Callable[Concatenate[Memory, P], R],
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, R]]:
    """Return a method that runs one of Memory's in a thread."""

    @wraps(method)
    async def call(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self.memory, *args, **kwargs)

    return call


class AsyncMemory:
    """The same, awaited: each call runs in a thread, so that the event loop never waits for it."""

    def __init__(self, memory: Memory) -> None:
        """Await what this memory does."""
        self.memory = memory

    @classmethod
    async def open(cls, url: str | None = None, **options: Any) -> Self:  # noqa: ANN401 - as above
        """Open a store, as `Memory.open` does."""
        return cls(await asyncio.to_thread(Memory.open, url, **options))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    close = _awaited(Memory.close)
    create_entities = _awaited(Memory.create_entities)
    create_relations = _awaited(Memory.create_relations)
    add_observations = _awaited(Memory.add_observations)
    delete_entities = _awaited(Memory.delete_entities)
    delete_observations = _awaited(Memory.delete_observations)
    delete_relations = _awaited(Memory.delete_relations)
    read_graph = _awaited(Memory.read_graph)
    search_nodes = _awaited(Memory.search_nodes)
    open_nodes = _awaited(Memory.open_nodes)
    record_run = _awaited(Memory.record_run)
    record_command = _awaited(Memory.record_command)
    record_error = _awaited(Memory.record_error)
    record_fix = _awaited(Memory.record_fix)
    record_outcome = _awaited(Memory.record_outcome)
    record_doc = _awaited(Memory.record_doc)
    recall = _awaited(Memory.recall)
    explain = _awaited(Memory.explain)
    history = _awaited(Memory.history)
    restore = _awaited(Memory.restore)
