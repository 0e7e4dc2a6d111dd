"""Dead letters over HTTP: look at what was given up, put it back after a preview, or drop it."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from onceward.console.acting import Acting, Action, check_seen
from onceward.console.answers import (
    ACTION_ANSWERS,
    PAGE_ITEMS,
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
from onceward.console.dead_views import (
    REDRIVE_MAX,
    check_versions,
    chosen,
    detail_of,
    item_of,
    plan_of,
    version_of,
)
from onceward.console.house import House
from onceward.errors import Conflict, InvalidArgument
from onceward.retries import DeadLetter, DeadLetters
from onceward.retries.models import check_text
from onceward.stores import Transaction
from onceward.stores.paging import NEWEST

REASON_CHARS_MAX: Final = 2_000
_TEXT_CHARS_MAX: Final = 1_024
_SEEN_CHARS_MAX: Final = 100

#: Larger integers are not the same for every reader of JSON.
_ID_MAX: Final = 2**53

LetterId = Annotated[int, Query(ge=1, le=_ID_MAX, description="The number of a dead letter.")]
StateFilter = Annotated[
    Literal["dead", "redriven", "dropped", "all"], Query(description="Only those in this state.")
]
CursorFilter = Annotated[
    str | None, Query(max_length=_TEXT_CHARS_MAX, description="Only those of this cursor.")
]
Words = Annotated[
    str | None,
    Query(
        max_length=_TEXT_CHARS_MAX,
        description="A part of the cursor, the position, the key or the error.",
    ),
]
_Id = Annotated[int, Field(ge=1, le=_ID_MAX)]
_Seen = Annotated[str, Field(max_length=_SEEN_CHARS_MAX)]


class Redriving(BaseModel):
    """Which messages to put back: by number, or all of a cursor, the oldest first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ids: tuple[_Id, ...] | None = Field(default=None, min_length=1, max_length=REDRIVE_MAX)
    cursor: str | None = Field(default=None, min_length=1, max_length=_TEXT_CHARS_MAX)
    reason: str | None = Field(default=None, max_length=REASON_CHARS_MAX)
    #: `version` of each letter as it was looked at, by its number.
    seen: dict[str, _Seen] | None = Field(default=None, max_length=REDRIVE_MAX)
    dry_run: bool = False

    def check(self) -> None:
        """Refuse what is unclear, and what no store can hold."""
        if (self.ids is None) == (self.cursor is None):
            message = "ids: name letters, or a cursor, and not both"
            raise InvalidArgument(message, fix="pass ids or cursor", field="ids")
        check_text("cursor", self.cursor or "-")


class Dropping(BaseModel):
    """Give a message up for good; its letter stays to be read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: _Id
    reason: str = Field(min_length=1, max_length=REASON_CHARS_MAX)
    seen: str | None = Field(default=None, max_length=_SEEN_CHARS_MAX)
    dry_run: bool = False


def dead_router(house: House, acting: Acting) -> APIRouter:
    """Return the routes of dead letters."""
    router = APIRouter()
    _add_looking(router, house)
    _add_redriving(router, house, acting)
    _add_dropping(router, house, acting)
    return router


def _add_looking(router: APIRouter, house: House) -> None:
    @router.get("/api/dead", responses=answers())
    def list_letters(
        limit: Limit = PAGE_ITEMS,
        after: After = None,
        state: StateFilter = "dead",
        cursor: CursorFilter = None,
        q: Words = None,
    ) -> Response:
        """List messages that were given up, the newest first.

        A page looks at a bounded number of letters: with `next` and no items, ask again.
        """
        for field, text in (("cursor", cursor), ("q", q)):
            check_text(field, text or "-")
        page = house.ow().dead.page(
            cursor=cursor or None,
            state=None if state == "all" else state,
            words=q or None,
            before=number_after(after, NEWEST),
            limit=clamped(limit),
        )
        following = None if page.next is None else str(page.next)
        return page_answer([item_of(letter) for letter in page.items], following)

    @router.get("/api/dead/show", responses=answers(404))
    def show(id: LetterId) -> Response:  # noqa: A002 - its name in the address
        """Show one letter: the message, the error, every attempt, and where it would line up."""
        dead = house.ow().dead
        found = dead.show(id)
        return json_answer({**detail_of(found, dead.lines([id])), "as_of": moment()})


def _add_redriving(router: APIRouter, house: House, acting: Acting) -> None:
    @router.post("/api/dead/redrive", responses=ACTION_ANSWERS)
    def redrive(body: Redriving, key: MaybeKey = None) -> Response:
        """Put messages back, to be tried at once; twice is harmless.

        A dry run says how many, of which cursors, behind which keys they line up, and shows some.
        """
        body.check()
        dead = house.ow().dead
        if body.dry_run:
            return acting.think(lambda: _plan(dead, body)[1])
        target = body.cursor or ", ".join(map(str, (body.ids or ())[:20]))
        action = Action(name="dead.redrive", target=target, key=key, body=body.model_dump())
        return acting.do(action, lambda tx: _redrive(dead, tx, body, house.actor))


def _plan(
    dead: DeadLetters, body: Redriving, tx: Transaction | None = None
) -> tuple[list[DeadLetter], dict[str, Any]]:
    """Return what a redrive would do; inside the transaction that does it, nothing else changes."""
    read = None if tx is None else partial(dead.hold, tx, to_redrive=True)
    letters, is_cut = chosen(dead, body.ids, body.cursor, read=read)
    check_versions(letters, body.seen)
    lines = dead.lines(letter.id for letter in letters)
    return letters, plan_of(letters, lines, is_cut=is_cut)


def _redrive(dead: DeadLetters, tx: Transaction, body: Redriving, actor: str) -> dict[str, Any]:
    letters, plan = _plan(dead, body, tx)
    if not letters:
        return plan
    done = dead.redrive([letter.id for letter in letters], actor=actor)
    return {**plan, "count": len(done.ids), "ids": list(done.ids), "skipped": list(done.skipped)}


def _add_dropping(router: APIRouter, house: House, acting: Acting) -> None:
    @router.post("/api/dead/drop", responses=ACTION_ANSWERS)
    def drop(body: Dropping, key: MaybeKey = None) -> Response:
        """Give a message up for good; its letter stays to be read."""
        check_text("reason", body.reason.strip())
        dead = house.ow().dead
        if body.dry_run:
            return acting.think(lambda: {"letter": item_of(_undropped(dead, body))})
        action = Action(name="dead.drop", target=str(body.id), key=key, body=body.model_dump())

        return acting.do(action, lambda tx: _drop(dead, tx, body, house.actor))


def _drop(dead: DeadLetters, tx: Transaction, body: Dropping, actor: str) -> dict[str, Any]:
    letter = _undropped(dead, body, tx)
    if not dead.drop(body.id, reason=body.reason, actor=actor):
        raise _undroppable(letter)
    return {"letter": item_of(chosen(dead, [body.id])[0][0])}


def _undropped(dead: DeadLetters, body: Dropping, tx: Transaction | None = None) -> DeadLetter:
    """Return the letter, if it can be dropped and is as it was seen; in `tx`, it stays so."""
    read = None if tx is None else partial(dead.hold, tx)
    ((letter,), _) = chosen(dead, [body.id], read=read)
    check_seen(f"dead letter {letter.id}", body.seen, version_of(letter))
    if letter.state != "dead":
        raise _undroppable(letter)
    return letter


def _undroppable(letter: DeadLetter) -> Conflict:
    is_now = "not dead any more" if letter.state == "dead" else letter.state
    message = f"dead letter {letter.id} is {is_now}: there is nothing to drop"
    return Conflict(message, fix="look at it again", id=letter.id, state=letter.state)
