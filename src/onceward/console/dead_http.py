"""Dead letters of workers and chat over HTTP: list, show, redrive after a preview, drop."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from onceward.console.actions import ActionExecutor, OperatorAction, check_seen
from onceward.console.context import ConsoleContext
from onceward.console.dead_views import (
    REDRIVE_MAX,
    LetterChange,
    LetterDetail,
    LetterItem,
    RedriveResult,
    check_versions,
    chosen,
    detail_of,
    item_of,
    plan_of,
    version_of,
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
from onceward.dispatch import Operators
from onceward.errors import Conflict, InvalidArgument
from onceward.retries import DeadFilter, DeadLetter, DeadLetters
from onceward.retries.models import check_text
from onceward.stores import Transaction
from onceward.stores.paging import NEWEST

REASON_CHARS_MAX: Final = 2_000
_TEXT_CHARS_MAX: Final = 1_024
_SEEN_CHARS_MAX: Final = 100

#: The largest integer that every JSON parser reads exactly.
_ID_MAX: Final = 2**53

LetterId = Annotated[int, Query(ge=1, le=_ID_MAX, description="The id of a dead letter.")]
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
SourceFilter = Annotated[
    Literal["worker", "chat"] | None, Query(description="Only letters of workers, or of chat.")
]
GroupFilter = Annotated[
    str | None, Query(max_length=_TEXT_CHARS_MAX, description="Only chat letters of this group.")
]
ErrorFilter = Annotated[
    str | None, Query(max_length=_TEXT_CHARS_MAX, description="Only letters with this error text.")
]
_Id = Annotated[int, Field(ge=1, le=_ID_MAX)]
_Seen = Annotated[str, Field(max_length=_SEEN_CHARS_MAX)]


class RedriveRequest(BaseModel):
    """Dead letters to redrive: by id, or all of a cursor or group, oldest first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ids: tuple[_Id, ...] | None = Field(default=None, min_length=1, max_length=REDRIVE_MAX)
    cursor: str | None = Field(default=None, min_length=1, max_length=_TEXT_CHARS_MAX)
    group: str | None = Field(default=None, min_length=1, max_length=_TEXT_CHARS_MAX)
    reason: str | None = Field(default=None, max_length=REASON_CHARS_MAX)
    #: The `version` of each letter that the operator saw, by id.
    seen: dict[str, _Seen] | None = Field(default=None, max_length=REDRIVE_MAX)
    dry_run: bool = False

    def check(self) -> None:
        """Reject ambiguous selections and values that no store can hold."""
        if [self.ids, self.cursor, self.group].count(None) != 2:
            message = "ids: exactly one of ids, cursor and group is required; nothing was changed"
            raise InvalidArgument(
                message,
                fix="send ids for single letters, or cursor or group for all of its letters",
                field="ids",
            )
        check_text("cursor", self.cursor or "-")
        check_text("group", self.group or "-")
        check_text("reason", (self.reason or "").strip() or "-")

    @property
    def filter(self) -> DeadFilter:
        """Return the filter for letters that are not selected by id."""
        return DeadFilter(cursor=self.cursor, group=self.group)


class DropRequest(BaseModel):
    """Discard a dead letter; it stays readable."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: _Id
    reason: str = Field(min_length=1, max_length=REASON_CHARS_MAX)
    seen: str | None = Field(default=None, max_length=_SEEN_CHARS_MAX)
    dry_run: bool = False


def dead_router(context: ConsoleContext, actions: ActionExecutor) -> APIRouter:
    """Return the routes of dead letters."""
    router = APIRouter()
    _add_reads(router, context)
    _add_redriving(router, context, actions)
    _add_dropping(router, context, actions)
    return router


def _add_reads(router: APIRouter, context: ConsoleContext) -> None:
    @router.get("/api/dead", responses=answers(Page[LetterItem]))
    def list_letters(  # noqa: PLR0913, PLR0917 - each is a query parameter
        limit: Limit = PAGE_ITEMS,
        after: After = None,
        state: StateFilter = "dead",
        cursor: CursorFilter = None,
        group: GroupFilter = None,
        source: SourceFilter = None,
        error: ErrorFilter = None,
        q: Words = None,
    ) -> Response:
        """List dead letters, newest first.

        A page reads a bounded number of letters: with `next` and no items, request the next page.
        """
        for field, text in (("cursor", cursor), ("group", group), ("error", error), ("q", q)):
            check_text(field, text or "-")
        page = context.ow().dead.page(
            cursor=cursor or None,
            group=group or None,
            source=source,
            error=error or None,
            state=None if state == "all" else state,
            words=q or None,
            before=number_after(after, NEWEST),
            limit=clamped(limit),
        )
        following = None if page.next is None else str(page.next)
        return page_answer([item_of(letter) for letter in page.items], following)

    @router.get("/api/dead/show", responses=answers(LetterDetail, 404))
    def show(id: LetterId) -> Response:  # noqa: A002 - its name in the address
        """Show one letter: its message or chat messages, the error, and every attempt."""
        ow = context.ow()
        found = ow.dead.show(id)
        messages = Operators(ow.store).messages_of(found)
        return json_answer(detail_of(found, ow.dead.requeue_targets([id]), messages))


def _add_redriving(router: APIRouter, context: ConsoleContext, actions: ActionExecutor) -> None:
    @router.post("/api/dead/redrive", responses=action_answers(RedriveResult))
    def redrive(body: RedriveRequest, key: MaybeKey = None) -> Response:
        """Requeue dead letters of workers and chat. Idempotent.

        A dry run counts them by cursor and by key, and shows some.
        """
        body.check()
        dead = context.ow().dead
        if body.dry_run:
            return actions.preview(lambda: _plan(dead, body)[1])
        target = body.cursor or body.group or ", ".join(map(str, (body.ids or ())[:20]))
        action = OperatorAction(name="dead.redrive", target=target, key=key, body=body.model_dump())
        response = actions.execute(action, lambda tx: _redrive(dead, tx, body, context.actor))
        if context.chats is not None:
            # Chat messages may be pending again, so wake the dispatcher of this process.
            context.chats.dispatcher.wake()
        return response


def _plan(
    dead: DeadLetters, body: RedriveRequest, tx: Transaction | None = None
) -> tuple[list[DeadLetter], RedriveResult]:
    """Return the plan of a redrive; inside the redrive's transaction the letters are locked."""
    read = None if tx is None else partial(dead.lock, tx, to_redrive=True)
    letters, is_cut = chosen(dead, body.ids, body.filter, read=read)
    check_versions(letters, body.seen)
    lines = dead.requeue_targets(letter.id for letter in letters)
    return letters, plan_of(letters, lines, is_cut=is_cut)


def _redrive(dead: DeadLetters, tx: Transaction, body: RedriveRequest, actor: str) -> RedriveResult:
    letters, plan = _plan(dead, body, tx)
    if not letters:
        return plan
    ids = [letter.id for letter in letters]
    done = dead.redrive(ids, actor=actor, reason=body.reason or "")
    return replace(plan, count=len(done.ids), ids=list(done.ids), skipped=list(done.skipped))


def _add_dropping(router: APIRouter, context: ConsoleContext, actions: ActionExecutor) -> None:
    @router.post("/api/dead/drop", responses=action_answers(LetterChange))
    def drop(body: DropRequest, key: MaybeKey = None) -> Response:
        """Discard a dead letter; it stays readable."""
        check_text("reason", body.reason.strip())
        dead = context.ow().dead
        if body.dry_run:
            return actions.preview(
                lambda: LetterChange(letter=item_of(_droppable_letter(dead, body)))
            )
        action = OperatorAction(
            name="dead.drop", target=str(body.id), key=key, body=body.model_dump()
        )

        return actions.execute(action, lambda tx: _drop(dead, tx, body, context.actor))


def _drop(dead: DeadLetters, tx: Transaction, body: DropRequest, actor: str) -> LetterChange:
    letter = _droppable_letter(dead, body, tx)
    if not dead.drop(body.id, reason=body.reason, actor=actor):
        raise _not_droppable(letter)
    return LetterChange(letter=item_of(chosen(dead, [body.id])[0][0]))


def _droppable_letter(
    dead: DeadLetters, body: DropRequest, tx: Transaction | None = None
) -> DeadLetter:
    """Return the letter if it can be dropped and has not changed; in `tx`, it is locked."""
    read = None if tx is None else partial(dead.lock, tx)
    ((letter,), _) = chosen(dead, [body.id], read=read)
    check_seen(f"dead letter {letter.id}", body.seen, version_of(letter))
    if letter.state != "dead":
        raise _not_droppable(letter)
    return letter


def _not_droppable(letter: DeadLetter) -> Conflict:
    is_now = "no longer dead" if letter.state == "dead" else letter.state
    message = f"dead letter {letter.id} is {is_now}, so it cannot be dropped; nothing was changed"
    return Conflict(message, fix="load it again to see its state", id=letter.id, state=letter.state)
