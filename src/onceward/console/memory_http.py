"""Memory over HTTP: search entities; show their neighbours and provenance; restore deletions."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from onceward.console.actions import ActionExecutor, OperatorAction
from onceward.console.context import ConsoleContext
from onceward.console.memory_views import (
    EntityCard,
    EntityItem,
    NeighbourhoodGraph,
    ProvenanceItem,
    RestoreResult,
    card_of,
    entity_item,
    neighbourhood_graph,
    provenance_item,
)
from onceward.console.responses import (
    PAGE_ITEMS,
    After,
    Limit,
    MaybeKey,
    Page,
    action_answers,
    answers,
    clamped,
    json_answer,
    number_after,
    page_answer,
)
from onceward.errors import InvalidArgument, NotFound
from onceward.memory.entity_pages import NODES_MAX, EntityPageReader
from onceward.memory.graph import Graph
from onceward.memory.graph.tokenizer import QUERY_CHARACTERS_MAX
from onceward.memory.models import (
    NAME_BYTES_MAX,
    TYPE_BYTES_MAX,
    AffectedCounts,
    ChangeId,
    WriteOrigin,
)
from onceward.memory.provenance import explain as explain_entity
from onceward.memory.serialization import removed
from onceward.stores import Transaction
from onceward.system.redaction import Redactor

NODES_DEFAULT: Final = 150
HOPS_MAX: Final = 2
#: Above every id that a store assigns.
_NUMBER_MAX: Final = 2**62

Name = Annotated[str, Query(max_length=NAME_BYTES_MAX, description="The name of an entity.")]
Words = Annotated[
    str,
    Query(
        max_length=QUERY_CHARACTERS_MAX,
        description="Words, quoted phrases, `type:Error`, `key:err#…`; empty lists the newest.",
    ),
]
Type = Annotated[
    str, Query(alias="type", max_length=TYPE_BYTES_MAX, description="Only entities of this type.")
]
Hops = Annotated[int, Query(ge=1, le=HOPS_MAX, description="Maximum distance, in relations.")]
Nodes = Annotated[int, Query(ge=1, le=NODES_MAX, description="Maximum number of entities.")]
ObservationNumber = Annotated[
    int | None, Query(ge=1, le=_NUMBER_MAX, description="Only this observation.")
]


class RestoreBody(BaseModel):
    """Restore an entity by name, or everything that one change deleted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str | None = Field(default=None, max_length=NAME_BYTES_MAX)
    change: int | None = Field(default=None, ge=1, le=_NUMBER_MAX)
    reason: str = Field(default="", max_length=1_000)
    dry_run: bool = False


def memory_router(context: ConsoleContext, actions: ActionExecutor) -> APIRouter:
    """Return the routes of the memory."""
    router = APIRouter()
    redactor = Redactor.from_environment(os.environ)

    def graph() -> Graph:
        return Graph(context.ow().store, redactor=redactor)

    _add_reads(router, graph)
    _add_restoring(router, context, actions, graph)
    return router


def _add_reads(router: APIRouter, graph: Callable[[], Graph]) -> None:
    @router.get("/api/memory/search", responses=answers(Page[EntityCard]))
    def search(
        q: Words = "", kind: Type = "", limit: Limit = PAGE_ITEMS, after: After = None
    ) -> Response:
        """Search names and observations, best first; without words, list the newest entities."""
        looker, wanted = EntityPageReader(graph()), clamped(limit)
        plain = kind.replace('"', " ").strip()
        query = f'{q} type:"{plain}"' if plain else q
        if query.strip():
            cards, following = looker.find(query, wanted, after or None)
        else:
            cards, last = looker.newest(number_after(after, _NUMBER_MAX), wanted)
            following = None if last is None else str(last)
        return page_answer(map(card_of, cards), following)

    @router.get("/api/memory/entity", responses=answers(EntityItem, 404))
    def entity(name: Name) -> Response:
        """Show an entity, also a deleted one: facts with their sources, relations, history."""
        return json_answer(entity_item(EntityPageReader(graph()).details(name)))

    @router.get("/api/memory/neighbourhood", responses=answers(NeighbourhoodGraph, 404))
    def neighbourhood(name: Name, hops: Hops = 1, limit: Nodes = NODES_DEFAULT) -> Response:
        """Return the entities around an entity, nearest first; never the whole graph."""
        found = EntityPageReader(graph()).neighbourhood(name, hops=hops, nodes_max=limit)
        return json_answer(neighbourhood_graph(found))

    @router.get("/api/memory/explain", responses=answers(ProvenanceItem, 404))
    def explain(name: Name, observation: ObservationNumber = None) -> Response:
        """Show an entity's provenance: who wrote each fact, in which run, and when."""
        memory, one = graph(), None
        if observation is not None:
            one = EntityPageReader(memory).observation(name, observation)
            if one is None:
                message = f"this entity has no observation {observation}"
                raise NotFound(
                    message,
                    fix="pass the id of one of the entity's observations",
                    field="observation",
                )
        return json_answer(provenance_item(explain_entity(memory, name), one))


def _add_restoring(
    router: APIRouter, context: ConsoleContext, actions: ActionExecutor, graph: Callable[[], Graph]
) -> None:
    @router.post("/api/memory/restore", responses=action_answers(RestoreResult))
    def restore(body: RestoreBody, key: MaybeKey = None) -> Response:
        """Restore deleted data; a dry run only counts it."""
        if (body.name is None) == (body.change is None):
            message = "name: exactly one of name and change is required; nothing was restored"
            fix = "send the name of an entity, or the number of a change"
            raise InvalidArgument(message, fix=fix, field="name")
        if body.dry_run:
            return actions.preview(lambda: _plan_restore(graph(), body))

        def work(_: Transaction) -> RestoreResult:
            change = None if body.change is None else ChangeId(body.change)
            origin = WriteOrigin(source=f"{context.actor}, in the console")
            memory = graph()
            touched = memory.restore(name=body.name, change=change, origin=origin)
            return _restore_counts(memory, body, touched)

        action = OperatorAction(
            name="memory.restore",
            target=body.name or f"change {body.change}",
            key=key,
            body=body.model_dump(),
        )
        return actions.execute(action, work)


def _plan_restore(graph: Graph, body: RestoreBody) -> RestoreResult:
    touched = EntityPageReader(graph).restorable_counts(name=body.name, change=body.change)
    return _restore_counts(graph, body, touched)


def _restore_counts(graph: Graph, body: RestoreBody, touched: AffectedCounts) -> RestoreResult:
    """Return the counts of a restore; for an entity that is not deleted, its deleted facts."""
    answer = removed(touched, "restored")
    is_something = any((touched.entities, touched.observations, touched.relations))
    left = [] if is_something or body.name is None else EntityPageReader(graph).left(body.name)
    if body.dry_run:
        answer["message"] = answer["message"].replace("restored: ", "would restore ")
    if left:
        numbers = " or ".join(map(str, left))
        answer["message"] = (
            f"it is not deleted; to restore its deleted facts, restore change {numbers}"
        )
    return RestoreResult(**answer, changes=left)
