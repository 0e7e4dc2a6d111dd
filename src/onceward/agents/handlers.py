"""Handlers: call a user's function, `def` or `async def`, and classify its exceptions.

Only the orchestrator retries, with the retry schedule of agents.
"""

from __future__ import annotations

import errno
import hashlib
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from onceward.errors import InvalidArgument

if TYPE_CHECKING:
    import asyncio

#: Transient errors. HTTP clients wrap them, so the causes of an exception are checked too.
CONNECTION_ERRORS: Final = (ConnectionError, TimeoutError, socket.gaierror)
#: Transient, too; Python has no exception classes for them.
UNREACHABLE_ERRNOS: Final = frozenset(
    {errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH}
)
_CAUSES_MAX: Final = 20


class HandlerCalls:
    """Calls handlers; coroutines share one event loop, which is closed with the agent."""

    def __init__(self, retryable: object = ()) -> None:
        """Treat these exception classes as retryable too."""
        found: list[type[Exception]] = []
        # One class instead of a sequence is a frequent mistake, and cannot be iterated over.
        if not isinstance(retryable, Iterable):
            _refuse(f"must be a tuple of exception classes, not {retryable!r:.60}")
        for each in retryable:
            if not isinstance(each, type) or not issubclass(each, Exception):
                _refuse(f"{each!r:.60} is not a subclass of Exception")
            found.append(each)
        self._retryable = tuple(found)
        self._loop: asyncio.Runner | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()

    def call(self, handler: Callable[[Any], object], command: object) -> object:
        """Call a handler and return its result; await it if it is awaitable."""
        found = handler(command)
        return self._awaited(found) if isinstance(found, Awaitable) else found

    def is_retryable(self, exc: BaseException) -> bool:
        """Return whether another attempt may help: a declared exception or a connection error."""
        if isinstance(exc, self._retryable):
            return True
        return any(map(_is_connection_error, _causes(exc)))

    def _awaited(self, answer: Awaitable[object]) -> object:
        import asyncio  # noqa: PLC0415 - slow to import, and few agents need it

        async def wait() -> object:
            return await answer

        # One loop for all commands, so that handlers can reuse connections.
        self._loop = self._loop or asyncio.Runner()
        return self._loop.run(wait())


def _refuse(problem: str) -> NoReturn:
    message = f"retryable: {problem}; the agent was not created"
    fix = "pass a tuple of classes, such as retryable=(RateLimited,)"
    raise InvalidArgument(message, fix=fix, field="retryable")


def version_of(handler: Callable[..., object]) -> str:
    """Return the checksum of the handler's source file; empty if there is none."""
    module = sys.modules.get(getattr(handler, "__module__", "") or "")
    name = getattr(module, "__file__", None)
    try:
        return hashlib.sha256(Path(name).read_bytes()).hexdigest() if name else ""
    except OSError:
        return ""


def _is_connection_error(exc: BaseException) -> bool:
    if isinstance(exc, CONNECTION_ERRORS):
        return True
    return isinstance(exc, OSError) and exc.errno in UNREACHABLE_ERRNOS


def _causes(exc: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes, as a traceback shows them."""
    found: BaseException | None = exc
    for _ in range(_CAUSES_MAX):
        if found is None:
            return
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
