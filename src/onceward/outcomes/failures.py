"""Failures: errors as JSON, so that whoever calls again gets the same one."""

from __future__ import annotations

from typing import Final

import orjson

from onceward.errors import NotCanonical, OncewardError, RecordedFailure
from onceward.keys import compact_json
from onceward.outcomes.models import Failure

MESSAGE_CHARS_MAX: Final = 4096


def failure_of(error: BaseException | Failure) -> Failure:
    """Return what is kept of an error: its class, its message, and its data if it is JSON."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, RecordedFailure):
        return Failure(type=error.type, message=error.failure_message, data=error.data)
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    return Failure(type=name, message=_plain(str(error)), data=_data(error))


def write_failure(failure: Failure) -> str:
    """Return a failure as JSON."""
    parts = {"type": failure.type, "message": failure.message, "data": failure.data}
    return compact_json(parts, root="failure").decode()


def read_failure(text: str) -> Failure:
    """Return the failure that `write_failure` wrote."""
    parts = orjson.loads(text)
    return Failure(type=parts["type"], message=parts["message"], data=parts["data"])


def recorded(failure: Failure) -> RecordedFailure:
    """Return the error that replays a failure."""
    return RecordedFailure(failure.type, failure.message, failure.data)


def _data(error: BaseException) -> object:
    data = error.context if isinstance(error, OncewardError) else getattr(error, "data", None)
    try:
        return orjson.loads(compact_json(data))
    except NotCanonical:
        return None


def _plain(message: str) -> str:
    """Return a message that every store can hold."""
    return message[:MESSAGE_CHARS_MAX].encode("utf-8", "replace").decode()
