"""Conversations over HTTP: one group, what was given up, and what people decide about it.

What is said in them, and where all of them stand, has routes of its own in `dispatch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from onceward.console.acting import Acting, Action, check_seen
from onceward.console.answers import (
    ACTION_ANSWERS,
    PAGE_ITEMS,
    ActionKey,
    After,
    Limit,
    MaybeKey,
    answers,
    clamped,
    json_answer,
    moment,
    number_after,
    page_answer,
)
from onceward.console.conversation_views import (
    DELIVERIES_MAX,
    MESSAGES_MAX,
    MOVES_MAX,
    group_version,
    letter_version,
    plain_delivery,
    plain_group,
    plain_message,
    sample,
    sayings,
)
from onceward.console.house import House
from onceward.dispatch.arrivals import Arrivals
from onceward.dispatch.chats import LETTERS_MAX, name_of
from onceward.dispatch.groups import Groups
from onceward.dispatch.models import DUAL, LEASE, NAME_CHARACTERS_MAX
from onceward.dispatch.operators import NUMBER_MAX, Operators, Replay
from onceward.dispatch.views import plain_move
from onceward.errors import BatchInFlight, Conflict, CursorMissing, InvalidArgument
from onceward.handle import Onceward
from onceward.stores import Transaction

#: So many letters are looked through for those of one group.
_SCAN_LETTERS_MAX: Final = 5_000
_REASON_CHARACTERS_MAX: Final = 1_000
_NAME_BYTES: Final = 4 * NAME_CHARACTERS_MAX

GroupQuery = Annotated[str, Query(max_length=_NAME_BYTES, description="The name of a group.")]
LetterNumber = Annotated[int, Query(ge=1, le=NUMBER_MAX, description="The number of a letter.")]


class _Body(BaseModel):
    """What every action here has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: str = Field(default="", max_length=_REASON_CHARACTERS_MAX)
    #: `version` of what somebody looked at; None does not ask.
    seen: str | None = Field(default=None, max_length=100)


class LetterBody(_Body):
    """Which letter is decided about."""

    id: int = Field(ge=1, le=NUMBER_MAX)
    dry_run: bool = False


class GroupBody(_Body):
    """Which group is paused or resumed."""

    group: str = Field(max_length=_NAME_BYTES)


class ReplayBody(GroupBody):
    """From which message on a group's messages are handed out again."""

    #: Its arrival number.
    since: int = Field(ge=1, le=NUMBER_MAX)
    dry_run: bool = False


def conversations_router(house: House, acting: Acting) -> APIRouter:
    """Return the routes of conversations that people decide by."""
    router = APIRouter()
    desk = _Desk(house)
    _add_looking(router, desk)
    _add_letters(router, desk, acting)
    _add_groups(router, desk, acting)
    return router


class _Desk:
    """What the routes share: the store's operators, and who must hear of a decision."""

    def __init__(self, house: House) -> None:
        self._house = house

    @property
    def actor(self) -> str:
        return self._house.actor

    @property
    def ow(self) -> Onceward:
        return self._house.ow()

    @property
    def operators(self) -> Operators:
        return Operators(self.ow.store)

    def tell(self) -> None:
        """Let the dispatcher of this process look at once; open pages look for themselves."""
        if self._house.chats is not None:
            self._house.chats.dispatcher.wake()

    def holder(self) -> str | None:
        """Return who runs the agents of this store, if anybody does."""
        try:
            found = self.ow.cursors.show(LEASE)
        except CursorMissing:
            return None
        return found.lease_owner if found.is_held else None


def _add_looking(router: APIRouter, desk: _Desk) -> None:
    @router.get("/api/dispatch/group", responses=answers(404))
    def group(name: GroupQuery) -> Response:
        """Show a group: where it stands, what was handed out, and what its agent said."""
        ow, operators = desk.ow, desk.operators
        with ow.store.snapshot():
            status = operators.status_of(name_of(name))
            arrived, read = operators.positions()
            lately = operators.deliveries(name, DELIVERIES_MAX)
            told = {
                **plain_group(status),
                "arrived": arrived,
                "read": read,
                "deliveries": [plain_delivery(each) for each in lately],
                "outbox": sayings(ow.store, name),
                "history": [plain_move(e) for e in ow.cursors.history(f"{DUAL}/{name}", MOVES_MAX)],
            }
            dead = [each for each in operators.letters(limit=LETTERS_MAX) if each.group == name]
        holder = desk.holder()
        who = {"holder": holder, "is_held": holder is not None, "dead": len(dead)}
        return json_answer({**told, **who, "as_of": moment()})

    @router.get("/api/dispatch/dead", responses=answers())
    def letters(limit: Limit = PAGE_ITEMS, after: After = None, group: GroupQuery = "") -> Response:
        """List what was given up and nobody decided about, the oldest first."""
        wanted, place = clamped(limit), number_after(after, 0)
        most = _SCAN_LETTERS_MAX if group else wanted
        found = desk.operators.letters(place, most + 1)
        fitting = [each for each in found[:most] if group in ("", each.group)]
        is_more = len(found) > most or len(fitting) > wanted
        shown = fitting[:wanted]
        last = shown[-1].id if len(fitting) > wanted else found[most - 1].id if is_more else None
        following = None if last is None else str(last)
        return page_answer([plain_delivery(each) for each in shown], following)

    @router.get("/api/dispatch/letter", responses=answers(404))
    def letter(id: LetterNumber) -> Response:  # noqa: A002 - the name of the parameter
        """Show what was given up: how it failed, and the messages."""
        record, messages = desk.operators.letter(id)
        told = [plain_message(each) for each in messages[:MESSAGES_MAX]]
        counts = {"messages_count": len(messages), "is_cut": len(messages) > MESSAGES_MAX}
        return json_answer(
            {**plain_delivery(record), "messages": told, **counts, "as_of": moment()}
        )


def _add_letters(router: APIRouter, desk: _Desk, acting: Acting) -> None:
    def decided(body: LetterBody, key: str | None, name: str, work: _Decide) -> Response:
        def act(_: Transaction) -> dict[str, Any]:
            record = desk.operators.letter(body.id)[0]
            check_seen(f"letter {body.id}", body.seen, letter_version(record))
            return {"id": body.id, "group": record.group, **work(desk.operators)}

        action = Action(name=name, target=str(body.id), key=key, body=body.model_dump())
        return _telling(desk, acting, action, act)

    def thought(body: LetterBody) -> Response:
        def look() -> dict[str, Any]:
            record, messages = desk.operators.letter(body.id)
            is_open = str(record.state) == "dead"
            told = {"id": body.id, "group": record.group, "is_open": is_open}
            return {**told, "messages": len(messages), "sample": sample(messages)}

        return acting.think(look)

    @router.post("/api/dispatch/redrive", responses=ACTION_ANSWERS)
    def redrive(body: LetterBody, key: MaybeKey = None) -> Response:
        """Let the messages of a letter arrive anew, and call the agent; harmless to repeat."""
        if body.dry_run:
            return thought(body)

        def work(operators: Operators) -> dict[str, Any]:
            messages = operators.redrive(body.id)
            return {"is_done": bool(messages), "messages": len(messages)}

        return decided(body, key, "dispatch.redrive", work)

    @router.post("/api/dispatch/drop", responses=ACTION_ANSWERS)
    def drop(body: LetterBody, key: MaybeKey = None) -> Response:
        """Give the messages of a letter up for good; it stays to be read."""
        if body.dry_run:
            return thought(body)
        return decided(
            body, key, "dispatch.drop", lambda operators: {"is_done": operators.drop(body.id)}
        )


def _add_groups(router: APIRouter, desk: _Desk, acting: Acting) -> None:
    def switched(body: GroupBody, key: str, *, is_paused: bool) -> Response:
        def act(_: Transaction) -> dict[str, Any]:
            groups = Groups(desk.ow.store)
            group = groups.show(name_of(body.group))
            check_seen(f"group {group.name}", body.seen, group_version(group))
            if group.is_paused != is_paused:
                groups.set(group.name, is_paused=is_paused)
            return {"group": plain_group(desk.operators.status_of(group.name))}

        name = "dispatch.pause" if is_paused else "dispatch.resume"
        action = Action(name=name, target=body.group, key=key, body=body.model_dump())
        return _telling(desk, acting, action, act)

    @router.post("/api/dispatch/pause", responses=ACTION_ANSWERS)
    def pause(body: GroupBody, key: ActionKey) -> Response:
        """Hand nothing new to the agent of a group; what runs goes on."""
        return switched(body, key, is_paused=True)

    @router.post("/api/dispatch/resume", responses=ACTION_ANSWERS)
    def resume(body: GroupBody, key: ActionKey) -> Response:
        """Hand messages to the agent of a group again."""
        return switched(body, key, is_paused=False)

    @router.post("/api/dispatch/replay", responses=ACTION_ANSWERS)
    def replay(body: ReplayBody, key: MaybeKey = None) -> Response:
        """Hand a group's messages out again from one on; `dry_run` says how many, and which."""
        if body.dry_run:
            return acting.think(lambda: _replayed(desk, body))
        action = Action(name="dispatch.replay", target=body.group, key=key, body=body.model_dump())
        return _telling(desk, acting, action, lambda _: _replayed(desk, body))


_Decide = Callable[[Operators], dict[str, Any]]


def _telling(
    desk: _Desk, acting: Acting, action: Action, work: Callable[[Transaction], dict[str, Any]]
) -> Response:
    """Act, and let the dispatcher know."""
    response = acting.do(action, work)
    desk.tell()
    return response


def _replayed(desk: _Desk, body: ReplayBody) -> dict[str, Any]:
    operators, name = desk.operators, name_of(body.group)
    processed = operators.status_of(name).processed
    check_seen(f"group {name}", body.seen, str(processed))
    if body.since > processed:
        message = f"since: {name} has processed nothing from {body.since} on"
        fix = f"begin at {processed} or before" if processed else "there is nothing to repeat"
        raise InvalidArgument(message, fix=fix, field="since")
    said = {"reason": body.reason.strip() or "replayed in the console", "actor": desk.actor}
    try:
        done = operators.replay(name, body.since, **said, is_dry_run=body.dry_run)
    except BatchInFlight as exc:
        message = f"the agent of {name} is at work; nothing was changed"
        raise Conflict(message, fix="wait until it is done, or pause the group first") from exc
    return _plain_replay(desk.ow, done, processed)


def _plain_replay(ow: Onceward, done: Replay, processed: int) -> dict[str, Any]:
    first = Arrivals(ow.store).between(done.group, done.to_position, done.from_position, 5)
    return {
        "group": done.group,
        "from_position": done.from_position,
        "to_position": done.to_position,
        "messages": done.messages,
        "is_called": done.is_called,
        "sample": sample(first),
        "version": str(processed),
    }
