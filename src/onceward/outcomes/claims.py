"""Claims: who may run a piece of work, and how it ended. Knows no functions, only keys.

Reads first, so that a replay writes nothing. After that only one statement decides, the insert:
it grants a key that is new, free, abandoned or the caller's own, and raises its fence.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from onceward.crash import crash_point
from onceward.errors import FenceLost, InvalidArgument, InvalidJson
from onceward.keys.encoding import is_encodable, read_json
from onceward.outcomes.failures import failure_of, read_failure, write_failure
from onceward.outcomes.models import (
    Ambiguous,
    Claim,
    Expired,
    Failed,
    Failure,
    Fence,
    Fresh,
    InFlight,
    Mismatch,
    NotStored,
    OnCrash,
    Replay,
)
from onceward.stores import Row, Store, Transaction

LEASE_SECONDS: Final = 60.0
#: A hundred years; more is for ever.
SECONDS_MAX: Final = 100 * 366 * 86_400.0
#: A scope or a key is at most this long.
NAME_CHARS_MAX: Final = 1024
#: How often a claim looks again when others were quicker, before it says that they are at it.
ROUNDS_MAX: Final = 4
#: When to look again for a twin whose end nobody can foresee: it works in a transaction.
TWIN_SECONDS: Final = 1.0


class Wanted(NamedTuple):
    """Which work somebody asks for; a tuple, because every call makes one."""

    scope: str
    key: str
    fingerprint: str
    owner: str


class Overtaken(BaseException):
    """Somebody settled the key while a function worked towards its first write; never leaves us.

    No `except Exception` of the function's own may swallow it, nor a call that is joined to its
    transaction: `fence` says whose claim it was.
    """

    def __init__(self, fence: Fence) -> None:
        """Name the claim."""
        super().__init__(fence)
        self.fence = fence


def overtaken_in(exc: BaseException | None) -> Overtaken | None:
    """Return this error, or the first one in a group, as a task group of the function's raises."""
    if isinstance(exc, BaseExceptionGroup):
        exc = exc.subgroup(Overtaken)
        while isinstance(exc, BaseExceptionGroup):
            exc = exc.exceptions[0]
    return exc if isinstance(exc, Overtaken) else None


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
        """Ask to run a piece of work, in a commit of its own even inside a transaction.

        `fingerprint` tells whether two callers of one key mean the same work. `owner` is new at
        every start; the same one re-entering while its lease holds is granted again.
        """
        check_names(scope, key)
        check_seconds("lease_seconds", lease_seconds)
        wanted = Wanted(scope, key, fingerprint, owner)
        for _ in range(ROUNDS_MAX):
            known = self.look(wanted)
            if known is not None:
                return known
            granted = self.grant(wanted, lease_seconds, on_crash)
            if granted is not None:
                return granted
        return InFlight("", TWIN_SECONDS)

    def look(self, wanted: Wanted) -> Claim | None:
        """Say what is known of a key without writing, or None when the insert must decide."""
        rows = self.store.find("outcome_look", scope=wanted.scope, key=wanted.key)
        return _answer(rows[0], wanted) if rows else None

    def grant(self, wanted: Wanted, lease_seconds: float, on_crash: OnCrash) -> Fresh | None:
        """Let the insert decide; None when somebody was quicker."""
        crash_point("outcome.claim.before_commit")
        params = wanted._asdict()
        params["on_crash"] = on_crash
        params["lease_seconds"] = lease_seconds
        granted = self.store.write_query("outcome_claim", **params)
        if not granted:
            return None
        crash_point("outcome.claim.after_commit")
        ((number, at),) = granted
        return Fresh(_fence(wanted, number, at))

    def renew(self, fence: Fence, *, lease_seconds: float = LEASE_SECONDS) -> None:
        """Keep a claim alive; FenceLost when it is somebody else's, or settled."""
        if not self.store.write_query("outcome_renew", lease_seconds=lease_seconds, **named(fence)):
            raise fence_lost(fence)
        crash_point("outcome.renew.after_commit")

    def finish(
        self, fence: Fence, result: bytes | None, *, ttl_seconds: float | None = None
    ) -> None:
        """Record the result, JSON, which every later caller gets; kept for ever without a ttl.

        None: it was done, and there is no result that could be stored.

        A holder that fell silent may still say how it ended, until somebody decided for it.
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
        error: BaseException | Failure,
        *,
        retryable: bool,
        ttl_seconds: float | None = None,
    ) -> None:
        """Record a failure for every later caller, or free the key when a retry may help."""
        text = write_failure(failure_of(error))
        crash_point("outcome.fail.before_commit")
        if retryable:
            self._settle(fence, "free", failure=text, ttl_seconds=0.0)
        else:
            self._settle(fence, "failed", failure=text, ttl_seconds=ttl_seconds)
        crash_point("outcome.fail.after_commit")

    def release(self, fence: Fence, error: BaseException | Failure) -> None:
        """Free a key for any caller and any work: what was claimed did not happen."""
        text = write_failure(failure_of(error))
        self._settle(fence, "free", failure=text, ttl_seconds=0.0, statement="outcome_release")

    def doubt(self, fence: Fence, error: BaseException | Failure) -> None:
        """Record that not even the holder knows whether it happened."""
        self._settle(fence, "ambiguous", failure=write_failure(failure_of(error)))
        crash_point("outcome.doubt.after_commit")

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
        params = named(fence)
        params["state"] = state
        params["result"] = result
        params["failure"] = failure
        params["ttl_seconds"] = ttl_seconds
        # Where a function has begun to write in its caller's transaction there is no other writer:
        # its end is committed with it, and if that is rolled back, nobody knows.
        if self.is_writer():
            settled = self.store.write(lambda tx: tx.query(statement, **params))
        else:
            settled = self.store.write_query(statement, **params)
        if not settled:
            self._check_settled(fence, state, result, failure)

    def is_writer(self) -> bool:
        """Say whether the caller's own transaction keeps every other commit waiting."""
        tx = self.store.current()
        return tx is not None and tx.is_writing and self.store.engine == "sqlite"

    def _check_settled(
        self, fence: Fence, state: str, result: str | None, failure: str | None
    ) -> None:
        """Let a holder repeat itself: the first answer may have been lost on the way."""
        rows = self.store.read("outcome_settled", **named(fence))
        if rows != [(state, result, failure)]:
            raise fence_lost(fence)

    # --- one commit for claim, effects and end --------------------------------------------------

    def claim_in(
        self, tx: Transaction, scope: str, key: str, *, fingerprint: str, owner: str
    ) -> Claim:
        """Ask to run work whose effects are committed together with its end, all in `tx`.

        Where the write lock is taken only at the first write, the answer is checked again there:
        when somebody was quicker, Overtaken is raised inside the work.
        """
        check_names(scope, key)
        wanted = Wanted(scope, key, fingerprint, owner)
        if self.store.engine == "postgres":
            ((is_ours,),) = tx.query("outcome_lock", scope=scope, key=key)
            if not is_ours:
                return InFlight("", TWIN_SECONDS)
        known, number = _look_in(tx, wanted)
        if known is not None:
            return known
        fresh = Fresh(_fence(wanted, number))
        if not tx.is_writing:
            tx.on_first_write(lambda: _check_again(tx, wanted, fresh))
        crash_point("outcome.claim_in.after_look")
        return fresh

    def finish_in(
        self,
        tx: Transaction,
        fence: Fence,
        result: bytes | None,
        *,
        ttl_seconds: float | None = None,
    ) -> None:
        """Record the result as part of `tx`; FenceLost when somebody settled the key meanwhile."""
        check_seconds("ttl_seconds", ttl_seconds)
        self._settle_in(tx, fence, "done", result=check_json(result), ttl_seconds=ttl_seconds)
        crash_point("outcome.finish_in.before_commit")

    def fail_after(
        self, fence: Fence, error: BaseException | Failure, *, ttl_seconds: float | None = None
    ) -> None:
        """Record the failure of work whose transaction was rolled back, in a commit of its own."""
        text = write_failure(failure_of(error))
        self.store.write_apart(
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


def _look_in(tx: Transaction, wanted: Wanted) -> tuple[Claim | None, int]:
    """Say what a transaction knows of a key, and the number of the next fence."""
    rows = tx.query("outcome_look", scope=wanted.scope, key=wanted.key)
    return (_answer(rows[0], wanted), rows[0][3] + 1) if rows else (None, 1)


def _check_again(tx: Transaction, wanted: Wanted, fresh: Fresh) -> None:
    """Stop work that somebody else has done by now; the write lock is held."""
    if not fresh.watch.is_over and _look_in(tx, wanted) != (None, fresh.fence.number):
        raise Overtaken(fresh.fence)


def _answer(row: Row, wanted: Wanted) -> Claim | None:  # noqa: PLR0911 - one a state
    """Judge a row as a claim finds it; None when the insert may grant it."""
    state, used_for, result, fence, holder, claimed_at, until_at, seconds_left = row
    if state == "gone":
        return None
    if state == "expired":
        return Expired(until_at)
    if used_for is not None and used_for != wanted.fingerprint:
        return Mismatch(used_for)
    if state == "done":
        return NotStored() if result is None else Replay(result.encode())
    if state == "failed":
        return Failed(read_failure(result))
    if state == "running" and holder != wanted.owner:
        return InFlight(until_at, seconds_left)
    if state == "ambiguous":
        return Ambiguous(holder, claimed_at, fence)
    return None


def _fence(wanted: Wanted, number: int, granted_at: str = "") -> Fence:
    scope, key, fingerprint, owner = wanted
    return Fence(
        scope=scope,
        key=key,
        fingerprint=fingerprint,
        number=number,
        owner=owner,
        granted_at=granted_at,
    )


def named(fence: Fence) -> dict[str, Any]:
    """Return what a statement needs to know its holder by."""
    return {
        "scope": fence.scope,
        "key": fence.key,
        "fence": fence.number,
        "owner": fence.owner,
        "granted_at": fence.granted_at,
    }


def fence_lost(fence: Fence) -> FenceLost:
    """Return the error for a holder whose word does not count any more."""
    message = f"{fence.scope} {fence.key}: claim {fence.number} of {fence.owner} is void"
    return FenceLost(message, scope=fence.scope, key=fence.key, fence=fence.number)


def check_names(scope: str, key: str) -> None:
    """Refuse names that not every store can hold."""
    for field, name in (("scope", scope), ("key", key)):
        if not 0 < len(name) <= NAME_CHARS_MAX:
            message = f"{field}: must have 1 to {NAME_CHARS_MAX} characters, not {len(name)}"
            raise InvalidArgument(message, fix="use a digest of it", field=field)
        if "\0" in name or not (name.isascii() or is_encodable(name)):
            message = f"{field}: holds a character that cannot be stored"
            raise InvalidArgument(message, fix="use well-formed text without NUL", field=field)


def check_json(result: bytes | None) -> str | None:
    """Return the text of a result, which must be JSON, or None without one."""
    if result is None:
        return None
    try:
        read_json(result)
    except ValueError as exc:
        message = f"result: not JSON: {exc}"
        raise InvalidJson(message, fix="finish with JSON in UTF-8") from exc
    return result.decode()


def check_seconds(field: str, seconds: float | None, *, or_zero: bool = False) -> None:
    """Refuse what is no positive number of seconds."""
    if seconds is not None and not (0 < seconds < SECONDS_MAX or (or_zero and seconds == 0)):
        message = f"{field}: must be a positive number of seconds, not {seconds!r}"
        raise InvalidArgument(message, fix="pass a number such as 60.0", field=field)
