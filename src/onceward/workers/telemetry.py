"""Telemetry: log and count what the workers of a process do."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from onceward.cursors import Lease
from onceward.errors import OncewardError, SourceRefused
from onceward.retries import Dead, Later
from onceward.system import Clock, SystemClock
from onceward.workers.handler_timings import HandlerTimings
from onceward.workers.models import Message

_log: Final = logging.getLogger("onceward.workers")


class CursorCounts:
    """Message counters of one cursor in this process."""

    __slots__ = ("dead", "failed", "processed", "retried")

    def __init__(self) -> None:
        """Start at zero."""
        self.processed = 0
        self.failed = 0
        self.retried = 0
        self.dead = 0


class Telemetry:
    """The log events and counters of one worker process."""

    def __init__(self, clock: Clock | None = None) -> None:
        """Start with empty counters."""
        self._clock = clock or SystemClock()
        #: How long handlers take.
        self.timings = HandlerTimings()
        self._mutex = threading.Lock()
        #: By cursor.
        self.counts: defaultdict[str, CursorCounts] = defaultdict(CursorCounts)
        #: The last logged error of each refused source, by cursor or consumer.
        self._refused_sources: dict[str, str] = {}

    @contextmanager
    def handler_timer(self, consumer: str) -> Iterator[None]:
        """Measure a handler call, whether it returns or raises."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self.timings.observe(consumer, self._clock.monotonic() - began)

    def count_processed(self, lease: Lease, messages: list[Message]) -> None:
        """Count messages whose effects are committed."""
        with self._mutex:
            counts = self.counts[lease.name]
            counts.processed += len(messages)
            counts.retried += sum(message.attempt > 1 for message in messages)

    def message_dead_lettered(
        self, lease: Lease, position: str, letter: int, error: BaseException
    ) -> None:
        """Log and count an unreadable message that became a dead letter."""
        with self._mutex:
            self.counts[lease.name].dead += 1
        self._log_event(
            logging.ERROR,
            "message dead-lettered",
            action="message_dead_lettered",
            cursor=lease.name,
            position=position,
            letter=letter,
            error=_one_line(error),
        )

    def batch_failed(self, lease: Lease, messages: int, error: BaseException) -> None:
        """Log a failed batch whose messages run again one by one."""
        self._log_event(
            logging.WARNING,
            "batch failed, running its messages one by one",
            action="batch_failed",
            cursor=lease.name,
            messages=messages,
            error=_one_line(error),
        )

    def warn_and_retry(
        self, action: str, cursor: str, error: BaseException, seconds: float
    ) -> None:
        """Log an error after which a cursor is retried in `seconds`."""
        context = error.context if isinstance(error, OncewardError) else {}
        self._log_event(
            logging.WARNING,
            action.replace("_", " "),
            **{**context, "action": action, "cursor": cursor},
            error=_one_line(error),
            retrySeconds=round(seconds, 3),
        )

    def source_refused(self, cursor: str, error: SourceRefused) -> None:
        """Log a source that cannot be read until an operator changes it; once per problem."""
        line = _one_line(error)
        problem = f"{line} {error.fix}"
        if self._refused_sources.get(cursor) == problem:
            return
        self._refused_sources[cursor] = problem
        text, fix = "source refused", error.fix
        if error.statements:
            fix = f"{fix} `onceward db prepare` shows and applies them"
        facts = {**error.context, "action": "source_refused", "cursor": cursor, "error": line}
        extra = {"event": text, "facts": {**facts, "fix": fix}}
        _log.error("%s on %s: %s; fix: %s", text, cursor, line, fix, extra=extra)

    def source_accepted(self, cursor: str) -> None:
        """Record that a source can be read (again)."""
        self._refused_sources.pop(cursor, None)

    @property
    def has_refused_sources(self) -> bool:
        """Return whether any source is refused now."""
        return bool(self._refused_sources)

    def parked_limit_reached(self, cursor: str, parked: int) -> None:
        """Log that a cursor reads no new messages until fewer are parked."""
        self._log_event(
            logging.WARNING,
            "parked limit reached",
            action="parked_limit_reached",
            cursor=cursor,
            messages=parked,
        )

    def partition_refused(self, cursor: str, error: BaseException) -> None:
        """Log a partition that is not consumed until an operator changes something."""
        self._log_event(
            logging.ERROR,
            "partition refused",
            action="partition_refused",
            cursor=cursor,
            error=_one_line(error),
        )

    def worker_crashed(self, cursor: str | None = None) -> None:
        """Log an unexpected error that ended this process, or a cursor's poll cycle."""
        facts = {"action": "worker_crashed", **({"cursor": cursor} if cursor else {})}
        text = "worker crashed"
        where = f" on {cursor}" if cursor else ""
        _log.critical("%s%s", text, where, exc_info=True, extra={"event": text, "facts": facts})

    def log_info(self, action: str, **facts: object) -> None:
        """Log a normal event."""
        self._log_event(logging.INFO, action.replace("_", " "), action=action, **facts)

    def attempt_failed(
        self, lease: Lease, position: str, attempt: int, error: BaseException, what: Later | Dead
    ) -> None:
        """Log and count a failed attempt, with the retry or the dead letter that follows."""
        is_dead = isinstance(what, Dead)
        with self._mutex:
            self.counts[lease.name].failed += 1
            self.counts[lease.name].dead += is_dead
        self._log_event(
            logging.ERROR if is_dead else logging.WARNING,
            "message dead-lettered" if is_dead else "message failed",
            action="message_dead_lettered" if is_dead else "message_failed",
            cursor=lease.name,
            position=position,
            retries=attempt - 1,
            error=_one_line(error),
            **(
                {"letter": what.letter}
                if isinstance(what, Dead)
                else {"retrySeconds": round(what.seconds, 3)}
            ),
        )

    @staticmethod
    def _log_event(level: int, text: str, **facts: object) -> None:
        # One line for plain text logs; the same facts as fields for JSON logs.
        where = f" on {facts['cursor']}" if "cursor" in facts else ""
        why = f": {facts['error']}" if "error" in facts else ""
        _log.log(level, "%s%s%s", text, where, why, extra={"event": text, "facts": facts})


def _one_line(error: BaseException) -> str:
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error that cannot be printed is logged all the same
        said = "its message cannot be printed"
    return " ".join(f"{type(error).__name__}: {said}".split())[:300]
