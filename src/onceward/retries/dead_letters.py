"""Dead-letter queue of workers and chat: list, redrive (requeue) and drop failed messages.

An operator redrives or drops a letter. One message of one cursor has one letter, which is reopened
if the message fails again. The same holds for chat messages that begin at the same message of a
group.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

import orjson

from onceward.errors import DeadLetterMissing, InvalidArgument
from onceward.retries.chat_letters import lock_arrivals, requeue_chat
from onceward.retries.dead_letter_writes import choose_head, lock_retries, write_dead_letter
from onceward.retries.models import (
    Attempt,
    DeadFilter,
    DeadLetter,
    DeadLetterDetail,
    Dropped,
    Failure,
    LetterId,
    LetterSource,
    LetterState,
    Order,
    Redriven,
    RequeueTarget,
    RetryMessage,
    chat_cursor,
    check_text,
    failed_attempts,
    to_utc,
)
from onceward.stores import Row, Store, Transaction
from onceward.stores.paging import NEWEST, QueryPage, read_page
from onceward.system import timestamp
from onceward.system.crash_points import crash_point

LETTERS_MAX: Final = 10_000
#: Number of columns that `dead_page` returns before those of the letter.
_LISTED_COLUMNS: Final = 3
#: Columns of a letter in `dead_page`, `dead_get`, `dead_lock` and `dead_show`.
_SUMMARY_COLUMNS: Final = (
    *("id", "cursor", "position", "key", "state", "error_type", "error_message", "attempts"),
    *("first_failed_at", "dead_at", "redrive_count", "changed_at", "changed_by", "reason"),
    *("source", "group", "first_seq", "last_seq", "delivery", "raw_size"),
)


class DeadLetters:
    """The dead letters of a store."""

    def __init__(self, store: Store) -> None:
        """Use this store."""
        self._store = store

    def add(  # noqa: PLR0913 - the fields of a letter
        self,
        tx: Transaction,
        message: RetryMessage,
        failure: Failure,
        *,
        attempts: int = 1,
        order: Order = "none",
        known: Attempt | None = None,
    ) -> LetterId:
        """Write a dead letter without a retry, such as for a message that cannot be decoded.

        Call it in the transaction that moves the checkpoint past the message. `known` are earlier
        failed attempts, which are added to `attempts`.
        """
        sequence = lock_retries(tx, message.cursor)
        return write_dead_letter(
            tx,
            message,
            failure,
            sequence=sequence,
            is_alone=order == "none" or message.key is None,
            attempt=attempts + (known.attempt if known else 0),
            earlier=known.failures if known else (),
            first_failed_at=known.first_failed_at if known else None,
        )

    def lock_at(self, tx: Transaction, cursor: str, positions: Iterable[str]) -> None:
        """Lock the letters of these positions, for a transaction that will `add` several.

        Reopening a letter locks the counts of its cursor, for which an expiry that has locked the
        next letter may wait. To avoid a deadlock, all letters are locked first.
        """
        lock_retries(tx, cursor)
        tx.query("dead_lock_at", cursor=cursor, positions=orjson.dumps([*positions]).decode())

    def list(  # noqa: PLR0913 - filters, all by name
        self,
        *,
        cursor: str | None = None,
        key: str | None = None,
        group: str | None = None,
        error: str | None = None,
        source: LetterSource | None = None,
        since: datetime | None = None,
        state: LetterState | None = "dead",
        limit: int = 100,
    ) -> builtins.list[DeadLetter]:
        """Return matching letters, newest first; a filter that is None matches all."""
        _check_limit(limit)
        found: builtins.list[DeadLetter] = []
        before: int | None = NEWEST
        while before is not None and len(found) < limit:
            page = self.page(
                cursor=cursor,
                key=key,
                group=group,
                error=error,
                source=source,
                since=since,
                state=state,
                before=before,
                limit=limit - len(found),
            )
            found += page.items
            before = page.next
        return found

    def page(  # noqa: PLR0913 - filters, all by name
        self,
        *,
        cursor: str | None = None,
        key: str | None = None,
        group: str | None = None,
        error: str | None = None,
        source: LetterSource | None = None,
        since: datetime | None = None,
        state: LetterState | None = "dead",
        words: str | None = None,
        before: int = NEWEST,
        limit: int = 100,
    ) -> QueryPage[DeadLetter]:
        """Return matching letters before a number, newest first.

        A page scans a bounded number of letters, so it may be short although more match. `words` is
        a substring of the cursor, the position, the key or the error; `error` is a substring of the
        error. `group` selects the chat letters of a group.
        """
        cursor, source = _group_filter(cursor, group, source)
        is_scanned = cursor is not None and state is None
        rest = (key, since, words, error, source)
        return read_page(
            self._store,
            "dead_page",
            lambda row: DeadLetter(**_summary(row[_LISTED_COLUMNS:])),
            before=before,
            limit=_check_limit(limit),
            is_filtered=is_scanned or any(each is not None for each in rest),
            params={
                "cursor": cursor,
                "key": key,
                "error": error,
                "source": source,
                "since": _since_text(since),
                "state": state,
                "words": words,
            },
        )

    def get_many(self, ids: Iterable[int]) -> builtins.list[DeadLetter]:
        """Return the letters with these ids that exist, in any state, in order."""
        return [DeadLetter(**_summary(row)) for row in self._read_letters(ids)]

    def lock(
        self, tx: Transaction, ids: Iterable[int], *, to_redrive: bool = False
    ) -> builtins.list[DeadLetter]:
        """Lock these letters until `tx` ends, and return those that exist.

        With `to_redrive`, lock the retries of their cursors first. All transactions take these
        locks in the same order, so they cannot deadlock.
        """
        rows = sorted(_lock_letters(tx, ids, to_redrive=to_redrive), key=itemgetter(0))
        return [DeadLetter(**_summary(row)) for row in rows]

    def requeue_targets(self, ids: Iterable[int]) -> builtins.list[RequeueTarget]:
        """Return where a redrive would requeue these letters, the longest queue first."""
        chosen: Counter[tuple[str, str | None]] = Counter()
        for row in self._read_letters(ids):
            letter, is_alone = DeadLetter(**_summary(row)), bool(row[len(_SUMMARY_COLUMNS)])
            if letter.state == "dead" and letter.source == "worker":
                chosen[letter.cursor, None if is_alone else letter.key] += 1
        kept = [line for line in chosen if line[1] is not None]
        rows = self._store.read("parked_lines", lines=orjson.dumps(kept).decode()) if kept else []
        waiting = {(cursor, key): count for cursor, key, count in rows}
        return [
            RequeueTarget(cursor=line[0], key=line[1], letters=count, waiting=waiting.get(line, 0))
            for line, count in chosen.most_common()
        ]

    def _read_letters(self, ids: Iterable[int]) -> builtins.list[Row]:
        return self._store.read("dead_get", ids=_ids_json(ids))

    def count(self) -> dict[str, int]:
        """Return the number of dead letters by cursor."""
        return {row[0]: row[1] for row in self._store.read("dead_count")}

    def count_by_group(self) -> dict[str, int]:
        """Return the number of dead chat letters by group."""
        start = chat_cursor("")
        return {
            cursor.removeprefix(start): number
            for cursor, number in self.count().items()
            if cursor.startswith(start)
        }

    def show(self, letter: int) -> DeadLetterDetail:
        """Return one letter with its message and attempts."""
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
        """Return the dead letters that a redrive by this filter would requeue, oldest first."""
        rows = self._store.read("dead_matching", **_filter_params(wanted))
        return tuple(LetterId(row[0]) for row in rows)

    def redrive(
        self, which: int | Iterable[int] | DeadFilter, *, actor: str, reason: str = ""
    ) -> Redriven:
        """Requeue messages with their attempts reset, all or none of them. Idempotent.

        A worker's message is parked and due now, at its former place among those with its key. Chat
        messages are pending, after all later messages. Letters that are not dead are skipped.
        """
        check_text("actor", actor)
        check_text("reason", reason.strip() or "-")
        # The operation may be run again, but an iterator can be read only once.
        wanted = which if isinstance(which, (int, DeadFilter)) else tuple(which)

        def operation(tx: Transaction) -> Redriven:
            chosen = _lock_chosen(tx, wanted)
            decision = {"actor": actor, "reason": reason.strip()}
            done = {letter for letter, cursor in chosen if _requeue(tx, letter, cursor, decision)}
            letters = [letter for letter, _ in sorted(chosen, key=itemgetter(1, 0))]
            return Redriven(
                ids=tuple(letter for letter in letters if letter in done),
                skipped=tuple(letter for letter in letters if letter not in done),
            )

        return self._store.write(operation)

    def drop(self, letter: int, *, reason: str, actor: str) -> bool:
        """Discard a letter; it stays readable. False when it was redriven or dropped before."""
        return bool(self.drop_all(letter, reason=reason, actor=actor).ids)

    def drop_all(
        self, which: int | Iterable[int] | DeadFilter, *, reason: str, actor: str
    ) -> Dropped:
        """Discard several letters, all or none of them; they stay readable. Idempotent."""
        check_text("reason", reason.strip())
        check_text("actor", actor)
        wanted = which if isinstance(which, (int, DeadFilter)) else tuple(which)
        decision = {"actor": actor, "reason": reason.strip()}

        def operation(tx: Transaction) -> Dropped:
            chosen = [letter for letter, _ in _lock_chosen(tx, wanted, to_redrive=False)]
            done = set()
            for letter in chosen:
                if tx.query("dead_change", id=letter, state="dropped", **decision):
                    done.add(letter)
                crash_point("dead.drop.after_change")
            return Dropped(
                ids=tuple(letter for letter in chosen if letter in done),
                skipped=tuple(letter for letter in chosen if letter not in done),
            )

        return self._store.write(operation)


def _lock_chosen(
    tx: Transaction, which: int | Iterable[int] | DeadFilter, *, to_redrive: bool = True
) -> list[tuple[LetterId, str]]:
    """Lock the letters to change, and return their ids and cursors."""
    if isinstance(which, DeadFilter):
        ids = [int(row[0]) for row in tx.query("dead_matching", **_filter_params(which))]
    else:
        ids = [which] if isinstance(which, int) else list(which)
    chosen = [
        (LetterId(row[0]), str(row[1])) for row in _lock_letters(tx, ids, to_redrive=to_redrive)
    ]
    missing = set(ids).difference(letter for letter, _ in chosen)
    if missing:
        raise _missing(min(missing), "; nothing was changed")
    return chosen


def _lock_letters(tx: Transaction, ids: Iterable[int], *, to_redrive: bool) -> list[Row]:
    """Lock these letters, and return those that exist in the order in which to change them.

    The lock order is: the arrival counter of chat, the retries of each cursor, all letters, and, by
    each change, the counts of its cursor. So two transactions cannot deadlock.
    """
    wanted = _ids_json(ids)
    if to_redrive:
        found = [DeadLetter(**_summary(row)) for row in tx.query("dead_get", ids=wanted)]
        if any(each.source == "chat" for each in found):
            lock_arrivals(tx)
        for cursor in sorted({each.cursor for each in found if each.source == "worker"}):
            lock_retries(tx, cursor, is_worker=False)
    return tx.query("dead_lock", ids=wanted)


def _filter_params(wanted: DeadFilter) -> dict[str, Any]:
    cursor, source = _group_filter(wanted.cursor, wanted.group, wanted.source)
    return {
        "cursor": cursor,
        "key": wanted.key,
        "error": wanted.error,
        "source": source,
        "since": _since_text(wanted.since),
        "limit": _check_limit(wanted.limit),
    }


def _requeue(tx: Transaction, letter: LetterId, cursor: str, decision: Mapping[str, str]) -> bool:
    """Requeue the message of a dead letter, or its chat messages; False when it is not dead."""
    changed = tx.query("dead_change", id=letter, state="redriven", **decision)
    if not changed:
        return False
    _, position, sequence, key, alone, raw, group, first, last = changed[0]
    if group is not None:
        crash_point("dispatch.redrive.after_change")
        requeue_chat(tx, group, first, last)
        return True
    crash_point("dead.redrive.after_change")
    place = {"cursor": cursor, "position": position, "sequence": sequence}
    tx.query("parked_redrive", **place, key=key, alone=alone, raw=raw)
    crash_point("dead.redrive.after_park")
    if not alone:
        choose_head(tx, cursor, key)
    return True


def _may_exist(letter: int) -> bool:
    """Return whether this number is in the range of letter ids; the database rejects others."""
    return 1 <= letter <= NEWEST


def _group_filter(
    cursor: str | None, group: str | None, source: LetterSource | None
) -> tuple[str | None, LetterSource | None]:
    """Return the cursor and the source that a filter by group selects."""
    if group is None:
        return cursor, source
    if cursor not in (None, chat_cursor(group)) or source == "worker":
        message = "group: selects chat letters, so it excludes another cursor and source='worker'"
        raise InvalidArgument(message, fix="pass group without cursor and source", field="group")
    return chat_cursor(group), "chat"


def _missing(letter: int, state: str = "") -> DeadLetterMissing:
    return DeadLetterMissing(f"there is no dead letter {letter}{state}", id=letter)


def _since_text(since: datetime | None) -> str | None:
    return timestamp(since) if since is not None else None


def _ids_json(ids: Iterable[int]) -> str:
    wanted = sorted(filter(_may_exist, set(ids)))
    if len(wanted) > LETTERS_MAX:
        message = f"ids: {len(wanted)} letters in one call, more than {LETTERS_MAX}"
        message += "; nothing was changed"
        raise InvalidArgument(message, fix="pass them in several calls", field="ids")
    return orjson.dumps(wanted).decode()


def _check_limit(limit: int) -> int:
    if not 1 <= limit <= LETTERS_MAX:
        message = f"limit: must be 1 to {LETTERS_MAX}, not {limit}"
        fix = f"pass 1 to {LETTERS_MAX}, or leave it out"
        raise InvalidArgument(message, fix=fix, field="limit")
    return limit


def _summary(row: Row) -> dict[str, Any]:
    found = dict(zip(_SUMMARY_COLUMNS, row[: len(_SUMMARY_COLUMNS)], strict=True))
    times = ("first_failed_at", "dead_at", "changed_at")
    return {**found, **{name: to_utc(found[name]) for name in times}}
