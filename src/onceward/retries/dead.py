"""Dead letters: messages that were given up, with their bytes, until a person decides.

One message of one cursor has one letter: dying again opens it again.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

import orjson

from onceward.crash import crash_point
from onceward.errors import DeadLetterMissing, InvalidArgument
from onceward.retries.models import (
    FAILURES_MAX,
    Attempt,
    DeadFilter,
    DeadLetter,
    DeadLetterDetail,
    FailedAttempt,
    Failure,
    LetterId,
    LetterState,
    Line,
    Message,
    Order,
    Redriven,
    check_text,
    failed_attempts,
    failures_text,
    moment,
)
from onceward.seams import timestamp
from onceward.stores import Row, Store, Transaction
from onceward.stores.paging import NEWEST, Page, read_page

LETTERS_MAX: Final = 10_000
#: What `dead_page` returns before them.
_LISTED_COLUMNS: Final = 3
#: As `dead_page`, `dead_some`, `dead_hold` and `dead_show` return them.
_SUMMARY_COLUMNS: Final = (
    *("id", "cursor", "position", "key", "state", "error_type", "error_message", "attempts"),
    *("first_failed_at", "dead_at", "redrive_count", "changed_at", "changed_by", "reason"),
    "raw_size",
)


class DeadLetters:
    """The dead letters of a store."""

    def __init__(self, store: Store) -> None:
        """Keep them in this store."""
        self._store = store

    def add(  # noqa: PLR0913 - all that a letter keeps
        self,
        tx: Transaction,
        message: Message,
        failure: Failure,
        *,
        attempts: int = 1,
        order: Order = "none",
        known: Attempt | None = None,
    ) -> LetterId:
        """Give a message up at once, such as one that cannot be decoded.

        Call it in the transaction that moves the checkpoint past the message. `known` are attempts
        that failed before, and are counted with those of now.
        """
        sequence = turn(tx, message.cursor)
        return bury(
            tx,
            message,
            failure,
            sequence=sequence,
            is_alone=order == "none" or message.key is None,
            attempt=attempts + (known.attempt if known else 0),
            earlier=known.failures if known else (),
            first_failed_at=known.first_failed_at if known else None,
        )

    def hold_at(self, tx: Transaction, cursor: str, positions: Iterable[str]) -> None:
        """Lock the letters of these positions, for a transaction that will `add` several.

        Writing a letter again locks the counts of its cursor. An expiry that holds the next letter
        waits for these counts, so all letters come first.
        """
        turn(tx, cursor)
        tx.query("dead_hold_at", cursor=cursor, positions=orjson.dumps([*positions]).decode())

    def list(
        self,
        *,
        cursor: str | None = None,
        key: str | None = None,
        since: datetime | None = None,
        state: LetterState | None = "dead",
        limit: int = 100,
    ) -> builtins.list[DeadLetter]:
        """Return the letters that fit, newest first; what is None does not matter."""
        _checked(limit)
        found: builtins.list[DeadLetter] = []
        before: int | None = NEWEST
        while before is not None and len(found) < limit:
            page = self.page(
                cursor=cursor,
                key=key,
                since=since,
                state=state,
                before=before,
                limit=limit - len(found),
            )
            found += page.items
            before = page.next
        return found

    def page(  # noqa: PLR0913 - which ones, all of it named
        self,
        *,
        cursor: str | None = None,
        key: str | None = None,
        since: datetime | None = None,
        state: LetterState | None = "dead",
        words: str | None = None,
        before: int = NEWEST,
        limit: int = 100,
    ) -> Page[DeadLetter]:
        """Return the letters before a number that fit, newest first.

        A page looks at a bounded number of letters, so few or none may be found where there are
        more. `words` is a part of the cursor, the position, the key or the error.
        """
        is_scanned = cursor is not None and state is None
        rest = (key, since, words)
        return read_page(
            self._store,
            "dead_page",
            lambda row: DeadLetter(**_summary(row[_LISTED_COLUMNS:])),
            before=before,
            limit=_checked(limit),
            is_filtered=is_scanned or any(each is not None for each in rest),
            params={
                "cursor": cursor,
                "key": key,
                "since": _since(since),
                "state": state,
                "words": words,
            },
        )

    def some(self, ids: Iterable[int]) -> builtins.list[DeadLetter]:
        """Return those of these letters that exist, whatever their state, in order."""
        return [DeadLetter(**_summary(row)) for row in self._some(ids)]

    def hold(
        self, tx: Transaction, ids: Iterable[int], *, to_redrive: bool = False
    ) -> builtins.list[DeadLetter]:
        """Return those of these letters that exist; nobody changes them before `tx` ends.

        Who is going to redrive them says so: the turn of a cursor comes before its letters, as
        for everybody else, so that no two wait for each other.
        """
        rows = sorted(_held(tx, ids, to_redrive=to_redrive), key=itemgetter(0))
        return [DeadLetter(**_summary(row)) for row in rows]

    def lines(self, ids: Iterable[int]) -> builtins.list[Line]:
        """Return where the messages of dead letters would line up again, the longest first."""
        chosen: Counter[tuple[str, str | None]] = Counter()
        for row in self._some(ids):
            letter, is_alone = DeadLetter(**_summary(row)), bool(row[len(_SUMMARY_COLUMNS)])
            if letter.state == "dead":
                chosen[letter.cursor, None if is_alone else letter.key] += 1
        kept = [line for line in chosen if line[1] is not None]
        rows = self._store.read("parked_lines", lines=orjson.dumps(kept).decode()) if kept else []
        waiting = {(cursor, key): count for cursor, key, count in rows}
        return [
            Line(cursor=line[0], key=line[1], letters=count, waiting=waiting.get(line, 0))
            for line, count in chosen.most_common()
        ]

    def _some(self, ids: Iterable[int]) -> builtins.list[Row]:
        return self._store.read("dead_some", ids=_listed(ids))

    def count(self) -> dict[str, int]:
        """Return how many letters are dead now, by cursor."""
        return {row[0]: row[1] for row in self._store.read("dead_count")}

    def show(self, letter: int) -> DeadLetterDetail:
        """Return one letter with all that was kept."""
        rows = self._store.read("dead_show", id=letter) if _may_exist(letter) else []
        if not rows:
            raise _missing(letter)
        raw, trace, failures = rows[0][len(_SUMMARY_COLUMNS) :]
        return DeadLetterDetail(
            **_summary(rows[0]),
            raw=raw,
            error_trace=trace,
            failures=failed_attempts(failures),
        )

    def matching(self, wanted: DeadFilter) -> tuple[LetterId, ...]:
        """Return the dead letters that a redrive by this filter would put back, oldest first."""
        rows = self._store.read("dead_matching", **_wanted(wanted))
        return tuple(LetterId(row[0]) for row in rows)

    def redrive(self, which: int | Iterable[int] | DeadFilter, *, actor: str) -> Redriven:
        """Put messages back as parked and due now, their attempts forgotten, all or none of them.

        Each takes the place in its key's line that it had. What is not dead any more is skipped, so
        doing it twice is harmless.
        """
        check_text("actor", actor)
        # An operation may run again, and an iterator cannot.
        wanted = which if isinstance(which, (int, DeadFilter)) else tuple(which)

        def operation(tx: Transaction) -> Redriven:
            chosen = _chosen(tx, wanted)
            done = {letter for letter, cursor in chosen if _put_back(tx, letter, cursor, actor)}
            letters = [letter for letter, _ in sorted(chosen, key=itemgetter(1, 0))]
            return Redriven(
                ids=tuple(letter for letter in letters if letter in done),
                skipped=tuple(letter for letter in letters if letter not in done),
            )

        return self._store.write(operation)

    def drop(self, letter: int, *, reason: str, actor: str) -> bool:
        """Give a letter up for good; it stays to be read. False when it is not dead any more."""
        check_text("reason", reason.strip())
        check_text("actor", actor)

        def operation(tx: Transaction) -> bool:
            _cursor_of(tx, letter)
            changed = tx.query(
                "dead_change", id=letter, state="dropped", actor=actor, reason=reason.strip()
            )
            crash_point("dead.drop.after_change")
            return bool(changed)

        return self._store.write(operation)


def turn(tx: Transaction, cursor: str, *, is_worker: bool = True) -> int:
    """Return the next number of a cursor's retries, which are ours until the transaction ends.

    Whoever works for the cursor lets nobody move it before that either. An operator does not: what
    takes long must not keep a worker from its cursor.
    """
    ((sequence,),) = tx.query("retry_turn", cursor=cursor, is_worker=is_worker)
    assert isinstance(sequence, int)
    return sequence


def line_up(tx: Transaction, cursor: str, key: str) -> None:
    """Make the earliest parked message of a key its head, and no other."""
    tx.query("parked_demote", cursor=cursor, key=key)
    tx.query("parked_promote", cursor=cursor, key=key)


def as_kept(message: Message, *, sequence: int, is_alone: bool) -> dict[str, Any]:
    """Return what a statement needs to keep a message as it came."""
    return {
        "cursor": message.cursor,
        "position": message.position,
        "sequence": sequence,
        "key": message.key,
        "alone": is_alone,
        "raw": message.raw,
    }


def bury(  # noqa: PLR0913 - all that a letter keeps
    tx: Transaction,
    message: Message,
    failure: Failure,
    *,
    sequence: int,
    attempt: int,
    is_alone: bool = True,
    earlier: tuple[FailedAttempt, ...] = (),
    first_failed_at: datetime | None = None,
) -> LetterId:
    """Write the letter of a message that will not be tried again by itself."""
    ((letter,),) = tx.query(
        "dead_write",
        **as_kept(message, sequence=sequence, is_alone=is_alone),
        error_type=failure.type,
        error_message=failure.message,
        error_trace=failure.trace,
        error=failure.summary,
        attempt=attempt,
        failures=failures_text(earlier),
        kept=FAILURES_MAX,
        first_failed_at=timestamp(first_failed_at) if first_failed_at else None,
    )
    return LetterId(letter)


def _chosen(tx: Transaction, which: int | Iterable[int] | DeadFilter) -> list[tuple[LetterId, str]]:
    """Return the letters, cursor by cursor, all of them locked before the first is changed."""
    if isinstance(which, DeadFilter):
        ids = [int(row[0]) for row in tx.query("dead_matching", **_wanted(which))]
    else:
        ids = [which] if isinstance(which, int) else list(which)
    chosen = [(LetterId(row[0]), str(row[1])) for row in _held(tx, ids, to_redrive=True)]
    missing = set(ids).difference(letter for letter, _ in chosen)
    if missing:
        raise _missing(min(missing))
    return chosen


def _held(tx: Transaction, ids: Iterable[int], *, to_redrive: bool) -> list[Row]:
    """Return those of these letters that exist, in the order in which they may be changed.

    A change locks the counts of its cursor. Turns come first, then all letters, then counts by
    name, so that no transaction waits for a letter while it holds what the other one needs.
    """
    wanted = _listed(ids)
    if to_redrive:
        for cursor in sorted({row[1] for row in tx.query("dead_some", ids=wanted)}):
            turn(tx, cursor, is_worker=False)
    return tx.query("dead_hold", ids=wanted)


def _wanted(wanted: DeadFilter) -> dict[str, Any]:
    return {
        "cursor": wanted.cursor,
        "key": wanted.key,
        "since": _since(wanted.since),
        "limit": _checked(wanted.limit),
    }


def _put_back(tx: Transaction, letter: LetterId, cursor: str, actor: str) -> bool:
    """Park the message of a dead letter again; False when it is not dead."""
    changed = tx.query("dead_change", id=letter, state="redriven", actor=actor, reason="")
    if not changed:
        return False
    crash_point("dead.redrive.after_change")
    _, position, sequence, key, alone, raw = changed[0]
    place = {"cursor": cursor, "position": position, "sequence": sequence}
    tx.query("parked_redrive", **place, key=key, alone=alone, raw=raw)
    crash_point("dead.redrive.after_park")
    if not alone:
        line_up(tx, cursor, key)
    return True


def _may_exist(letter: int) -> bool:
    """Say whether a letter can have this number; the database would refuse others."""
    return 1 <= letter <= NEWEST


def _cursor_of(tx: Transaction, letter: int) -> str:
    rows = tx.query("dead_cursor", id=letter) if _may_exist(letter) else []
    if not rows:
        raise _missing(letter)
    return str(rows[0][0])


def _missing(letter: int) -> DeadLetterMissing:
    return DeadLetterMissing(f"there is no dead letter {letter}", id=letter)


def _since(since: datetime | None) -> str | None:
    return timestamp(since) if since is not None else None


def _listed(ids: Iterable[int]) -> str:
    wanted = sorted(filter(_may_exist, set(ids)))
    _checked(len(wanted) or 1)
    return orjson.dumps(wanted).decode()


def _checked(limit: int) -> int:
    if not 1 <= limit <= LETTERS_MAX:
        message = f"limit: {limit} is not between 1 and {LETTERS_MAX}"
        raise InvalidArgument(message, fix="work in several calls", field="limit")
    return limit


def _summary(row: Row) -> dict[str, Any]:
    found = dict(zip(_SUMMARY_COLUMNS, row[: len(_SUMMARY_COLUMNS)], strict=True))
    times = ("first_failed_at", "dead_at", "changed_at")
    return {**found, **{name: moment(found[name]) for name in times}}
