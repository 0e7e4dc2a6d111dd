"""Once: the decorator that makes calls of a function idempotent.

Handles the options and the replay of recorded results; `call_execution` does the rest.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar, cast

from onceward.errors import InvalidArgument
from onceward.outcomes.blocking_calls import run_to_completion
from onceward.outcomes.call_execution import CallExecution, CallOptions
from onceward.outcomes.call_key import (
    ALL_ARGUMENTS,
    AllArguments,
    Args,
    CallKeyBuilder,
    FingerprintOf,
    KeyOf,
    Kwargs,
)
from onceward.outcomes.claims import (
    LEASE_SECONDS,
    NAME_CHARS_MAX,
    ClaimRequest,
    check_names,
    check_seconds,
)
from onceward.outcomes.error_encoding import Raises
from onceward.outcomes.models import OnCrash, Replay, Verdict
from onceward.outcomes.outcomes import Outcomes
from onceward.outcomes.result_encoding import ResultEncoder
from onceward.outcomes.step_drivers import CallResult, drive, drive_async, thread_kind_for
from onceward.outcomes.sync_fast_path import SyncFastPath
from onceward.stores import Transaction, fork_safety
from onceward.system import Clock, SystemClock, SystemRandomness

P = ParamSpec("P")
R = TypeVar("R")
ON_CRASH_FIX: Final = 'omit it for "ambiguous", or pass "rerun" if the work is idempotent itself'


def once(  # noqa: PLR0913 - all of it named, and optional
    outcomes: Outcomes,
    *,
    key: KeyOf | str | None = None,
    scope: str | None = None,
    fingerprint: FingerprintOf | AllArguments | None = ALL_ARGUMENTS,
    key_since: Mapping[str, object] | None = None,
    ttl: float | None = None,
    retry_on: type[BaseException] | tuple[type[BaseException], ...] = (),
    raises: type[Exception] | Raises = (),
    on_crash: OnCrash = "ambiguous",
    wait: float = 0.0,
    reconcile: Callable[..., Verdict] | None = None,
    lease_seconds: float = LEASE_SECONDS,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make calls of a function idempotent: a call with a known key gets the recorded outcome.

    `key` computes the key from the arguments; without it, the arguments are the key. `scope` is the
    function's full name unless given. The same key with other arguments is KeyReused; pass
    `fingerprint`, a function of the arguments, to compare something else, or None for nothing.

    A function with a parameter `tx` gets the transaction in which its result is recorded: after a
    crash nothing has happened, and it runs again. Any other function that starts but never reports
    a result becomes ambiguous. It does not run again until `reconcile`, called with the same
    arguments, answers `Done(result)` or `NotDone()`, or an operator decides. `on_crash="rerun"`
    declares the function idempotent.

    Arguments are compared by value: models, dataclasses, dates and the like by their content.
    `key_since` names parameters that were added later, each with the value that earlier calls had
    in effect; a parameter with this value changes no key.

    Results are stored as JSON, for `ttl` seconds (default: without expiry), and returned as the
    type of the return annotation; ResultNotStored when that is impossible. `Retryable` errors and
    those in `retry_on` free the key. Every other error is recorded and raised again as
    RecordedFailure, or as itself if its class is in `raises`. `wait` is how many seconds to wait
    for a concurrent caller with the same key.
    """
    if on_crash not in ("ambiguous", "rerun"):
        message = f"on_crash: must be ambiguous or rerun, not {on_crash!r:.60}"
        raise InvalidArgument(message, fix=ON_CRASH_FIX, field="on_crash")
    check_seconds("lease_seconds", lease_seconds)
    check_seconds("ttl", ttl)
    errors = retry_on if isinstance(retry_on, tuple) else (retry_on,)
    raised: tuple[Any, ...] = raises if isinstance(raises, tuple) else (raises,)
    if not all(isinstance(each, type) and issubclass(each, Exception) for each in raised):
        message = f"raises: must be classes of exceptions, not {raises!r:.60}"
        fix = "pass the classes themselves, such as raises=(CardDeclined,)"
        raise InvalidArgument(message, fix=fix, field="raises")

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        # The name of a class inside a function resolves only there, and only now.
        is_inside = "<locals>" in getattr(function, "__qualname__", "")
        local = sys._getframe(1).f_locals if is_inside else None  # noqa: SLF001 - documented
        call_key = CallKeyBuilder(function, key=key, fingerprint=fingerprint, key_since=key_since)
        options = CallOptions(
            scope=scope or f"{function.__module__}.{function.__qualname__}",
            on_crash=on_crash,
            lease_seconds=lease_seconds,
            ttl_seconds=ttl,
            wait_seconds=wait,
            retry_on=errors,
            reconcile=reconcile,
            raises=raised,
            results=ResultEncoder(function, local),
        )
        return _wrapped(function, Once(outcomes, function, call_key, options))

    return decorate


class Once:
    """An idempotent function."""

    def __init__(
        self,
        outcomes: Outcomes,
        function: Callable[..., Any],
        call_key: CallKeyBuilder,
        options: CallOptions,
    ) -> None:
        """Keep what all calls share."""
        self.outcomes = outcomes
        self._function = function
        self._call_key = call_key
        self._options = options
        self.clock: Clock = getattr(outcomes.store, "clock", None) or SystemClock()
        self._fast_path = SyncFastPath(outcomes, options, self.clock)
        check_names(options.scope, "key")

    def call(self, args: Args, kwargs: Kwargs) -> Any:  # noqa: ANN401 - the function's own result
        """Return the outcome, running the function if there is none."""
        request = self._claim_request(args, kwargs)
        known = self.outcomes.find(request)
        if type(known) is Replay:
            return self._options.results.read(known.result)
        request = request._replace(owner=new_owner())
        execution, takes_tx = self._execution(request, args, kwargs), self._call_key.takes_tx
        if known is None and not takes_tx:
            fence = self._fast_path.try_claim(request)
            if fence is not None:
                return self._fast_path.run(execution, fence)
        elif known is None and self.outcomes.store.current() is None:
            answer = self._fast_path.run_in_transaction(execution)
            if isinstance(answer, CallResult):
                return answer.outcome()
            known = answer
        return drive(execution.steps(known, in_transaction=takes_tx), self.clock).outcome()

    async def call_async(self, args: Args, kwargs: Kwargs) -> Any:  # noqa: ANN401 - the same
        """Return the outcome, awaiting the function if there is none."""
        store = self.outcomes.store
        request = self._claim_request(args, kwargs)._replace(owner=new_owner())
        if store.engine == "sqlite":
            known = self.outcomes.find(request)  # Faster than a thread, and never waits.
        else:
            known = await run_to_completion(
                self.outcomes.find, request, kind=thread_kind_for(store)
            )
        execution = self._execution(request, args, kwargs)
        steps = execution.steps(known, in_transaction=self._call_key.takes_tx)
        return (await drive_async(steps, store)).outcome()

    def _claim_request(self, args: Args, kwargs: Kwargs) -> ClaimRequest:
        key, fingerprint = self._call_key.build(args, kwargs)
        if len(key) > NAME_CHARS_MAX or not key.isascii() or not key.isprintable() or not key:
            check_names("scope", key)
        return ClaimRequest(self._options.scope, key, fingerprint, "")  # A replay needs no owner.

    def _execution(self, request: ClaimRequest, args: Args, kwargs: Kwargs) -> CallExecution:
        def run(tx: Transaction | None) -> Any:  # noqa: ANN401 - the function's own result
            if tx is None:
                return self._function(*args, **kwargs)
            with_tx, named = self._call_key.with_tx(tx, args, kwargs)
            return self._function(*with_tx, **named)

        hook = self._options.reconcile
        decide = partial(hook, *args, **kwargs) if hook is not None else None
        return CallExecution(
            self.outcomes, self._options, request, run=run, decide=decide, clock=self.clock
        )


def _wrapped(function: Callable[P, R], made: Once) -> Callable[P, R]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the function
            return await made.call_async(args, kwargs)

        return cast("Callable[P, R]", call_async)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return cast("R", made.call(args, kwargs))

    return call


def new_owner() -> str:
    """Return a name for one call that is unique among all processes."""
    return f"{_process(os.getpid(), fork_safety.number)}/{next(_calls)}"


_calls: Final = itertools.count(1)


@functools.lru_cache(maxsize=1)
def _process(pid: int, _fork: int) -> str:
    # Keyed by pid too: a fork in C, as in some servers, runs no Python hooks.
    return f"{socket.gethostname()}/{pid}/{SystemRandomness().hex(8)}"
