"""Outcomes: claim and settle keys, and list, show, reconcile, forget and prune them."""

from __future__ import annotations

import builtins
from typing import Any, Final

from onceward.errors import Conflict, InvalidArgument, KeyInFlight, NotReconcilable
from onceward.keys import compact_json
from onceward.outcomes.claims import Claims, check_names
from onceward.outcomes.error_encoding import read_failure
from onceward.outcomes.heartbeat import HEARTBEAT, ClaimHeartbeat
from onceward.outcomes.models import (
    EffectRecord,
    EffectState,
    OutcomeListItem,
    OutcomeRecord,
    OutcomeState,
    PruneCounts,
)
from onceward.stores import Row, Transaction
from onceward.stores.batched_deletes import BATCH_ROWS, check_batch, in_batches
from onceward.stores.paging import NEWEST, SCAN_ROWS_MAX, QueryPage, read_page
from onceward.system import Clock
from onceward.system.crash_points import crash_point

LIST_LIMIT: Final = 100
#: What to do about a running call that is in the way.
RUNNING_FIX: Final = "try again when the call, or the lease of its dead process, has ended"
#: Scopes that are searched for one key, and outcomes that are returned for it.
SCOPES_MAX: Final = 1_000
KEY_MATCHES_MAX: Final = 20
#: States of unsettled calls, which have an index.
_OPEN: Final = (OutcomeState.RUNNING, OutcomeState.AMBIGUOUS, OutcomeState.ABANDONED)


class _NotGiven:
    """Marks an argument that was not passed; None is a value."""


NOT_GIVEN: Final = _NotGiven()


class Outcomes(Claims):
    """The outcomes of one store, for programs and for operators."""

    #: Renews the claims of running functions; the process has one.
    heartbeat: ClaimHeartbeat = HEARTBEAT

    def list(
        self,
        *,
        state: OutcomeState | str | None = None,
        scope: str | None = None,
        limit: int = LIST_LIMIT,
    ) -> builtins.list[OutcomeRecord]:
        """Return outcomes in their present state, the newest key first."""
        found: builtins.list[OutcomeRecord] = []
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
    ) -> QueryPage[OutcomeListItem]:
        """Return the outcomes before a sequence number, the newest key first.

        A page scans a bounded number of keys, so it may have few or none where there are more.
        `words` is a part of the key or of the scope, in any case.
        """
        if limit < 1:
            message = f"limit: must be at least 1, not {limit}"
            raise InvalidArgument(message, fix="pass 1 or more", field="limit")
        wanted_state = None if state is None else _state(state)
        params = {
            "is_open": wanted_state in _OPEN,
            "state": None if wanted_state is None else wanted_state.value,
            "scope": scope,
            "words": words,
            "with_results": with_results,
        }
        is_filtered = any(each is not None for each in (wanted_state, scope, words))
        return read_page(
            self.store,
            "outcome_page",
            _listed,
            before=before,
            limit=limit,
            is_filtered=is_filtered,
            params=params,
        )

    def numbers_of_key(self, key: str, scope: str | None = None) -> frozenset[int]:
        """Return the sequence numbers of outcomes with this key, in a bounded set of scopes.

        Uses the index, so age does not matter.
        """
        place = {"key": key, "scope": scope, "scopes": SCOPES_MAX, "limit": KEY_MATCHES_MAX}
        return frozenset(row[0] for row in self.store.read("outcome_named", **place))

    def show(self, scope: str, key: str) -> OutcomeRecord | None:
        """Return the outcome of a key, or None."""
        check_names(scope, key)
        rows = self.store.read("outcome_show", scope=scope, key=key)
        return _record(rows[0]) if rows else None

    def effects(self, scope: str, key: str) -> builtins.list[EffectRecord]:
        """Return the steps inside a call."""
        check_names(scope, key)
        return [_effect(row) for row in self.store.read("effect_list", scope=scope, key=key)]

    def reconcile(  # noqa: PLR0913 - a decision has many parts, all of them named
        self,
        scope: str,
        key: str,
        *,
        done: Any = NOT_GIVEN,  # noqa: ANN401 - any JSON value
        not_done: bool = False,
        actor: str,
        reason: str,
        effect: str | None = None,
        fence: int | None = None,
        ttl_seconds: float | None = None,
    ) -> None:
        """Decide an ambiguous outcome, or one step of it: done with this result, or not done.

        What was not done may run again. A stale write of the earlier holder is rejected after this.
        Pass `fence` to decide that claim only, not a later one. NotReconcilable when the outcome
        is not ambiguous.
        """
        check_names(scope, key)
        if isinstance(done, _NotGiven) is not not_done:
            message = "done: pass exactly one of done and not_done; nothing was changed"
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

        if not self.store.run_in_own_transaction(operation):
            what = f"{scope} {key}" if effect is None else f"the step {effect} of {scope} {key}"
            claim = "" if fence is None else " under this claim"
            message = f"{what} is not ambiguous{claim}; nothing was changed"
            raise NotReconcilable(message, scope=scope, key=key, effect=effect)
        crash_point("outcome.reconcile.after_commit")

    def forget(
        self, scope: str, key: str, *, actor: str, reason: str, seen: OutcomeRecord | None = None
    ) -> bool:
        """Erase the outcome of a key, so that it may run again; False when there was none.

        KeyInFlight while a caller runs it. With the record that was `seen`, Conflict when it has
        changed since, such as when it was run again.
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

        forgotten = self.store.run_in_own_transaction(operation)
        crash_point("outcome.forget.after_commit")
        known = None if forgotten else self.show(scope, key)
        if known is not None:
            if seen is not None and (known.fence, known.updated_at) != was:
                message = f"{scope} {key} has changed since it was read; nothing was forgotten"
                raise Conflict(message, fix="read it again, then decide", scope=scope, key=key)
            message = f"{scope} {key} is running; nothing was forgotten"
            raise KeyInFlight(message, fix=RUNNING_FIX, scope=scope, key=key)
        return forgotten

    def prune(self, *, batch: int = BATCH_ROWS, clock: Clock | None = None) -> PruneCounts:
        """Erase expired results and tombstones past their retention, a batch in each commit.

        Pauses between two commits, so that other writers of a SQLite file get the write lock.
        """
        check_batch(batch)
        removed = self._in_batches("outcome_remove", batch, clock)
        return PruneCounts(
            expired=self._in_batches("outcome_expire", batch, clock), removed=removed
        )

    def prunable(self) -> PruneCounts:
        """Return what pruning would erase now."""
        ((expired, removed),) = self.store.read("outcome_prunable")
        return PruneCounts(expired=expired, removed=removed)

    def _in_batches(self, name: str, batch: int, clock: Clock | None) -> int:
        def commit(rows: int) -> int:
            count = len(self.store.run_in_own_transaction(lambda tx: tx.query(name, batch=rows)))
            crash_point("outcome.prune.after_batch")
            return count

        return in_batches(commit, rows=batch, clock=clock)


def _state(state: OutcomeState | str) -> OutcomeState:
    try:
        return OutcomeState(state)
    except ValueError:
        known = ", ".join(OutcomeState)
        message = f"state: there is no state {str(state)[:40]!r}"
        raise InvalidArgument(message, fix=f"use one of {known}", field="state") from None


def _note(verdict: str, actor: str, reason: str) -> str:
    for field, text in (("actor", actor), ("reason", reason)):
        if not text.strip():
            message = f"{field}: must not be empty"
            raise InvalidArgument(
                message, fix="pass who decides as actor, and why as reason", field=field
            )
    parts = {"verdict": verdict, "actor": actor, "reason": reason}
    return compact_json(parts, root="note").decode()


def _record(row: Row) -> OutcomeRecord:
    (*_, result, failure, note) = row
    return OutcomeRecord(
        scope=row[0],
        key=row[1],
        # A tombstone past its retention counts as none.
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


def _listed(row: Row) -> OutcomeListItem:
    number, _, _, has_result, *columns = row
    return OutcomeListItem(
        number=number, record=_record(tuple(columns)), has_result=bool(has_result)
    )


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
