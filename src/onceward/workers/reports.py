"""Reports: what workers tell about themselves, to the log and to whoever counts."""

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
from onceward.seams import Clock, SystemClock
from onceward.workers.models import Message
from onceward.workers.timings import Timings

_log: Final = logging.getLogger("onceward.workers")


class Counts:
    """What one cursor has seen in this process."""

    __slots__ = ("dead", "failed", "processed", "retried")

    def __init__(self) -> None:
        """Begin at nothing."""
        self.processed = 0
        self.failed = 0
        self.retried = 0
        self.dead = 0


class Reports:
    """The log and the counters of one process."""

    def __init__(self, clock: Clock | None = None) -> None:
        """Count from now on."""
        self._clock = clock or SystemClock()
        #: How long handlers take.
        self.timings = Timings()
        self._mutex = threading.Lock()
        #: By cursor.
        self.counts: defaultdict[str, Counts] = defaultdict(Counts)
        #: What was told of sources that are refused, by cursor or consumer.
        self._refused_sources: dict[str, str] = {}

    @contextmanager
    def timed(self, consumer: str) -> Iterator[None]:
        """Measure one call of a handler, however it ends."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self.timings.observe(consumer, self._clock.monotonic() - began)

    def done(self, lease: Lease, messages: list[Message]) -> None:
        """Count messages whose effects are committed."""
        with self._mutex:
            counts = self.counts[lease.name]
            counts.processed += len(messages)
            counts.retried += sum(message.attempt > 1 for message in messages)

    def dead(self, lease: Lease, position: str, letter: int, error: BaseException) -> None:
        """Tell of a message that cannot be read."""
        with self._mutex:
            self.counts[lease.name].dead += 1
        self._say(
            logging.ERROR,
            "message dead",
            action="message_dead",
            cursor=lease.name,
            position=position,
            letter=letter,
            error=_line(error),
        )

    def batch_failed(self, lease: Lease, messages: int, error: BaseException) -> None:
        """Tell of a batch that is run again message by message."""
        self._say(
            logging.WARNING,
            "batch failed, running it message by message",
            action="batch_failed",
            cursor=lease.name,
            messages=messages,
            error=_line(error),
        )

    def trouble(self, action: str, cursor: str, error: BaseException, seconds: float) -> None:
        """Tell of something outside that keeps a cursor from moving for a while."""
        context = error.context if isinstance(error, OncewardError) else {}
        self._say(
            logging.WARNING,
            action.replace("_", " "),
            **{**context, "action": action, "cursor": cursor},
            error=_line(error),
            retrySeconds=round(seconds, 3),
        )

    def source_refused(self, cursor: str, error: SourceRefused) -> None:
        """Tell of a source that is not read before a person changes something; once, until then."""
        line = _line(error)
        if self._refused_sources.get(cursor) == (told := f"{line} {error.fix}"):
            return
        self._refused_sources[cursor] = told
        text, fix = "source refused", error.fix
        if error.statements:
            fix = f"{fix} `onceward work prepare` shows and applies them"
        facts = {**error.context, "action": "source_refused", "cursor": cursor, "error": line}
        extra = {"event": text, "facts": {**facts, "fix": fix}}
        _log.error("%s on %s: %s; fix: %s", text, cursor, line, fix, extra=extra)

    def source_accepted(self, cursor: str) -> None:
        """Know that a source can be read."""
        self._refused_sources.pop(cursor, None)

    @property
    def has_refused_sources(self) -> bool:
        """Say whether there is a source that cannot be read as it is."""
        return bool(self._refused_sources)

    def line_full(self, cursor: str, parked: int) -> None:
        """Tell that a cursor reads no more until some of its parked messages are done with."""
        self._say(logging.WARNING, "line full", action="line_full", cursor=cursor, messages=parked)

    def refused(self, cursor: str, error: BaseException) -> None:
        """Tell of a partition that is not worked before somebody changes something."""
        self._say(
            logging.ERROR,
            "partition refused",
            action="partition_refused",
            cursor=cursor,
            error=_line(error),
        )

    def crashed(self, cursor: str | None = None) -> None:
        """Tell of an error that nobody expected: it ends this process, or a turn of a cursor."""
        facts = {"action": "worker_crashed", **({"cursor": cursor} if cursor else {})}
        text = "worker crashed"
        where = f" on {cursor}" if cursor else ""
        _log.critical("%s%s", text, where, exc_info=True, extra={"event": text, "facts": facts})

    def note(self, action: str, **facts: object) -> None:
        """Tell of something ordinary."""
        self._say(logging.INFO, action.replace("_", " "), action=action, **facts)

    def failed(
        self, lease: Lease, position: str, attempt: int, error: BaseException, what: Later | Dead
    ) -> None:
        """Tell of an attempt that failed, and what becomes of the message."""
        is_dead = isinstance(what, Dead)
        with self._mutex:
            self.counts[lease.name].failed += 1
            self.counts[lease.name].dead += is_dead
        self._say(
            logging.ERROR if is_dead else logging.WARNING,
            "message dead" if is_dead else "message failed",
            action="message_dead" if is_dead else "message_failed",
            cursor=lease.name,
            position=position,
            retries=attempt - 1,
            error=_line(error),
            **(
                {"letter": what.letter}
                if isinstance(what, Dead)
                else {"retrySeconds": round(what.seconds, 3)}
            ),
        )

    @staticmethod
    def _say(level: int, text: str, **facts: object) -> None:
        # One line for whoever reads plain text, the facts by name for whoever reads JSON.
        where = f" on {facts['cursor']}" if "cursor" in facts else ""
        why = f": {facts['error']}" if "error" in facts else ""
        _log.log(level, "%s%s%s", text, where, why, extra={"event": text, "facts": facts})


def _line(error: BaseException) -> str:
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error that cannot be printed is told of all the same
        said = "its message cannot be printed"
    return " ".join(f"{type(error).__name__}: {said}".split())[:300]
