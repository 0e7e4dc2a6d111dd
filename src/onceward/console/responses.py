"""Responses: helpers of the console's routes for list pages, timestamps and documented errors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar

from fastapi import Header, Query, Response

from onceward.errors import InvalidCursor
from onceward.http.errors import ResponseDocs, response_docs
from onceward.keys.encoding import encoded
from onceward.stores import Row
from onceward.system import Clock, SystemClock, timestamp

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
PAGE_ITEMS: Final = 50
PAGE_ITEMS_MAX: Final = 500
KEY_CHARACTERS_MAX: Final = 200
#: Longer numbers do not fit the integers of both engines.
_DIGITS_MAX: Final = 18
_DESCRIPTIONS: Final = {
    404: "Not found.",
    409: "The target changed since it was read, or is in use.",
    410: "The key of this action has expired; use a new one.",
    415: "The body is not application/json.",
    422: "The key was already used for another action.",
    503: "The store cannot be reached now; try again with the same key.",
}

Limit = Annotated[
    int,
    Query(
        ge=1,
        description=f"Maximum number of items; values above {PAGE_ITEMS_MAX} are reduced to it.",
    ),
]
After = Annotated[
    str | None, Query(max_length=4_000, description="`next` of the previous page; opaque.")
]
#: Header that makes an action idempotent.
ActionKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=KEY_CHARACTERS_MAX,
        pattern=r"^[\x21-\x7e]+$",
        description="The action runs once per key; a repeated request gets the first response.",
    ),
]
#: For routes with dry runs, which need no key.
MaybeKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=KEY_CHARACTERS_MAX,
        pattern=r"^[\x21-\x7e]+$",
        description="The action runs once per key; not needed for a dry run.",
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Page(Generic[T]):
    """One page of a list."""

    items: list[T]
    #: Pass it as `after` to get the next page; null at the end.
    next: str | None
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """What an action was recorded as."""

    #: The idempotency key of the action.
    key: str
    action: str
    #: Whether this is the recorded result of an earlier request.
    is_replay: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionResult:
    """The result of an action or of its dry run."""

    dry_run: bool = True
    #: None for a dry run; `ActionExecutor` makes it when the action has run.
    receipt: Receipt | None = None


def answers(model: type, *statuses: int) -> ResponseDocs:
    """Return the documented responses of a route: its model, the guard's, and these statuses."""
    return response_docs(_DESCRIPTIONS, *statuses, model=model)


def action_answers(model: type) -> ResponseDocs:
    """Return the documented responses of an action with this result."""
    return answers(model, 404, 409, 410, 415, 422)


def json_answer(
    body: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response of a dataclass or a dictionary."""
    return Response(encoded(body), status, headers, media_type="application/json")


def extended(kind: type[T], base: DataclassInstance, **more: object) -> T:
    """Return a `kind` with the fields of `base` that it has, and these."""
    known = {name: getattr(base, name) for name in _shared_fields(kind, type(base))}  # type: ignore[arg-type]  # hashable
    return kind(**(known | more))


@cache
def _shared_fields(kind: Hashable, base: type[DataclassInstance]) -> list[str]:
    wanted = {each.name for each in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    return [each.name for each in fields(base) if each.name in wanted]


def of_row(kind: type[T], row: Row) -> T:
    """Return a `kind` of the columns of a row, in the order of its fields."""
    names = (each.name for each in fields(kind))  # type: ignore[arg-type]  # a dataclass
    return kind(**dict(zip(names, row, strict=True)))


def moment(clock: Clock | None = None) -> str:
    """Return the timestamp of a response's data."""
    return timestamp((clock or SystemClock()).now())


def page_answer(items: Iterable[Any], following: str | None) -> Response:
    """Return one page of a list, with the position of the next page."""
    return json_answer(Page(items=list(items), next=following, as_of=moment()))


def clamped(limit: int, most: int = PAGE_ITEMS_MAX) -> int:
    """Return the page size for a requested limit."""
    return min(limit, most)


def number_after(after: str | None, default: int) -> int:
    """Return the number after which a page begins; InvalidCursor if it is invalid."""
    if not after:
        return default
    if after.isascii() and after.isdigit() and len(after) <= _DIGITS_MAX:
        return int(after)
    message = f"after: {after[:40]!r} is not a position in this list"
    fix = "pass `next` of the previous page, or no `after`"
    raise InvalidCursor(message, fix=fix, field="after")
