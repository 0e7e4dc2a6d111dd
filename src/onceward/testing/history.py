"""History: record concurrent operations and their results, and check them for violations.

Each operation is recorded when it starts (`invoke`) and when it ends: `ok`, `fail`, or `info` if
the result is unknown. Records are kept in memory for threads, and in a journal for processes that
may be killed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from onceward.errors import OutcomeUnknown
from onceward.journal import Journal
from onceward.system import Clock, SystemClock

Kind = Literal["invoke", "ok", "fail", "info"]
_PAGE_RECORDS: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One record of a history: the start or the end of an operation."""

    #: The process or thread, with one operation at a time: an end belongs to the last start.
    process: str
    #: The operation, such as `charge` or `acquire`.
    f: str
    #: Its object: an order, a cursor, a message's key.
    key: str
    #: Its argument or result, as plain JSON: an epoch, a position.
    value: Any
    type: Kind
    #: Seconds since the machine's boot, comparable between its processes.
    t: float


class Result:
    """Holder for an operation's result, set while the operation runs."""

    value: Any = None


class History:
    """A record of operations, in the order in which they were recorded."""

    def __init__(self, path: Path | None = None, *, clock: Clock | None = None) -> None:
        """Keep records in memory, or in the journal at `path`, which many processes may share."""
        self._journal = Journal(path) if path is not None else None
        self._clock = clock or SystemClock()
        self._entries: list[Entry] = []
        self._mutex = threading.Lock()

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Self:
        """Return a history of existing entries."""
        made = cls()
        made._entries = list(entries)
        return made

    def record(
        self, kind: Kind, f: str, key: str, value: object = None, *, process: str | None = None
    ) -> Entry:
        """Record one entry."""
        named = process or f"{os.getpid()}/{threading.get_ident()}"
        with self._mutex:
            now = self._clock.boot_seconds()
            entry = Entry(process=named, f=f, key=key, value=value, type=kind, t=now)
            if self._journal is not None:
                self._journal.append(asdict(entry))
            else:
                self._entries.append(entry)
        return entry

    @contextmanager
    def operation(
        self, f: str, key: str, value: object = None, *, process: str | None = None
    ) -> Iterator[Result]:
        """Record a block: `ok` at its end, `fail` when it raises, `info` for `OutcomeUnknown`."""
        self.record("invoke", f, key, value, process=process)
        result = Result()
        result.value = value
        try:
            yield result
        except OutcomeUnknown as exc:
            self.record("info", f, key, str(exc), process=process)
            raise
        except Exception as exc:
            self.record("fail", f, key, str(exc), process=process)
            raise
        except BaseException as exc:
            self.record("info", f, key, str(exc), process=process)
            raise
        self.record("ok", f, key, result.value, process=process)

    @property
    def entries(self) -> list[Entry]:
        """Return all entries."""
        if self._journal is None:
            return list(self._entries)
        found: list[Entry] = []
        since = "0"
        while True:
            page = self._journal.read(since, _PAGE_RECORDS)
            found += [Entry(**item) for item in page.items]
            if page.next_cursor == since:
                return found
            since = page.next_cursor

    def oks(self, f: str) -> list[Entry]:
        """Return the operations of one kind that are known to have happened."""
        return [entry for entry in self.entries if entry.f == f and entry.type == "ok"]


def check_acked_present(
    history: History, f: str, present: Iterable[str], *, at_least: int = 1
) -> None:
    """Fail when the key of an acknowledged operation is not in `present`."""
    there = set(present)
    for entry in _enough(history, f, at_least):
        assert entry.key in there, f"acknowledged but lost: {entry}"


def check_effects_once(
    history: History, f: str, effects: Iterable[str], *, at_least: int = 1
) -> None:
    """Fail when a key has more than one effect, or an acknowledged one has none."""
    counts: dict[str, int] = {}
    for key in effects:
        counts[key] = counts.get(key, 0) + 1
    for entry in _enough(history, f, at_least):
        assert counts.get(entry.key, 0) >= 1, f"acknowledged without an effect: {entry}"
    for key, count in counts.items():
        assert count <= 1, f"{count} effects of {key!r}, expected one"


def check_epochs(history: History, f: str = "acquire", *, at_least: int = 1) -> None:
    """Fail when a cursor's epoch is lower than one that was known before the operation started.

    Concurrent operations may end in any order; only operations that had ended before count.
    """
    _enough(history, f, at_least)
    highest: dict[str, Entry] = {}
    before: dict[tuple[str, str], Entry | None] = {}
    for entry in history.entries:
        if entry.f != f:
            continue
        if entry.type == "invoke":
            before[entry.process, entry.key] = highest.get(entry.key)
        elif entry.type == "ok":
            known = before.pop((entry.process, entry.key), None)
            assert known is None or entry.value >= known.value, (
                f"the epoch of {entry.key!r} went back: {known}, then {entry}"
            )
            last = highest.get(entry.key)
            if last is None or entry.value > last.value:
                highest[entry.key] = entry


def check_order_per_key(
    history: History, f: str, *, repeats: bool = False, at_least: int = 1
) -> None:
    """Fail when a key's values do not increase; with `repeats` a value may occur again."""
    last: dict[str, Entry] = {}
    for entry in _enough(history, f, at_least):
        known = last.get(entry.key)
        if known is not None:
            is_fine = entry.value >= known.value if repeats else entry.value > known.value
            assert is_fine, f"out of order for {entry.key!r}: {known}, then {entry}"
        last[entry.key] = entry


def _enough(history: History, f: str, at_least: int) -> list[Entry]:
    """Return the operations known to have happened; fail if they are fewer than `at_least`."""
    assert at_least >= 1, at_least
    oks = history.oks(f)
    assert len(oks) >= at_least, f"only {len(oks)} {f!r} happened, of at least {at_least}"
    return oks
