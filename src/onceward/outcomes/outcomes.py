"""Outcomes: has this work an outcome already? The keys of one store, for programs and for people.

Adds to claims what operators do: list, show, decide what a crash left open, forget, prune.
"""

from __future__ import annotations

import builtins
from typing import Any, Final

from onceward.crash import crash_point
from onceward.errors import Conflict, InvalidArgument, KeyInFlight, NotReconcilable
from onceward.keys import compact_json
from onceward.outcomes.claims import Claims, check_names
from onceward.outcomes.failures import read_failure
from onceward.outcomes.heartbeat import HEARTBEAT, Heartbeat
from onceward.outcomes.models import (
    EffectRecord,
    EffectState,
    Listed,
    OutcomeState,
    Pruned,
    Record,
)
from onceward.seams import Clock
from onceward.stores import Row, Transaction
from onceward.stores.batches import BATCH_ROWS, check_batch, in_batches
from onceward.stores.paging import NEWEST, SCAN_ROWS_MAX, Page, read_page

LIST_LIMIT: Final = 100
#: Scopes that are asked for one key, and outcomes that are found by it.
SCOPES_MAX: Final = 1_000
NAMED_MAX: Final = 20
#: States of work that is not over, which an index knows.
_OPEN: Final = (OutcomeState.RUNNING, OutcomeState.AMBIGUOUS, OutcomeState.ABANDONED)


class _Nothing:
    """No value was given; None is one."""


NOTHING: Final = _Nothing()


class Outcomes(Claims):
    """The keys of one store: claim and finish them, look at them, decide about them."""

    #: Keeps the claims of running functions alive; the process has one.
    heart: Heartbeat = HEARTBEAT

    def list(
        self,
        *,
        state: OutcomeState | str | None = None,
        scope: str | None = None,
        limit: int = LIST_LIMIT,
    ) -> builtins.list[Record]:
        """Return outcomes as they stand now, the newest key first."""
        found: builtins.list[Record] = []
        before: int | None = NEWEST
        while before is not None and len(found) < max(limit, 1):
            page = self.page(
                state=state,
                scope=scope,
                before=before,
                limit=min(limit - len(found), SCAN_ROWS_MAX),
                with_results=True,
            )
            found += [each.record for each in page.items]
            before = page.next
        return found

    def page(  # noqa: PLR0913 - which ones, all of it named
        self,
        *,
        state: OutcomeState | str | None = None,
        scope: str | None = None,
        words: str | None = None,
        before: int = NEWEST,
        limit: int = LIST_LIMIT,
        with_results: bool = False,
    ) -> Page[Listed]:
        """Return the outcomes before a number, as they stand now, the newest key first.

        A page looks at a bounded number of keys, so few or none may be found where there are more.
        `words` is a part of the key or of the scope, in capitals or not.
        """
        if limit < 1:
            message = f"limit: must be at least 1, not {limit}"
            raise InvalidArgument(message, fix="ask for some", field="limit")
        standing = None if state is None else _state(state)
        params = {
            "is_open": standing in _OPEN,
            "state": None if standing is None else standing.value,
            "scope": scope,
            "words": words,
            "with_results": with_results,
        }
        is_filtered = any(each is not None for each in (standing, scope, words))
        return read_page(
            self.store,
            "outcome_page",
            _listed,
            before=before,
            limit=limit,
            is_filtered=is_filtered,
            params=params,
        )

    def named(self, key: str, scope: str | None = None) -> frozenset[int]:
        """Return the numbers of outcomes with exactly this key, of some scopes if there are many.

        The index finds them, however long ago they came.
        """
        place = {"key": key, "scope": scope, "scopes": SCOPES_MAX, "limit": NAMED_MAX}
        return frozenset(row[0] for row in self.store.read("outcome_named", **place))

    def show(self, scope: str, key: str) -> Record | None:
        """Return everything known of a key, or None."""
        check_names(scope, key)
        rows = self.store.read("outcome_show", scope=scope, key=key)
        return _record(rows[0]) if rows else None

    def effects(self, scope: str, key: str) -> builtins.list[EffectRecord]:
        """Return the steps inside a piece of work."""
        check_names(scope, key)
        return [_effect(row) for row in self.store.read("effect_list", scope=scope, key=key)]

    def reconcile(  # noqa: PLR0913 - a decision has many parts, all of them named
        self,
        scope: str,
        key: str,
        *,
        done: Any = NOTHING,  # noqa: ANN401 - any JSON value
        not_done: bool = False,
        actor: str,
        reason: str,
        effect: str | None = None,
        fence: int | None = None,
        ttl_seconds: float | None = None,
    ) -> None:
        """Decide about ambiguous work, or one step of it: it was done with this result, or was not.

        What was not done may be run again. A holder that wakes up after this is refused. Name the
        fence to decide about that claim only, not about a later one. NotReconcilable when there is
        nothing to decide.
        """
        check_names(scope, key)
        if isinstance(done, _Nothing) is not not_done:
            message = "done: say either what the result was, or that it was not done"
            raise InvalidArgument(message, fix="pass done=… or not_done=True", field="done")
        params: dict[str, Any] = {
            "scope": scope,
            "key": key,
            "state": "free" if not_done else "done",
            "result": None if not_done else compact_json(done, root="done").decode(),
            "note": _note("not done" if not_done else "done", actor, reason),
            "fence": fence,
        }
        if effect is None:
            params["ttl_seconds"] = 0.0 if not_done else ttl_seconds
        else:
            params["name"] = effect
        name = "outcome_reconcile" if effect is None else "effect_reconcile"

        def operation(tx: Transaction) -> builtins.list[Row]:
            return tx.query(name, **params)

        if not self.store.write_apart(operation):
            message = f"{scope} {key}: there is nothing to decide"
            raise NotReconcilable(message, scope=scope, key=key, effect=effect)
        crash_point("outcome.reconcile.after_commit")

    def forget(
        self, scope: str, key: str, *, actor: str, reason: str, seen: Record | None = None
    ) -> bool:
        """Erase what is known of a key, so that it may run again; False when nothing was known.

        KeyInFlight while somebody is at it. With what was `seen` of it, Conflict when it is not so
        any more, such as when it was run again.
        """
        check_names(scope, key)
        note = _note("forgotten", actor, reason)
        was = (None, None) if seen is None else (seen.fence, seen.updated_at)

        def operation(tx: Transaction) -> bool:
            place = {"scope": scope, "key": key, "fence": was[0], "updated_at": was[1]}
            forgotten = bool(tx.query("outcome_forget", **place, note=note))
            if forgotten:
                tx.query("effect_forget", scope=scope, key=key)
            return forgotten

        forgotten = self.store.write_apart(operation)
        crash_point("outcome.forget.after_commit")
        known = None if forgotten else self.show(scope, key)
        if known is not None:
            if seen is not None and (known.fence, known.updated_at) != was:
                message = f"{scope} {key} changed since you looked"
                raise Conflict(message, fix="look again, then decide", scope=scope, key=key)
            message = f"{scope} {key}: somebody is at it"
            raise KeyInFlight(message, fix="wait until they are done", scope=scope, key=key)
        return forgotten

    def prune(self, *, batch: int = BATCH_ROWS, clock: Clock | None = None) -> Pruned:
        """Erase results that have expired and tombstones that have stood, some in each commit.

        Pauses between two commits, so that other writers of a SQLite file get the write lock.
        """
        check_batch(batch)
        removed = self._in_batches("outcome_remove", batch, clock)
        return Pruned(expired=self._in_batches("outcome_expire", batch, clock), removed=removed)

    def prunable(self) -> Pruned:
        """Return what pruning would do now."""
        ((expired, removed),) = self.store.read("outcome_prunable")
        return Pruned(expired=expired, removed=removed)

    def _in_batches(self, name: str, batch: int, clock: Clock | None) -> int:
        def commit(rows: int) -> int:
            count = len(self.store.write_apart(lambda tx: tx.query(name, batch=rows)))
            crash_point("outcome.prune.after_batch")
            return count

        return in_batches(commit, rows=batch, clock=clock)


def _state(state: OutcomeState | str) -> OutcomeState:
    try:
        return OutcomeState(state)
    except ValueError:
        known = ", ".join(OutcomeState)
        message = f"state: no outcome is {str(state)[:40]!r}"
        raise InvalidArgument(message, fix=f"use one of {known}", field="state") from None


def _note(verdict: str, actor: str, reason: str) -> str:
    for field, text in (("actor", actor), ("reason", reason)):
        if not text.strip():
            message = f"{field}: must not be empty"
            raise InvalidArgument(message, fix="say who decides, and why", field=field)
    parts = {"verdict": verdict, "actor": actor, "reason": reason}
    return compact_json(parts, root="note").decode()


def _record(row: Row) -> Record:
    (*_, result, failure, note) = row
    return Record(
        scope=row[0],
        key=row[1],
        # A tombstone that has stood for its time is as good as none.
        state=OutcomeState.FREE if row[2] == "gone" else OutcomeState(row[2]),
        fence=row[3],
        owner=row[4],
        fingerprint=row[5],
        on_crash=row[6],
        claimed_at=row[7],
        updated_at=row[8],
        until=row[9],
        result=None if result is None else result.encode(),
        failure=None if failure is None else read_failure(failure),
        note=note,
    )


def _listed(row: Row) -> Listed:
    number, _, _, has_result, *columns = row
    return Listed(number=number, record=_record(tuple(columns)), has_result=bool(has_result))


def _effect(row: Row) -> EffectRecord:
    name, state, fence, updated_at, result, failure, note = row
    return EffectRecord(
        name=name,
        state=EffectState(state),
        fence=fence,
        updated_at=updated_at,
        result=None if result is None else result.encode(),
        failure=None if failure is None else read_failure(failure),
        note=note,
    )
