"""Claims: grant a key to one caller at a time, and record how its work ended.

Reads first, so that a replay writes nothing. After that one statement decides, the insert: it
grants a key that is new, free, abandoned or the caller's own, and raises its fencing token.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from onceward.errors import FenceLost, InvalidArgument, InvalidJson
from onceward.keys.encoding import is_encodable, read_json
from onceward.outcomes.error_encoding import failure_of, read_failure, write_failure
from onceward.outcomes.models import (
    Ambiguous,
    Claim,
    Expired,
    Failed,
    Fence,
    Fresh,
    InFlight,
    Mismatch,
    NotStored,
    OnCrash,
    Replay,
    StoredFailure,
)
from onceward.stores import Row, Store, Transaction
from onceward.system.crash_points import crash_point

LEASE_SECONDS: Final = 60.0
#: A hundred years.
SECONDS_MAX: Final = 100 * 366 * 86_400.0
#: A scope or a key is at most this long.
NAME_CHARS_MAX: Final = 1024
#: How often a claim retries when concurrent callers won, before it answers InFlight.
CLAIM_ATTEMPTS_MAX: Final = 4
#: Retry interval for a concurrent caller that works in a transaction: it has no lease.
CONCURRENT_RETRY_SECONDS: Final = 1.0


class ClaimRequest(NamedTuple):
    """The key to claim, and the caller that claims it; a tuple, because every call makes one."""

    scope: str
    key: str
    fingerprint: str
    owner: str


class KeyAlreadySettled(BaseException):
    """Another caller settled the key before this function's first write; never raised to users.

    No `except Exception` of the function's own may swallow it, nor a call that is joined to its
    transaction: `fence` says whose claim it was.
    """

    def __init__(self, fence: Fence) -> None:
        """Name the claim."""
        super().__init__(fence)
        self.fence = fence


def find_key_already_settled(exc: BaseException | None) -> KeyAlreadySettled | None:
    """Return this error, or the first one in a group, as a task group of the function's raises."""
    if isinstance(exc, BaseExceptionGroup):
        exc = exc.subgroup(KeyAlreadySettled)
        while isinstance(exc, BaseExceptionGroup):
            exc = exc.exceptions[0]
    return exc if isinstance(exc, KeyAlreadySettled) else None


class Claims:
    """The keys of one store."""

    def __init__(self, store: Store) -> None:
        """Keep them in this store."""
        self.store = store

    # --- a commit for the claim, and another for its end ----------------------------------------

    def claim(  # noqa: PLR0913 - all of it named
        self,
        scope: str,
        key: str,
        *,
        fingerprint: str,
        owner: str,
        lease_seconds: float = LEASE_SECONDS,
        on_crash: OnCrash = "ambiguous",
    ) -> Claim:
        """Claim a key, in its own commit even inside a transaction.

        `fingerprint` must be equal for two callers of one key. `owner` is unique per caller; the
        same owner that claims again while its lease is valid is granted again.
        """
        check_names(scope, key)
        check_seconds("lease_seconds", lease_seconds)
        request = ClaimRequest(scope, key, fingerprint, owner)
        for _ in range(CLAIM_ATTEMPTS_MAX):
            known = self.find(request)
            if known is not None:
                return known
            granted = self.grant(request, lease_seconds, on_crash)
            if granted is not None:
                return granted
        return InFlight("", CONCURRENT_RETRY_SECONDS)

    def find(self, request: ClaimRequest) -> Claim | None:
        """Return the stored answer without writing, or None when the insert must decide."""
        rows = self.store.find("outcome_find", scope=request.scope, key=request.key)
        return _claim_answer(rows[0], request) if rows else None

    def grant(self, request: ClaimRequest, lease_seconds: float, on_crash: OnCrash) -> Fresh | None:
        """Claim by the insert; None when a concurrent caller won."""
        crash_point("outcome.claim.before_commit")
        params = request._asdict()
        params["on_crash"] = on_crash
        params["lease_seconds"] = lease_seconds
        granted = self.store.write_query("outcome_claim", **params)
        if not granted:
            return None
        crash_point("outcome.claim.after_commit")
        ((number, at),) = granted
        return Fresh(_make_fence(request, number, at))

    def renew(self, fence: Fence, *, lease_seconds: float = LEASE_SECONDS) -> None:
        """Extend the lease of a claim; FenceLost when it was taken over or settled."""
        if not self.store.write_query(
            "outcome_renew", lease_seconds=lease_seconds, **fence_params(fence)
        ):
            raise fence_lost(fence)
        crash_point("outcome.renew.after_commit")

    def finish(
        self, fence: Fence, result: bytes | None, *, ttl_seconds: float | None = None
    ) -> None:
        """Record the result, JSON, which every later caller gets; never expires without a ttl.

        A result of None means that the work was done but its result could not be stored.

        A holder whose lease expired may still settle the key until it is reconciled or taken over.
        """
        check_json(result)
        self.record(fence, result, ttl_seconds)

    def record(self, fence: Fence, result: bytes | None, ttl_seconds: float | None) -> None:
        """Record a result that is known to be JSON."""
        text = None if result is None else result.decode()
        crash_point("outcome.finish.before_commit")
        self._settle(fence, "done", result=text, ttl_seconds=ttl_seconds)
        crash_point("outcome.finish.after_commit")

    def fail(
        self,
        fence: Fence,
        error: BaseException | StoredFailure,
        *,
        retryable: bool,
        ttl_seconds: float | None = None,
    ) -> None:
        """Record a failure for every later caller, or free the key if it is retryable."""
        text = write_failure(failure_of(error))
        crash_point("outcome.fail.before_commit")
        if retryable:
            self._settle(fence, "free", failure=text, ttl_seconds=0.0)
        else:
            self._settle(fence, "failed", failure=text, ttl_seconds=ttl_seconds)
        crash_point("outcome.fail.after_commit")

    def release(self, fence: Fence, error: BaseException | StoredFailure) -> None:
        """Free a key for any caller and fingerprint: the claimed work did not happen."""
        text = write_failure(failure_of(error))
        self._settle(fence, "free", failure=text, ttl_seconds=0.0, statement="outcome_release")

    def mark_ambiguous(self, fence: Fence, error: BaseException | StoredFailure) -> None:
        """Record that the work may or may not have happened."""
        self._settle(fence, "ambiguous", failure=write_failure(failure_of(error)))
        crash_point("outcome.mark_ambiguous.after_commit")

    def _settle(  # noqa: PLR0913 - all of it named
        self,
        fence: Fence,
        state: str,
        *,
        result: str | None = None,
        failure: str | None = None,
        ttl_seconds: float | None = None,
        statement: str = "outcome_settle",
    ) -> None:
        check_seconds("ttl_seconds", ttl_seconds, or_zero=state == "free")
        params = fence_params(fence)
        params["state"] = state
        params["result"] = result
        params["failure"] = failure
        params["ttl_seconds"] = ttl_seconds
        # A function that writes in its caller's transaction is the only writer: its result is
        # committed with that transaction, and if that is rolled back the outcome is ambiguous.
        if self.is_writer():
            settled = self.store.write(lambda tx: tx.query(statement, **params))
        else:
            settled = self.store.write_query(statement, **params)
        if not settled:
            self._check_settled(fence, state, result, failure)

    def is_writer(self) -> bool:
        """Return whether the caller's own transaction blocks every other commit."""
        tx = self.store.current()
        return tx is not None and tx.is_writing and self.store.engine == "sqlite"

    def _check_settled(
        self, fence: Fence, state: str, result: str | None, failure: str | None
    ) -> None:
        """Accept the same settlement twice: the answer to the first may have been lost."""
        rows = self.store.read("outcome_settled", **fence_params(fence))
        if rows != [(state, result, failure)]:
            raise fence_lost(fence)

    # --- one commit for claim, effects and end --------------------------------------------------

    def claim_in(
        self, tx: Transaction, scope: str, key: str, *, fingerprint: str, owner: str
    ) -> Claim:
        """Claim a key for work whose effects are committed together with its result, all in `tx`.

        Where the write lock is taken only at the first write, the answer is checked again there:
        when another caller settled the key first, KeyAlreadySettled is raised inside the function.
        """
        check_names(scope, key)
        request = ClaimRequest(scope, key, fingerprint, owner)
        if self.store.engine == "postgres":
            ((is_ours,),) = tx.query("outcome_lock", scope=scope, key=key)
            if not is_ours:
                return InFlight("", CONCURRENT_RETRY_SECONDS)
        known, number = _find_in(tx, request)
        if known is not None:
            return known
        fresh = Fresh(_make_fence(request, number))
        if not tx.is_writing:
            tx.on_first_write(lambda: _check_unsettled(tx, request, fresh))
        crash_point("outcome.claim_in.after_find")
        return fresh

    def finish_in(
        self,
        tx: Transaction,
        fence: Fence,
        result: bytes | None,
        *,
        ttl_seconds: float | None = None,
    ) -> None:
        """Record the result in `tx`; FenceLost when another caller settled the key first."""
        check_seconds("ttl_seconds", ttl_seconds)
        self._settle_in(tx, fence, "done", result=check_json(result), ttl_seconds=ttl_seconds)
        crash_point("outcome.finish_in.before_commit")

    def fail_after(
        self,
        fence: Fence,
        error: BaseException | StoredFailure,
        *,
        ttl_seconds: float | None = None,
    ) -> None:
        """Record the failure of work whose transaction was rolled back, in its own commit."""
        text = write_failure(failure_of(error))
        self.store.run_in_own_transaction(
            lambda tx: self._settle_in(tx, fence, "failed", failure=text, ttl_seconds=ttl_seconds)
        )
        crash_point("outcome.fail_after.after_commit")

    def _settle_in(  # noqa: PLR0913 - all of it named
        self,
        tx: Transaction,
        fence: Fence,
        state: str,
        *,
        result: str | None = None,
        failure: str | None = None,
        ttl_seconds: float | None = None,
    ) -> None:
        settled = tx.query(
            "outcome_settle_new",
            scope=fence.scope,
            key=fence.key,
            fingerprint=fence.fingerprint,
            owner=fence.owner,
            fence=fence.number,
            state=state,
            result=result,
            failure=failure,
            ttl_seconds=ttl_seconds,
        )
        if not settled:
            raise fence_lost(fence)


def _find_in(tx: Transaction, request: ClaimRequest) -> tuple[Claim | None, int]:
    """Return the stored answer as a transaction sees it, and the number of the next fence."""
    rows = tx.query("outcome_find", scope=request.scope, key=request.key)
    return (_claim_answer(rows[0], request), rows[0][3] + 1) if rows else (None, 1)


def _check_unsettled(tx: Transaction, request: ClaimRequest, fresh: Fresh) -> None:
    """Stop a call whose key another caller has settled; the write lock is held."""
    if not fresh.first_write_check.is_disabled and _find_in(tx, request) != (
        None,
        fresh.fence.number,
    ):
        raise KeyAlreadySettled(fresh.fence)


def _claim_answer(row: Row, request: ClaimRequest) -> Claim | None:  # noqa: PLR0911 - one a state
    """Return the answer for a stored row; None when the insert may grant it."""
    state, used_for, result, fence, holder, claimed_at, until_at, seconds_left = row
    if state == "gone":
        return None
    if state == "expired":
        return Expired(until_at)
    if used_for is not None and used_for != request.fingerprint:
        return Mismatch(used_for)
    if state == "done":
        return NotStored() if result is None else Replay(result.encode())
    if state == "failed":
        return Failed(read_failure(result))
    if state == "running" and holder != request.owner:
        return InFlight(until_at, seconds_left)
    if state == "ambiguous":
        return Ambiguous(holder, claimed_at, fence)
    return None


def _make_fence(request: ClaimRequest, number: int, granted_at: str = "") -> Fence:
    scope, key, fingerprint, owner = request
    return Fence(
        scope=scope,
        key=key,
        fingerprint=fingerprint,
        number=number,
        owner=owner,
        granted_at=granted_at,
    )


def fence_params(fence: Fence) -> dict[str, Any]:
    """Return the parameters that identify a claim in every statement of its holder."""
    return {
        "scope": fence.scope,
        "key": fence.key,
        "fence": fence.number,
        "owner": fence.owner,
        "granted_at": fence.granted_at,
    }


def fence_lost(fence: Fence) -> FenceLost:
    """Return the error for a stale holder."""
    message = (
        f"{fence.scope} {fence.key}: claim {fence.number} of {fence.owner} is stale: the key was "
        "taken over, settled or forgotten; nothing was recorded"
    )
    return FenceLost(message, scope=fence.scope, key=fence.key, fence=fence.number)


def check_names(scope: str, key: str) -> None:
    """Reject names that not every store can hold."""
    check_name("scope", scope)
    check_name("key", key)


def check_name(field: str, name: str) -> None:
    """Reject a name that not every store can hold."""
    if not 0 < len(name) <= NAME_CHARS_MAX:
        message = f"{field}: must have 1 to {NAME_CHARS_MAX} characters, not {len(name)}"
        fix = "use a digest of it" if name else "pass a text that is not empty"
        raise InvalidArgument(message, fix=fix, field=field)
    if "\0" in name or not (name.isascii() or is_encodable(name)):
        message = f"{field}: has a NUL or an unpaired surrogate, which cannot be stored"
        raise InvalidArgument(message, fix="remove it, or use a digest", field=field)


def check_json(result: bytes | None) -> str | None:
    """Return the text of a result, which must be JSON, or None without one."""
    if result is None:
        return None
    try:
        read_json(result)
    except ValueError as exc:
        message = f"result: is not JSON, so the key was not settled: {exc}"
        fix = "finish with JSON in UTF-8, or None for no result"
        raise InvalidJson(message, fix=fix, field="result") from exc
    return result.decode()


def check_seconds(field: str, seconds: float | None, *, or_zero: bool = False) -> None:
    """Reject values that are not a positive number of seconds."""
    if seconds is not None and not (0 < seconds < SECONDS_MAX or (or_zero and seconds == 0)):
        least = "0 or more" if or_zero else "more than 0"
        message = f"{field}: must be {least} and less than {SECONDS_MAX:.0f} s, not {seconds!r}"
        raise InvalidArgument(message, fix="pass a number such as 60.0", field=field)
