"""Once: the decorator that gives each piece of work one outcome.

Owns the options, and the quick way for what is done already; `running` does the rest.
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
from onceward.outcomes.claims import (
    LEASE_SECONDS,
    NAME_CHARS_MAX,
    Wanted,
    check_names,
    check_seconds,
)
from onceward.outcomes.direct import Direct
from onceward.outcomes.failures import Raises
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
from onceward.outcomes.results import Results
from onceward.outcomes.running import Rules, Running
from onceward.outcomes.steps import Ended, drive, drive_async, kind_for
from onceward.outcomes.threads import to_the_end
from onceward.seams import Clock, SystemClock, SystemRandomness
from onceward.stores import Transaction, forks

P = ParamSpec("P")
R = TypeVar("R")


def once(  # noqa: PLR0913 - all of it named, and optional
    outcomes: Outcomes,
    *,
    key: KeyOf | str | None = None,
    scope: str | None = None,
    fingerprint: FingerprintOf | ArgumentsThemselves | None = ARGUMENTS,
    key_since: Mapping[str, object] | None = None,
    ttl: float | None = None,
    retry_on: type[BaseException] | tuple[type[BaseException], ...] = (),
    raises: type[Exception] | Raises = (),
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

    Arguments are compared by value: models, dataclasses, dates and the like count by what they
    hold. `key_since` names parameters that were added later, each with the value that earlier
    calls had in effect; a parameter with this value changes no key.

    Results are stored as JSON, `ttl` seconds or for ever, and come back as the type of the return
    annotation; ResultNotStored when that is impossible. `Retryable` errors and those in `retry_on`
    free the key; every other error is recorded and raised again as RecordedFailure, or as itself
    if its class is in `raises`. `wait` is how many seconds to wait for somebody who is at it
    already.
    """
    if on_crash not in ("ambiguous", "rerun"):
        message = f"on_crash: must be ambiguous or rerun, not {on_crash!r}"
        raise InvalidArgument(message, fix='pass on_crash="rerun"', field="on_crash")
    check_seconds("lease_seconds", lease_seconds)
    check_seconds("ttl", ttl)
    errors = retry_on if isinstance(retry_on, tuple) else (retry_on,)
    raised: tuple[Any, ...] = raises if isinstance(raises, tuple) else (raises,)
    if not all(isinstance(each, type) and issubclass(each, Exception) for each in raised):
        message = "raises: must be classes of exceptions"
        raise InvalidArgument(message, fix="pass raises=(CardDeclined,)", field="raises")

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        # A class inside a function is known by name only there, and only now.
        is_inside = "<locals>" in getattr(function, "__qualname__", "")
        local = sys._getframe(1).f_locals if is_inside else None  # noqa: SLF001 - documented
        naming = Naming(function, key=key, fingerprint=fingerprint, key_since=key_since)
        rules = Rules(
            scope=scope or f"{function.__module__}.{function.__qualname__}",
            on_crash=on_crash,
            lease_seconds=lease_seconds,
            ttl_seconds=ttl,
            wait_seconds=wait,
            retry_on=errors,
            reconcile=reconcile,
            raises=raised,
            results=Results(function, local),
        )
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
        self._direct = Direct(outcomes, rules, self.clock)
        check_names(rules.scope, "key")

    def call(self, args: Args, kwargs: Kwargs) -> Any:  # noqa: ANN401 - the function's own result
        """Return the outcome, running the function if there is none."""
        wanted = self._wanted(args, kwargs)
        known = self.outcomes.look(wanted)
        if type(known) is Replay:
            return self._rules.results.read(known.result)
        wanted = wanted._replace(owner=new_owner())
        running, takes_tx = self._running(wanted, args, kwargs), self._naming.takes_tx
        if known is None and not takes_tx:
            fence = self._direct.granted(wanted)
            if fence is not None:
                return self._direct.run(running, fence)
        elif known is None and self.outcomes.store.current() is None:
            answer = self._direct.run_in_transaction(running)
            if isinstance(answer, Ended):
                return answer.outcome()
            known = answer
        return drive(running.steps(known, in_transaction=takes_tx), self.clock).outcome()

    async def call_async(self, args: Args, kwargs: Kwargs) -> Any:  # noqa: ANN401 - the same
        """Return the outcome, awaiting the function if there is none."""
        store = self.outcomes.store
        wanted = self._wanted(args, kwargs)._replace(owner=new_owner())
        if store.engine == "sqlite":
            known = self.outcomes.look(wanted)  # Quicker than a thread, and waits for nobody.
        else:
            known = await to_the_end(self.outcomes.look, wanted, kind=kind_for(store))
        running = self._running(wanted, args, kwargs)
        steps = running.steps(known, in_transaction=self._naming.takes_tx)
        return (await drive_async(steps, store)).outcome()

    def _wanted(self, args: Args, kwargs: Kwargs) -> Wanted:
        key, fingerprint = self._naming.name(args, kwargs)
        if len(key) > NAME_CHARS_MAX or not key.isascii() or not key.isprintable() or not key:
            check_names("scope", key)
        return Wanted(self._rules.scope, key, fingerprint, "")  # A replay needs no owner.

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
    return f"{_process(os.getpid(), forks.number)}/{next(_calls)}"


_calls: Final = itertools.count(1)


@functools.lru_cache(maxsize=1)
def _process(pid: int, _fork: int) -> str:
    # By its pid too: a fork made in C, as some servers do, calls nothing of Python's.
    return f"{socket.gethostname()}/{pid}/{SystemRandomness().hex(8)}"
