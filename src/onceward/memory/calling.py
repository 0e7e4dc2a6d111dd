"""Calling: the one layer of retries around every call of memory, and the one line it logs.

Every write of memory is harmless to repeat, so a call whose outcome is unknown is repeated as well.
Never logs what was written: a line holds the key, how long it took, and how often it was retried.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from onceward.errors import OncewardError, OutcomeUnknown
from onceward.retries import retrying
from onceward.seams import Clock, Randomness, SystemClock
from onceward.secrets import Redactor
from onceward.stores import Store

T = TypeVar("T")
#: A longer key is told by its beginning and a hash of all of it.
KEY_CHARACTERS_MAX: Final = 80
_log: Final = logging.getLogger("onceward.memory")
#: The caller's to mend; everything else is ours, or the machine's.
_REFUSALS: Final = ("INVALID_", "NOT_FOUND", "CONFLICT")


class Calls:
    """Makes calls, each with at most three attempts, and tells the log about them."""

    def __init__(
        self,
        store: Store,
        redactor: Redactor,
        *,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """Look at this store for an open transaction, and hide what this redactor knows."""
        self.store, self.redactor = store, redactor
        self.clock = clock or SystemClock()
        self.retrying = retrying(on=(OutcomeUnknown,), clock=clock, randomness=randomness)

    def begin(self, event: str, level: int = logging.DEBUG) -> Call:
        """Begin a call; it is over, and logged, at the end of its `with` block."""
        return Call(self, event, level)


class Call:
    """One call, from its arguments to its answer."""

    def __init__(self, calls: Calls, event: str, level: int) -> None:
        """Begin; nothing was tried so far."""
        self._calls, self._event, self._level = calls, event, level
        self._attempts = 0
        self._began = calls.clock.monotonic()
        #: What it is about, once that is known.
        self.key = ""

    def about(self, names: Sequence[str]) -> None:
        """Let these names be the key: the first, and how many more."""
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        self.key = "".join(names[:1]) + more

    def about_text(self, text: str) -> None:
        """Let a text be the key that is nobody's name: it is logged as a hash."""
        self.key = f"text#{_hash8(text)}"

    def attempt(self, function: Callable[[], T]) -> T:
        """Call it until it answers, refuses, or has failed three times in a way that may pass."""

        def once() -> T:
            self._attempts += 1
            return function()

        # Inside a transaction of the caller's, only the caller can try again.
        is_alone = self._calls.store.current() is None
        return self._calls.retrying(once)() if is_alone else once()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        level = self._level
        facts: dict[str, object] = {
            "key": self._shown_key(),
            "durationMs": round((self._calls.clock.monotonic() - self._began) * 1000, 1),
            "retries": max(self._attempts - 1, 0),
        }
        if value is not None:
            # Its message may hold what was to be written; the code never does.
            code = value.code if isinstance(value, OncewardError) else type(value).__name__
            facts["error"] = code
            level = logging.WARNING if code.startswith(_REFUSALS) else logging.ERROR
        _log.log(level, "memory %s", self._event, extra={"event": self._event, "facts": facts})

    def _shown_key(self) -> str:
        """Return the key as it may be logged: without secrets, and no longer than a line bears."""
        clean = self._calls.redactor.text(self.key)
        if len(clean) <= KEY_CHARACTERS_MAX:
            return clean
        return f"{clean[:KEY_CHARACTERS_MAX]}…{_hash8(clean)}"


def _hash8(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
