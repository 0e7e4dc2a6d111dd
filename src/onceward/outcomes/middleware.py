"""Middleware: HTTP requests that carry a key happen once, in front of any ASGI application.

Owns the options and the way to a claim; `http_exchange` runs what was granted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, Protocol, cast

from onceward.errors import (
    InvalidArgument,
    OncewardError,
    OutcomeUnknown,
    Retryable,
    StorageError,
    StoreError,
)
from onceward.outcomes.claims import LEASE_SECONDS, Wanted
from onceward.outcomes.fingerprints import with_caller
from onceward.outcomes.http_caller import CallerOf, Callers
from onceward.outcomes.http_exchange import Exchange, Rules, tried
from onceward.outcomes.http_request import (
    AsgiApp,
    AsgiScope,
    Receive,
    Send,
    default_fingerprint,
    default_scope,
    read_body,
    read_key,
)
from onceward.outcomes.http_response import Response, known, problem, unavailable
from onceward.outcomes.http_transaction import RequestClaim
from onceward.outcomes.models import Claim, Fresh, OnCrash, Replay
from onceward.outcomes.once import new_owner
from onceward.outcomes.outcomes import Outcomes
from onceward.outcomes.threads import Cancellation, to_the_end
from onceward.stores import Store

HEADER: Final = "Idempotency-Key"
METHODS: Final = ("POST", "PATCH")
BODY_BYTES_MAX: Final = 8 * 1024 * 1024
RESPONSE_BYTES_MAX: Final = 1024 * 1024
#: A day: as long as clients retry.
TTL_SECONDS: Final = 86_400.0
_log: Final = logging.getLogger("onceward.outcomes")


class Handle(Protocol):
    """What `onceward.open` gives."""

    @property
    def store(self) -> Store:
        """Where it keeps its state."""


class IdempotencyMiddleware:
    """Let each request with a key happen once; whoever repeats it gets the recorded answer."""

    def __init__(  # noqa: PLR0913 - all of it named, and optional
        self,
        app: AsgiApp,
        *,
        store: Handle | Store,
        header: str = HEADER,
        methods: Collection[str] = METHODS,
        required: bool | Callable[[AsgiScope], bool] = False,
        scope: str | Callable[[AsgiScope], str] = default_scope,
        fingerprint: Callable[[AsgiScope, bytes], str] | None = default_fingerprint,
        caller: CallerOf | None = None,
        caller_headers: Collection[str] = (),
        caller_cookies: Collection[str] | None = None,
        ttl_seconds: float | None = TTL_SECONDS,
        on_crash: OnCrash = "ambiguous",
        lease_seconds: float = LEASE_SECONDS,
        body_bytes_max: int = BODY_BYTES_MAX,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        """Stand in front of `app`; `store` is what `onceward.open` gave.

        `required` says which requests must bring a key. `scope` separates keys of different routes;
        a constant shares them, with workers too. `fingerprint` tells whether the payloads of two
        requests with one key are the same; None compares none.

        `caller` returns the verified principal of a request, and gives each principal keys of its
        own. Without it, the same key with other credentials is refused: credentials are the usual
        headers, those in `caller_headers`, and all cookies or those in `caller_cookies`.

        An answer is replayed for `ttl_seconds`. `on_crash="rerun"` says that repeating any request
        is harmless, as it is when every handler has its effects in
        `scope["onceward"].transaction()`.
        """
        if on_crash not in ("ambiguous", "rerun"):
            message = f"on_crash: must be ambiguous or rerun, not {on_crash!r}"
            raise InvalidArgument(message, fix='pass on_crash="rerun"', field="on_crash")
        self._app = app
        self._outcomes = Outcomes(getattr(store, "store", None) or cast("Store", store))
        self._header = header
        self._methods = frozenset(method.upper() for method in methods)
        self._required = required if callable(required) else lambda _: bool(required)
        self._scope = scope if callable(scope) else lambda _: str(scope)
        self._fingerprint = fingerprint or (lambda _scope, _body: "")
        self._callers = Callers(caller, headers=caller_headers, cookies=caller_cookies)
        self._body_bytes_max = body_bytes_max
        self._rules = Rules(
            ttl_seconds=ttl_seconds,
            on_crash=on_crash,
            lease_seconds=lease_seconds,
            response_bytes_max=response_bytes_max,
        )
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Pass on what has no key, run what is new, answer what is known."""
        if scope["type"] != "http" or scope["method"] not in self._methods:
            await self._app(scope, receive, send)
            return
        try:
            key = self._key(scope)
        except InvalidArgument as exc:
            await problem(exc).send(send)
            return
        if key is None:
            await self._app(scope, receive, send)
        else:
            await self._once(key, scope, receive, send)

    def _key(self, scope: AsgiScope) -> str | None:
        key = read_key(scope, self._header)
        if key is None and self._required(scope):
            message = f"{self._header}: is missing"
            fix = "send a key of your own, such as a random UUID, and the same one when you retry"
            raise InvalidArgument(message, fix=fix, field=self._header)
        return key

    async def _once(self, key: str, scope: AsgiScope, receive: Receive, send: Send) -> None:
        try:
            body = await read_body(scope, receive, self._body_bytes_max)
            if body is None:
                return  # Nobody is left to answer, and nothing has happened.
            wanted = await self._wanted(key, scope, body)
            claim = await self._claim(wanted)
        except OncewardError as exc:
            await self._refuse(exc, send)
            return
        if isinstance(claim, Fresh):
            await self._run(claim, body, scope, send)
        elif isinstance(claim, Replay):
            await Response.from_result(claim.result).send(send)
        else:
            await known(claim, wanted).send(send)

    async def _wanted(self, key: str, scope: AsgiScope, body: bytes) -> Wanted:
        """Return which work a request asks for, and for whom."""
        name, caller = await self._callers.identify(scope, self._scope(scope))
        fingerprint = with_caller(self._fingerprint(scope, body), caller)
        return Wanted(name, key, fingerprint, new_owner())

    async def _claim(self, wanted: Wanted) -> Claim:
        """Ask for the key, and hand it back if nobody wants the answer any more."""
        outcomes = self._outcomes
        if outcomes.store.engine == "sqlite":  # Quicker than a thread, and waits for nobody.
            found = outcomes.look(wanted)
            if found is not None:
                return found
        cancellation = Cancellation()
        try:
            claim = await cancellation.after(self._ask, wanted)
            if cancellation.was_asked and isinstance(claim, Fresh):
                await cancellation.after(tried, self._handing_back(claim))
        finally:
            cancellation.go_on()
        return claim

    def _handing_back(self, fresh: Fresh) -> Callable[[], object]:
        """Return what frees the key of a request that never began, so that it can run again."""
        return partial(self._outcomes.fail, fresh.fence, _gone(), retryable=True)

    def _ask(self, wanted: Wanted) -> Claim:
        scope, key, fingerprint, owner = wanted
        rules = self._rules
        asked = partial(
            self._outcomes.claim,
            scope,
            key,
            fingerprint=fingerprint,
            owner=owner,
            lease_seconds=rules.lease_seconds,
            on_crash=rules.on_crash,
        )
        try:
            return asked()
        except OutcomeUnknown:  # Granted or not, the same owner may ask again.
            return asked()

    async def _refuse(self, exc: OncewardError, send: Send) -> None:
        if not isinstance(exc, (StoreError, StorageError)):
            await problem(exc).send(send)
            return
        if exc.code not in ("UNAVAILABLE", "OUTCOME_UNKNOWN"):
            raise exc  # No fault of the client's: the server answers 500 and logs it.
        _log.warning("a key could not be claimed", exc_info=exc)
        await problem(unavailable()).send(send)

    async def _run(self, fresh: Fresh, body: bytes, scope: AsgiScope, send: Send) -> None:
        """Run the application in a task that outlives the client's patience."""
        rules = self._rules
        claim = RequestClaim(self._outcomes, fresh.fence, rules.on_crash, rules.lease_seconds)
        exchange = Exchange(self._outcomes, claim, rules, body=body, send=send)
        task = asyncio.create_task(exchange.run(self._app, scope))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_note_orphan)
            # The task's first step comes before this one, unless the task was cancelled, too: a
            # loop that ends cancels tasks that never ran.
            if not exchange.has_begun:
                await to_the_end(tried, self._handing_back(fresh))
            raise


def _gone() -> Retryable:
    return Retryable("the request was cancelled before it began")


def _note_orphan(task: asyncio.Task[None]) -> None:
    """Log how a request failed whose server does not listen any more."""
    if not task.cancelled() and task.exception() is not None:
        _log.warning("a request failed after its client had gone", exc_info=task.exception())
