"""Memory calls: retries and logging for every client call, in one layer; other log events.

Every memory write is idempotent, so a call with an unknown outcome is retried too. Log lines
contain the key, the duration and the number of retries, never content.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from onceward.errors import OncewardError, OutcomeUnknown
from onceward.errors.http_status import STATUS_OF_CODE
from onceward.retries import retrying
from onceward.stores import Store
from onceward.system import Clock, Randomness, SystemClock
from onceward.system.redaction import Redactor

T = TypeVar("T")
#: A longer key is logged as its beginning and a hash.
KEY_CHARACTERS_MAX: Final = 80
_log: Final = logging.getLogger("onceward.memory")
#: HTTP statuses of errors that the caller can correct, logged as warnings; others are errors.
_REJECTION_STATUSES: Final = frozenset({400, 404, 409})


class CallRunner:
    """Runs calls with at most three attempts each, and logs them."""

    def __init__(
        self,
        store: Store,
        redactor: Redactor,
        *,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """Detect an open transaction of this store, and redact keys with this redactor."""
        self.store, self.redactor = store, redactor
        self.clock = clock or SystemClock()
        self.retrying = retrying(on=(OutcomeUnknown,), clock=clock, randomness=randomness)

    def begin(self, event: str, level: int = logging.DEBUG) -> MemoryCall:
        """Start a call; it ends, and is logged, with its `with` block."""
        return MemoryCall(self, event, level)


class MemoryCall:
    """One call, with its key, attempts and duration."""

    def __init__(self, calls: CallRunner, event: str, level: int) -> None:
        """Start the clock."""
        self._calls, self._event, self._level = calls, event, level
        self._attempts = 0
        self._began = calls.clock.monotonic()
        #: What the call is about, for the log.
        self.key = ""

    def set_key(self, names: Sequence[str]) -> None:
        """Use these names as the key: the first one, and the number of others."""
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        self.key = "".join(names[:1]) + more

    def set_text_key(self, text: str) -> None:
        """Use a hash of this text as the key; the text is not logged."""
        self.key = f"text#{_hash8(text)}"

    def run(self, function: Callable[[], T]) -> T:
        """Run the function, and retry transient failures up to three attempts in all."""

        def once() -> T:
            self._attempts += 1
            return function()

        # Inside the caller's transaction only the caller can retry.
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
            # The message may contain content; the code does not.
            code = value.code if isinstance(value, OncewardError) else type(value).__name__
            facts["error"] = code
            level = (
                logging.WARNING
                if STATUS_OF_CODE.get(code) in _REJECTION_STATUSES
                else logging.ERROR
            )
        log_event(level, self._event, facts)

    def _shown_key(self) -> str:
        """Return the key for the log: redacted and truncated."""
        clean = self._calls.redactor.text(self.key)
        if len(clean) <= KEY_CHARACTERS_MAX:
            return clean
        return f"{clean[:KEY_CHARACTERS_MAX]}…{_hash8(clean)}"


def log_event(level: int, event: str, facts: Mapping[str, object]) -> None:
    """Log an event of `system.log_events.MEMORY`, or a call, with its fields."""
    _log.log(level, "memory %s", event, extra={"event": event, "facts": facts})


def _hash8(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
