"""Responses: what the console's routes share: pages, timestamps, documented errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from fastapi import Header, Query, Response

from onceward.errors import InvalidCursor
from onceward.http.errors import ResponseDocs, response_docs
from onceward.keys.encoding import encoded
from onceward.system import Clock, SystemClock, timestamp

PAGE_ITEMS: Final = 50
PAGE_ITEMS_MAX: Final = 500
KEY_CHARACTERS_MAX: Final = 200
#: More digits have no number that both engines keep.
_DIGITS_MAX: Final = 18
_DESCRIPTIONS: Final = {
    404: "There is no such thing.",
    409: "It changed since it was read, or it is in use.",
    410: "The key of this action has expired; use a new one.",
    415: "The body is not application/json.",
    422: "The key of this action was used for another one.",
    503: "The store cannot be reached now; try again with the same key.",
}

Limit = Annotated[
    int, Query(ge=1, description=f"How many at the most; above {PAGE_ITEMS_MAX} it is that.")
]
After = Annotated[
    str | None, Query(max_length=4_000, description="`next` of the page before; opaque.")
]
#: Makes an action safe to repeat.
ActionKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=KEY_CHARACTERS_MAX,
        pattern=r"^[\x21-\x7e]+$",
        description="The action runs once per key; a repeated request gets the first answer.",
    ),
]
#: For routes that also think an action through, which needs no key.
MaybeKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=KEY_CHARACTERS_MAX,
        pattern=r"^[\x21-\x7e]+$",
        description="The same key is carried out once; not needed for a dry run.",
    ),
]


def answers(*statuses: int) -> ResponseDocs:
    """Return the documented error responses of a route: the guard's, and these statuses."""
    return response_docs(_DESCRIPTIONS, *statuses)


#: What every action may be answered.
ACTION_ANSWERS: Final = answers(404, 409, 410, 415, 422)


def json_answer(
    body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a body as it leaves."""
    return Response(encoded(body), status, headers, media_type="application/json")


def moment(clock: Clock | None = None) -> str:
    """Return when an answer was true."""
    return timestamp((clock or SystemClock()).now())


def page_answer(items: Iterable[Any], following: str | None) -> Response:
    """Return one page of a list, and where the next begins."""
    return json_answer({"items": list(items), "next": following, "as_of": moment()})


def clamped(limit: int, most: int = PAGE_ITEMS_MAX) -> int:
    """Return how many an answer holds."""
    return min(limit, most)


def number_after(after: str | None, default: int) -> int:
    """Return the number that a page begins behind; InvalidCursor when it is none of ours."""
    if not after:
        return default
    if after.isascii() and after.isdigit() and len(after) <= _DIGITS_MAX:
        return int(after)
    message = f"after: {after[:40]!r} is not a place in this list"
    fix = "take `next` of the page before, or leave it out"
    raise InvalidCursor(message, fix=fix, field="after")
