"""Conversations over HTTP: show, pause and resume a group, and replay its messages.

The routes of messages and of all groups' status are in `dispatch.http`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from onceward.client import Onceward
from onceward.console.actions import ActionExecutor, OperatorAction, check_seen
from onceward.console.context import ConsoleContext
from onceward.console.conversation_views import (
    DELIVERIES_MAX,
    MOVES_MAX,
    GroupChange,
    GroupDetail,
    ReplayResult,
    delivery_item,
    group_version,
    group_view,
    latest_replies,
    sample,
)
from onceward.console.responses import (
    ActionKey,
    ActionResult,
    MaybeKey,
    action_answers,
    answers,
    extended,
    json_answer,
    moment,
)
from onceward.dispatch.conversations import name_of
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import DUAL, LEASE, NAME_CHARACTERS_MAX
from onceward.dispatch.operator_actions import NUMBER_MAX, Operators
from onceward.dispatch.views import plain_move
from onceward.errors import BatchInFlight, Conflict, CursorMissing, InvalidArgument
from onceward.stores import Transaction

_REASON_CHARACTERS_MAX: Final = 1_000
_NAME_BYTES: Final = 4 * NAME_CHARACTERS_MAX

GroupQuery = Annotated[str, Query(max_length=_NAME_BYTES, description="The name of a group.")]


class _ConversationBody(BaseModel):
    """The fields of every action on a group."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: str = Field(default="", max_length=_REASON_CHARACTERS_MAX)
    #: `version` of what the operator saw; None skips the check.
    seen: str | None = Field(default=None, max_length=100)


class GroupBody(_ConversationBody):
    """Pause or resume a group."""

    group: str = Field(max_length=_NAME_BYTES)


class ReplayBody(GroupBody):
    """Replay a group's messages from one on."""

    #: The arrival number of the first message to replay.
    since: int = Field(ge=1, le=NUMBER_MAX)
    dry_run: bool = False


def conversations_router(context: ConsoleContext, actions: ActionExecutor) -> APIRouter:
    """Return the routes of conversations for operators."""
    router = APIRouter()
    routes = _GroupRoutes(context)
    _add_reads(router, routes)
    _add_groups(router, routes, actions)
    return router


class _GroupRoutes:
    """What the routes share: the store, its operator actions and the local dispatcher."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context

    @property
    def actor(self) -> str:
        return self._context.actor

    @property
    def ow(self) -> Onceward:
        return self._context.ow()

    @property
    def operators(self) -> Operators:
        return Operators(self.ow.store)

    def wake_dispatcher(self) -> None:
        """Wake the dispatcher of this process, so that it need not poll first."""
        if self._context.chats is not None:
            self._context.chats.dispatcher.wake()

    def holder(self) -> str | None:
        """Return the owner of the dispatcher's lease, if it is held."""
        try:
            found = self.ow.cursors.show(LEASE)
        except CursorMissing:
            return None
        return found.lease_owner if found.is_held else None


def _add_reads(router: APIRouter, routes: _GroupRoutes) -> None:
    @router.get("/api/dispatch/group", responses=answers(GroupDetail, 404))
    def group(name: GroupQuery) -> Response:
        """Show a group: its status, its deliveries, and its agent's latest replies."""
        ow, operators = routes.ow, routes.operators
        with ow.store.snapshot():
            status = operators.status_of(name_of(name))
            lately = operators.deliveries(name, DELIVERIES_MAX)
            outbox = latest_replies(ow.store, name)
            moves = ow.cursors.history(f"{DUAL}/{name}", MOVES_MAX)
            dead = ow.dead.count_by_group().get(name, 0)
        holder = routes.holder()
        return json_answer(
            extended(
                GroupDetail,
                group_view(status),
                deliveries=[delivery_item(each) for each in lately],
                outbox=outbox,
                history=[plain_move(each) for each in moves],
                holder=holder,
                is_held=holder is not None,
                dead=dead,
                as_of=moment(),
            )
        )


def _add_groups(router: APIRouter, routes: _GroupRoutes, actions: ActionExecutor) -> None:
    def switched(body: GroupBody, key: str, *, is_paused: bool) -> Response:
        def act(_: Transaction) -> GroupChange:
            groups = Groups(routes.ow.store)
            group = groups.show(name_of(body.group))
            check_seen(f"group {group.name}", body.seen, group_version(group))
            if group.is_paused != is_paused:
                groups.set(group.name, is_paused=is_paused)
            return GroupChange(group=group_view(routes.operators.status_of(group.name)))

        name = "dispatch.pause" if is_paused else "dispatch.resume"
        action = OperatorAction(name=name, target=body.group, key=key, body=body.model_dump())
        return _execute_and_wake(routes, actions, action, act)

    @router.post("/api/dispatch/pause", responses=action_answers(GroupChange))
    def pause(body: GroupBody, key: ActionKey) -> Response:
        """Pause a group; the delivery in flight finishes."""
        return switched(body, key, is_paused=True)

    @router.post("/api/dispatch/resume", responses=action_answers(GroupChange))
    def resume(body: GroupBody, key: ActionKey) -> Response:
        """Resume a paused group."""
        return switched(body, key, is_paused=False)

    @router.post("/api/dispatch/replay", responses=action_answers(ReplayResult))
    def replay(body: ReplayBody, key: MaybeKey = None) -> Response:
        """Replay a group's messages from one on; a dry run counts and lists them."""
        if body.dry_run:
            return actions.preview(lambda: _replayed(routes, body))
        action = OperatorAction(
            name="dispatch.replay", target=body.group, key=key, body=body.model_dump()
        )
        return _execute_and_wake(routes, actions, action, lambda _: _replayed(routes, body))


def _execute_and_wake(
    routes: _GroupRoutes,
    actions: ActionExecutor,
    action: OperatorAction,
    work: Callable[[Transaction], ActionResult],
) -> Response:
    """Execute the action, and wake the dispatcher."""
    response = actions.execute(action, work)
    routes.wake_dispatcher()
    return response


def _replayed(routes: _GroupRoutes, body: ReplayBody) -> ReplayResult:
    operators, name = routes.operators, name_of(body.group)
    processed = operators.status_of(name).processed
    check_seen(f"group {name}", body.seen, str(processed))
    if body.since > processed:
        message = (
            f"since: {name} has processed no message from {body.since} on, so none can be "
            "replayed; nothing was changed"
        )
        fix = (
            f"pass {processed} or an earlier number"
            if processed
            else "wait until the group's agent has processed a message"
        )
        raise InvalidArgument(message, fix=fix, field="since")
    said = {"reason": body.reason.strip() or "replayed in the console", "actor": routes.actor}
    try:
        done = operators.replay(name, body.since, **said, is_dry_run=body.dry_run)
    except BatchInFlight as exc:
        message = f"the agent of {name} is processing a message; nothing was changed"
        raise Conflict(message, fix="pause the group, then wait until its agent is done") from exc
    first = Inbox(routes.ow.store).between(name, done.to_position, done.from_position, 5)
    return extended(ReplayResult, done, sample=sample(first), version=str(processed))
