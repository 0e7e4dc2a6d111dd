"""Cursors over HTTP: list cursors with their lag and owner; pause, resume, seek and undo."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from onceward.console.actions import ActionExecutor, OperatorAction
from onceward.console.context import ConsoleContext
from onceward.console.cursor_actions import (
    CursorChange,
    CursorMoveResult,
    OperatorMove,
    moved,
    paused,
    planned,
)
from onceward.console.cursor_paging import filter_of, read_page
from onceward.console.cursor_views import CursorDetail, CursorItem, detail_of, items_of
from onceward.console.responses import (
    PAGE_ITEMS,
    ActionKey,
    After,
    Limit,
    MaybeKey,
    Page,
    action_answers,
    answers,
    clamped,
    json_answer,
    page_answer,
)
from onceward.cursors.models import (
    NAME_CHARACTERS_MAX,
    POSITION_CHARACTERS_MAX,
    REASON_CHARACTERS_MAX,
    check_name,
    check_text,
)

PAGE_CURSORS_MAX: Final = 10_000
_SEEN_CHARACTERS_MAX: Final = 100

Name = Annotated[
    str, Query(min_length=1, max_length=NAME_CHARACTERS_MAX, description="A cursor's name.")
]
Words = Annotated[
    str | None,
    Query(
        max_length=NAME_CHARACTERS_MAX,
        description="A part of the name, a pattern such as `lead_*`, or `state:paused`.",
    ),
]
StateFilter = Annotated[
    Literal["held", "free", "expired", "paused"] | None, Query(description="Only those.")
]
Order = Annotated[
    Literal["name", "lag"], Query(description="`lag`: longest waiting message first.")
]


class _CursorBody(BaseModel):
    """The fields of every action on a cursor."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=NAME_CHARACTERS_MAX)
    #: The reason; kept in the cursor's history.
    reason: str = Field(default="", max_length=REASON_CHARACTERS_MAX)
    #: `version` of the cursor that the operator saw; None skips the check.
    seen: str | None = Field(default=None, max_length=_SEEN_CHARACTERS_MAX)

    def check(self) -> None:
        """Reject values that no store can hold."""
        check_name(self.name)
        check_text("reason", self.reason, characters_max=REASON_CHARACTERS_MAX, may_be_empty=True)


class PauseRequest(_CursorBody):
    """Pause or resume a cursor."""


class SeekRequest(_CursorBody):
    """Seek a cursor."""

    #: The position to resume after (exclusive); null is the start.
    position: str | None = Field(max_length=POSITION_CHARACTERS_MAX)
    dry_run: bool = False

    def check(self) -> None:
        """Reject values that no store can hold."""
        super().check()
        most = POSITION_CHARACTERS_MAX
        check_text("position", self.position or "", characters_max=most, may_be_empty=True)


class UndoRequest(_CursorBody):
    """Undo the last seek of a cursor."""

    dry_run: bool = False


def cursors_router(context: ConsoleContext, actions: ActionExecutor) -> APIRouter:
    """Return the routes of cursors."""
    router = APIRouter()
    _add_reads(router, context)
    _add_pausing(router, context, actions)
    _add_moving(router, context, actions)
    return router


def _add_reads(router: APIRouter, context: ConsoleContext) -> None:
    @router.get("/api/cursors", responses=answers(Page[CursorItem]))
    def list_cursors(
        limit: Limit = PAGE_ITEMS,
        after: After = None,
        q: Words = None,
        state: StateFilter = None,
        sort: Order = "name",
    ) -> Response:
        """List cursors with position, owner, lag, and what blocks them.

        A page reads a bounded number of cursors: with `next` and few or no items, request the next
        page. Lists of more than 500 have no `spark` and no `shape`; `parked` and `dead` are counted
        up to 1,000, in such lists up to 100.
        """
        ow, cursor_filter = context.ow(), filter_of(q, state)
        with ow.store.snapshot():
            found, following = read_page(
                ow.store,
                cursor_filter,
                sort=sort,
                after=after,
                limit=clamped(limit, PAGE_CURSORS_MAX),
            )
            items = items_of(ow, found)
        return page_answer(items, following)

    @router.get("/api/cursors/show", responses=answers(CursorDetail, 404))
    def show_cursor(name: Name) -> Response:
        """Show one cursor: its history, its leases, rejected stale writes, and its lag."""
        return json_answer(detail_of(context, check_name(name)))


def _add_pausing(router: APIRouter, context: ConsoleContext, actions: ActionExecutor) -> None:
    def act(body: PauseRequest, key: str, *, is_pause: bool) -> Response:
        body.check()
        action = OperatorAction(
            name="cursor.pause" if is_pause else "cursor.resume",
            target=body.name,
            key=key,
            body=body.model_dump(),
        )
        work = paused(context, body.name, body.reason, body.seen, is_pause=is_pause)
        return actions.execute(action, work)

    @router.post("/api/cursors/pause", responses=action_answers(CursorChange))
    def pause_cursor(body: PauseRequest, key: ActionKey) -> Response:
        """Pause a cursor; in-flight work finishes."""
        return act(body, key, is_pause=True)

    @router.post("/api/cursors/resume", responses=action_answers(CursorChange))
    def resume_cursor(body: PauseRequest, key: ActionKey) -> Response:
        """Resume a paused cursor."""
        return act(body, key, is_pause=False)


def _add_moving(router: APIRouter, context: ConsoleContext, actions: ActionExecutor) -> None:
    def act(body: SeekRequest | UndoRequest, moving: OperatorMove, key: str | None) -> Response:
        body.check()
        if body.dry_run:
            return actions.preview(lambda: planned(context, moving))
        asked = body.model_dump(exclude={"dry_run"})
        action = OperatorAction(name=f"cursor.{moving.kind}", target=body.name, key=key, body=asked)
        return actions.execute(action, moved(context, moving))

    @router.post("/api/cursors/seek", responses=action_answers(CursorMoveResult))
    def seek_cursor(body: SeekRequest, key: MaybeKey = None) -> Response:
        """Seek a cursor. Its current owner is fenced. A dry run returns the plan."""
        moving = OperatorMove(
            kind="seek",
            name=body.name,
            position=body.position,
            reason=body.reason,
            seen=body.seen,
        )
        return act(body, moving, key)

    @router.post("/api/cursors/undo", responses=action_answers(CursorMoveResult))
    def undo_seek(body: UndoRequest, key: MaybeKey = None) -> Response:
        """Undo the last seek of a cursor; a dry run returns the plan."""
        moving = OperatorMove(kind="undo", name=body.name, reason=body.reason, seen=body.seen)
        return act(body, moving, key)
