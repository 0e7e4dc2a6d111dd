"""Memory calls: retries and logging for every client call, in one layer; other log events.

Every memory write is idempotent, so a call with an unknown outcome is retried too. Log lines
contain the key, the duration and the number of retries, never content.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

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

    @contextmanager
    def begin(self, event: str, level: int = logging.DEBUG) -> Iterator[MemoryCall]:
        """Run a block as one call, and log the call at its end."""
        call, began, error = MemoryCall(self), self.clock.monotonic(), ""
        try:
            yield call
        except BaseException as exc:
            # The message may contain content; the code does not.
            error = exc.code if isinstance(exc, OncewardError) else type(exc).__name__
            is_rejection = STATUS_OF_CODE.get(error) in _REJECTION_STATUSES
            level = logging.WARNING if is_rejection else logging.ERROR
            raise
        finally:
            facts: dict[str, object] = {
                "key": self._shown_key(call.key),
                "durationMs": round((self.clock.monotonic() - began) * 1000, 1),
                "retries": max(call.attempts - 1, 0),
            }
            log_event(level, event, {**facts, "error": error} if error else facts)

    def _shown_key(self, key: str) -> str:
        """Return a key for the log: redacted and truncated."""
        clean = self.redactor.text(key)
        if len(clean) <= KEY_CHARACTERS_MAX:
            return clean
        return f"{clean[:KEY_CHARACTERS_MAX]}…{_hash8(clean)}"


class MemoryCall:
    """One call, with its key and its attempts."""

    def __init__(self, calls: CallRunner) -> None:
        """Start without a key."""
        self._calls = calls
        self.attempts = 0
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
            self.attempts += 1
            return function()

        # Inside the caller's transaction only the caller can retry.
        is_alone = self._calls.store.current() is None
        return self._calls.retrying(once)() if is_alone else once()


def log_event(level: int, event: str, facts: Mapping[str, object]) -> None:
    """Log an event of `system.log_events.MEMORY`, or a call, with its fields."""
    _log.log(level, "memory %s", event, extra={"event": event, "facts": facts})


def _hash8(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
