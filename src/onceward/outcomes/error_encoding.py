"""Error encoding: store errors as JSON, so that every later caller gets the same error.

Reading a user's error may raise or give nonsense; it is recorded all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

from onceward.errors import OncewardError, RecordedFailure
from onceward.keys import compact_json
from onceward.outcomes.models import StoredFailure

MESSAGE_CHARS_MAX: Final = 4096
#: Larger error data is not stored.
DATA_BYTES_MAX: Final = 256 * 1024
#: Replaces a message that cannot be read.
UNREADABLE: Final = "(its message cannot be read)"

Raises = tuple[type[Exception], ...]


def failure_of(error: BaseException | StoredFailure, *, raises: Raises = ()) -> StoredFailure:
    """Return the stored form of an error: its class, its message, and its data if it is JSON.

    For a class in `raises`, the arguments are stored too, if they are JSON.
    """
    if isinstance(error, StoredFailure):
        return error
    if isinstance(error, RecordedFailure):
        return StoredFailure(type=error.type, message=error.failure_message, data=error.data)
    return StoredFailure(
        type=_text(lambda: _name(type(error))),
        message=_text(lambda: str(error)),
        data=_json(lambda: _data(error)),
        args=_json(lambda: list(error.args)) if isinstance(error, raises) else None,
    )


def write_failure(failure: StoredFailure) -> str:
    """Return a failure as JSON."""
    parts = {"type": failure.type, "message": failure.message, "data": failure.data}
    if failure.args is not None:
        parts["args"] = failure.args
    return compact_json(parts, root="failure").decode()


def read_failure(text: str) -> StoredFailure:
    """Return the failure that `write_failure` wrote."""
    parts = orjson.loads(text)
    return StoredFailure(
        type=parts["type"],
        message=parts["message"],
        data=parts["data"],
        args=parts.get("args"),
    )


def recorded_failure(failure: StoredFailure) -> RecordedFailure:
    """Return the error that replays a failure."""
    return RecordedFailure(failure.type, failure.message, failure.data)


def replayed_error(failure: StoredFailure, raises: Raises) -> Exception:
    """Return the error that replays a failure: of its own class if that is in `raises`.

    It is built from the recorded arguments. A class that cannot be built from them, or that is
    retryable, is replaced by RecordedFailure.
    """
    known = recorded_failure(failure)
    kind = next((each for each in _with_subclasses(raises) if _name(each) == failure.type), None)
    if kind is None or failure.args is None or getattr(kind, "retryable", False):
        return known
    try:
        built = kind(*failure.args)
    except Exception:  # noqa: BLE001 - the class is the user's
        return known
    if failure_of(built, raises=(kind,)) != failure:
        return known
    known.is_cause = True
    built.__cause__ = known
    return built


def is_replayed_error(error: BaseException) -> bool:
    """Return whether this error is a recorded failure, which no retry changes."""
    cause = error.__cause__
    return isinstance(error, RecordedFailure) or (
        isinstance(cause, RecordedFailure) and cause.is_cause
    )


def _with_subclasses(kinds: Raises) -> Iterator[type[Exception]]:
    """Yield these classes, then those derived from them."""
    yield from kinds
    for kind in kinds:
        yield from _with_subclasses(tuple(kind.__subclasses__()))


def _name(kind: type[BaseException]) -> str:
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _data(error: BaseException) -> object:
    return error.context if isinstance(error, OncewardError) else getattr(error, "data", None)


def _json(read: Callable[[], object]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of `read`; None if it raises, is not JSON or is too large."""
    try:
        written = compact_json(read())
    except Exception:  # noqa: BLE001 - the error's own code
        return None
    return orjson.loads(written) if len(written) <= DATA_BYTES_MAX else None


def _text(read: Callable[[], str]) -> str:
    """Return the text of `read`, with characters escaped that some store cannot hold."""
    try:
        # The methods of str itself: a subclass may have others.
        head = str.__getitem__(read(), slice(MESSAGE_CHARS_MAX))
        return str.encode(head, "utf-8", "replace").decode()
    except Exception:  # noqa: BLE001 - the error's own code
        return UNREADABLE
