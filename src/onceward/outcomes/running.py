"""Running: one call of a function that has one outcome, from its claim to its end.

A generator of steps, so that it is the same for `def` and `async def`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import orjson

from onceward.crash import crash_point
from onceward.errors import (
    FenceLost,
    KeyAmbiguous,
    NotCanonical,
    NotReconcilable,
    OncewardError,
    OutcomeUnknown,
    Retryable,
    StoreBusy,
    StoreUnavailable,
    WriterHeld,
)
from onceward.keys import compact_json
from onceward.outcomes.claims import TWIN_SECONDS, Overtaken, Wanted
from onceward.outcomes.models import (
    Ambiguous,
    Claim,
    Done,
    Fence,
    Fresh,
    InFlight,
    NotDone,
    OnCrash,
    Replay,
    Verdict,
)
from onceward.outcomes.outcomes import Outcomes
from onceward.outcomes.refusals import refusal
from onceward.outcomes.steps import Ask, Call, Ended, Sleep, Step, Steps, Turn
from onceward.seams import Clock
from onceward.stores import Transaction

#: While waiting for a twin: look soon, then ever later, up to this.
POLL_SECONDS_MIN: Final = 0.005
POLL_SECONDS_MAX: Final = 0.25
#: How long the end of some work is tried to be recorded while the store is away.
RECORD_SECONDS_MAX: Final = 30.0
Asking = Generator[Step, Any, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What the decorator was told."""

    scope: str
    on_crash: OnCrash
    lease_seconds: float
    #: How long an outcome is kept; None for ever.
    ttl_seconds: float | None
    #: How long to wait for a twin.
    wait_seconds: float
    #: Errors that free the key.
    retry_on: tuple[type[BaseException], ...]
    #: Tells what became of ambiguous work, from the same arguments.
    reconcile: Callable[..., Verdict] | None


@dataclass(kw_only=True, slots=True)
class Work:
    """A call that is being run, as seen from inside it."""

    outcomes: Outcomes
    wanted: Wanted
    #: None inside a transaction.
    fence: Fence | None
    retry_on: tuple[type[BaseException], ...]
    clock: Clock
    #: Names of the steps it has taken so far.
    steps: set[str] = field(default_factory=set)


#: The innermost function with one outcome that runs in this context.
CURRENT: Final[ContextVar[Work | None]] = ContextVar("work", default=None)


class _Undo(Exception):
    """Rolls a transaction back, and goes no further."""


class Running:
    """One call."""

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        outcomes: Outcomes,
        rules: Rules,
        wanted: Wanted,
        *,
        run: Callable[[Transaction | None], Any],
        decide: Callable[[], Verdict] | None,
        clock: Clock,
    ) -> None:
        """Run `run` when it may be run; ask `decide` about what a crash left open."""
        self._outcomes = outcomes
        self._rules = rules
        self._wanted = wanted
        self._run = run
        self._decide = decide
        self._clock = clock

    def steps(self, known: Claim | None, *, in_transaction: bool) -> Steps:
        """Go on from what a first look has found, until there is an outcome."""
        deadline = self._clock.monotonic() + self._rules.wait_seconds
        pause = POLL_SECONDS_MIN
        while True:
            if known is None:
                asked = self._in_transaction() if in_transaction else self._apart()
                answer: Claim | Ended | None = yield from asked
                if isinstance(answer, Ended):
                    return answer
                known = answer
            if isinstance(known, Replay):
                return Ended(value=orjson.loads(known.result))
            if isinstance(known, InFlight):
                left = deadline - self._clock.monotonic()
                if left <= 0 or self._waits_for_itself():
                    return Ended(error=refusal(known, self._wanted))
                yield Sleep(min(pause, left))
                pause = min(2 * pause, POLL_SECONDS_MAX)
            elif isinstance(known, Ambiguous) and self._decide is not None:
                ended: Ended | None = yield from self._reconcile(known, self._decide)
                if ended is not None:
                    return ended
            elif known is not None:
                return Ended(error=refusal(known, self._wanted))
            known = yield Ask(partial(self._outcomes.look, self._wanted))

    def _work(self, fence: Fence | None) -> Work:
        return Work(
            outcomes=self._outcomes,
            wanted=self._wanted,
            fence=fence,
            retry_on=self._rules.retry_on,
            clock=self._clock,
        )

    def _waits_for_itself(self) -> bool:
        """Say whether we are inside the very work that we would wait for."""
        work = CURRENT.get()
        return work is not None and work.wanted[:2] == self._wanted[:2]

    def _reconcile(self, found: Ambiguous, decide: Callable[[], Verdict]) -> Asking:
        """Ask the hook; an end when it could not tell."""
        ended: Ended = yield Call(decide)
        if ended.error is not None:
            return ended
        verdict = ended.value
        if not isinstance(verdict, (Done, NotDone)):
            return Ended(error=refusal(found, self._wanted))
        said = {"done": verdict.result} if isinstance(verdict, Done) else {"not_done": True}
        try:
            yield Ask(
                partial(
                    self._outcomes.reconcile,
                    *self._wanted[:2],
                    **said,
                    actor="reconcile hook",
                    reason="asked at the next call",
                    fence=found.fence,
                    ttl_seconds=self._rules.ttl_seconds,
                )
            )
        except NotReconcilable:
            pass  # Somebody else has decided; look again.
        except NotCanonical as exc:
            return Ended(error=exc)
        return None

    # --- a commit for the claim, and another for its end ----------------------------------------

    def _apart(self) -> Asking:
        """Claim and run; an end, or what somebody else's claim has come to, or None to look."""
        outcomes, rules = self._outcomes, self._rules
        if outcomes.is_writer():
            raise WriterHeld
        grant = partial(outcomes.grant, self._wanted, rules.lease_seconds, rules.on_crash)
        try:
            fresh: Fresh | None = yield Ask(grant)
        except OutcomeUnknown:  # Granted or not, the same owner may ask again.
            fresh = yield Ask(grant)
        if fresh is None:
            # Unless a look finds more: a twin that works in a transaction.
            seen = yield Ask(partial(outcomes.look, self._wanted))
            return seen or InFlight("", TWIN_SECONDS)
        fence = fresh.fence
        token = CURRENT.set(self._work(fence))
        try:
            with outcomes.heart.keep(outcomes, fence, rules.lease_seconds):
                ended: Ended = yield Call(partial(self._run, None))
                crash_point("outcome.run.after_effect")
                return (yield from self._end(fence, ended))
        finally:
            CURRENT.reset(token)

    def _end(self, fence: Fence, ended: Ended) -> Asking:
        """Record how it ended; what the caller gets is what every later caller will get."""
        outcomes, ttl = self._outcomes, self._rules.ttl_seconds
        result, error = _encoded(ended, self._rules.scope)
        if error is None:
            yield from self._recorded(partial(outcomes.finish, fence, result, ttl_seconds=ttl))
            return Ended(value=orjson.loads(result))
        if isinstance(error, (OutcomeUnknown, KeyAmbiguous)):
            record = partial(outcomes.doubt, fence, error)
        else:
            frees = isinstance(error, (Retryable, WriterHeld, *self._rules.retry_on))
            record = partial(outcomes.fail, fence, error, retryable=frees, ttl_seconds=ttl)
        try:
            yield from self._recorded(record)
        except (FenceLost, OutcomeUnknown) as exc:
            exc.__cause__ = error
            return Ended(error=exc)
        return Ended(error=error)

    def _recorded(self, record: Callable[[], None]) -> Asking:
        """Record it, and insist: the work is over, and without this nobody will know how."""
        seconds = min(self._rules.lease_seconds, RECORD_SECONDS_MAX)
        deadline = self._clock.monotonic() + seconds
        while True:
            try:
                yield Ask(record)
            except (StoreUnavailable, StoreBusy, OutcomeUnknown) as exc:
                if self._clock.monotonic() >= deadline:
                    message = f"{' '.join(self._wanted[:2])}: ran, and could not be recorded"
                    raise OutcomeUnknown(message, fix=KeyAmbiguous.default_fix) from exc
            else:
                return
            yield Sleep(POLL_SECONDS_MAX)

    # --- one commit for claim, effects and end --------------------------------------------------

    def _in_transaction(self) -> Asking:
        """Claim, run and finish in one commit; an end, or what was found, or None to look."""
        store = self._outcomes.store
        is_joined = store.current() is not None
        if is_joined:
            return (yield from self._within(is_joined=True))
        yield Turn(begin=True)
        answer = yield from self._within(is_joined=False)
        yield Turn(begin=False)
        return answer

    def _within(self, *, is_joined: bool) -> Asking:
        outcomes, wanted = self._outcomes, self._wanted
        ended = Ended()
        claim: Claim | None = None
        try:
            with outcomes.store.transaction() as tx:
                scope, key, fingerprint, owner = wanted
                claim = outcomes.claim_in(tx, scope, key, fingerprint=fingerprint, owner=owner)
                if not isinstance(claim, Fresh):
                    return claim
                ended = yield from self._run_in(tx, claim, is_joined=is_joined)
                if ended.error is not None and not is_joined:
                    raise _Undo  # noqa: TRY301 - this is how a transaction is left
        except Overtaken:
            return None
        except _Undo:
            assert isinstance(claim, Fresh)
            try:
                yield from self._record(claim.fence, ended)
            except FenceLost:
                return None  # A twin was quicker: its outcome is this caller's too.
        return ended

    def _run_in(self, tx: Transaction, fresh: Fresh, *, is_joined: bool) -> Asking:
        token = CURRENT.set(self._work(None))
        try:
            ended: Ended = yield Call(partial(self._run, tx))
        finally:
            CURRENT.reset(token)
            fresh.watch.is_over = True
        result, error = _encoded(ended, self._rules.scope)
        if error is not None:
            return Ended(error=error)
        fresh.watch.is_over = False  # Without a write of its own, the first one is ours.
        ttl = self._rules.ttl_seconds
        try:
            self._outcomes.finish_in(tx, fresh.fence, result, ttl_seconds=ttl)
        except FenceLost:
            if is_joined:  # What it wrote is part of the caller's transaction, who must undo it.
                raise
            raise Overtaken from None
        return Ended(value=orjson.loads(result))

    def _record(self, fence: Fence, ended: Ended) -> Asking:
        """Keep a failure whose effects are undone, unless a retry may help."""
        error = ended.error
        assert error is not None
        is_open = isinstance(error, (Retryable, OutcomeUnknown, KeyAmbiguous, WriterHeld))
        if (
            is_open
            or isinstance(error, self._rules.retry_on)
            or (isinstance(error, OncewardError) and error.retryable)
        ):
            return
        ttl = self._rules.ttl_seconds
        yield Ask(partial(self._outcomes.fail_after, fence, error, ttl_seconds=ttl))


def _encoded(ended: Ended, name: str) -> tuple[bytes, Exception | None]:
    """Return a result as JSON; a result that is not JSON is the function's own error."""
    if ended.error is not None:
        return b"", ended.error
    try:
        return compact_json(ended.value, root="result"), None
    except NotCanonical as exc:
        problem = exc.message.removeprefix(f"{exc.path}: ")
        fix = f"let {name} return plain JSON values"
        return b"", NotCanonical(exc.path, f"{problem}; {name} ran, and returned it", fix=fix)
