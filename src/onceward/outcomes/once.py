"""Once: the decorator that gives each piece of work one outcome.

Owns the options, and the quick way for what is done already; `running` does the rest.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar, cast

import orjson

from onceward.errors import InvalidArgument
from onceward.outcomes.claims import LEASE_SECONDS, Wanted, check_names
from onceward.outcomes.models import OnCrash, Replay, Verdict
from onceward.outcomes.naming import (
    ARGUMENTS,
    Args,
    ArgumentsThemselves,
    FingerprintOf,
    KeyOf,
    Kwargs,
    Naming,
)
from onceward.outcomes.outcomes import Outcomes
from onceward.outcomes.running import Rules, Running
from onceward.outcomes.steps import drive, drive_async, turns_of
from onceward.seams import Clock, SystemClock, SystemRandomness
from onceward.stores import Transaction

P = ParamSpec("P")
R = TypeVar("R")


def once(  # noqa: PLR0913 - all of it named, and optional
    outcomes: Outcomes,
    *,
    key: KeyOf | str | None = None,
    scope: str | None = None,
    fingerprint: FingerprintOf | ArgumentsThemselves | None = ARGUMENTS,
    ttl: float | None = None,
    retry_on: type[BaseException] | tuple[type[BaseException], ...] = (),
    on_crash: OnCrash = "ambiguous",
    wait: float = 0.0,
    reconcile: Callable[..., Verdict] | None = None,
    lease_seconds: float = LEASE_SECONDS,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let each piece of work happen once: whoever calls again gets its recorded outcome.

    `key` names the work, from the arguments; without it, the arguments are the key. `scope` is the
    function's full name unless given. The same key with other arguments is KeyReused; pass
    `fingerprint`, a function of the arguments, to compare something else, or None for nothing.

    A function with a parameter `tx` gets the transaction in which its result is recorded: after a
    crash nothing has happened, and it runs again. Any other function that falls silent becomes
    ambiguous and is not run again until `reconcile`, called with the same arguments, answers
    `Done(result)` or `NotDone()`, or a person decides; `on_crash="rerun"` says that repeating it
    is harmless.

    Results are JSON, kept `ttl` seconds or for ever. `Retryable` errors and those in `retry_on`
    free the key; every other error is recorded and raised again as RecordedFailure. `wait` is how
    many seconds to wait for somebody who is at it already.
    """
    if on_crash not in ("ambiguous", "rerun"):
        message = f"on_crash: must be ambiguous or rerun, not {on_crash!r}"
        raise InvalidArgument(message, fix='pass on_crash="rerun"', field="on_crash")
    errors = retry_on if isinstance(retry_on, tuple) else (retry_on,)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        rules = Rules(
            scope=scope or f"{function.__module__}.{function.__qualname__}",
            on_crash=on_crash,
            lease_seconds=lease_seconds,
            ttl_seconds=ttl,
            wait_seconds=wait,
            retry_on=errors,
            reconcile=reconcile,
        )
        naming = Naming(function, key=key, fingerprint=fingerprint)
        return _wrapped(function, Once(outcomes, function, naming, rules))

    return decorate


class Once:
    """A function whose every piece of work has one outcome."""

    def __init__(
        self, outcomes: Outcomes, function: Callable[..., Any], naming: Naming, rules: Rules
    ) -> None:
        """Keep what does not change from call to call."""
        self.outcomes = outcomes
        self._function = function
        self._naming = naming
        self._rules = rules
        self.clock: Clock = getattr(outcomes.store, "clock", None) or SystemClock()
        check_names(rules.scope, "key")
        is_alone = naming.takes_tx and outcomes.store.engine == "sqlite"
        self._turns = turns_of(outcomes.store) if is_alone else None

    def call(self, args: Args, kwargs: Kwargs) -> Any:  # noqa: ANN401 - the function's own result
        """Return the outcome, running the function if there is none."""
        wanted = self._wanted(args, kwargs)
        known = self.outcomes.look(wanted)
        if type(known) is Replay:
            return orjson.loads(known.result)
        running = self._running(wanted, args, kwargs)
        steps = running.steps(known, in_transaction=self._naming.takes_tx)
        return drive(steps, self.clock).outcome()

    async def call_async(self, args: Args, kwargs: Kwargs) -> Any:  # noqa: ANN401 - the same
        """Return the outcome, awaiting the function if there is none."""
        wanted = self._wanted(args, kwargs)
        if self.outcomes.store.engine == "sqlite":
            known = self.outcomes.look(wanted)  # Quicker than a thread, and waits for nobody.
        else:
            known = await asyncio.to_thread(self.outcomes.look, wanted)
        running = self._running(wanted, args, kwargs)
        steps = running.steps(known, in_transaction=self._naming.takes_tx)
        return (await drive_async(steps, self._turns)).outcome()

    def _wanted(self, args: Args, kwargs: Kwargs) -> Wanted:
        key, fingerprint = self._naming.name(args, kwargs)
        check_names("scope", key)
        return Wanted(self._rules.scope, key, fingerprint, new_owner())

    def _running(self, wanted: Wanted, args: Args, kwargs: Kwargs) -> Running:
        def run(tx: Transaction | None) -> Any:  # noqa: ANN401 - the function's own result
            if tx is None:
                return self._function(*args, **kwargs)
            with_tx, named = self._naming.with_tx(tx, args, kwargs)
            return self._function(*with_tx, **named)

        hook = self._rules.reconcile
        decide = partial(hook, *args, **kwargs) if hook is not None else None
        return Running(self.outcomes, self._rules, wanted, run=run, decide=decide, clock=self.clock)


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
    """Return a name for one call that nobody else has had."""
    return f"{_process(os.getpid())}/{next(_calls)}"


_calls: Final = itertools.count(1)


@functools.lru_cache(maxsize=1)
def _process(pid: int) -> str:
    return f"{socket.gethostname()}/{pid}/{SystemRandomness().hex(8)}"
