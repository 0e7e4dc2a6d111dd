"""Middleware: run or replay HTTP requests by idempotency key, before any ASGI application.

Handles the options and claims the key; `http_exchange` runs a granted request.
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
from onceward.errors.http_status import STATUS_OF_CODE
from onceward.outcomes.blocking_calls import DeferredCancellation, run_to_completion
from onceward.outcomes.claims import LEASE_SECONDS, ClaimRequest
from onceward.outcomes.http_caller import CallerOf, Callers
from onceward.outcomes.http_exchange import Exchange, MiddlewareOptions, record_best_effort
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
from onceward.outcomes.http_response import Response, problem, rejection_response, unavailable
from onceward.outcomes.http_transaction import RequestClaim
from onceward.outcomes.models import Claim, Fresh, OnCrash, Replay
from onceward.outcomes.once import ON_CRASH_FIX, new_owner
from onceward.outcomes.outcomes import Outcomes
from onceward.outcomes.request_fingerprint import with_caller
from onceward.stores import Store

HEADER: Final = "Idempotency-Key"
METHODS: Final = ("POST", "PATCH")
BODY_BYTES_MAX: Final = 8 * 1024 * 1024
RESPONSE_BYTES_MAX: Final = 1024 * 1024
#: A day: longer than clients retry.
TTL_SECONDS: Final = 86_400.0
_log: Final = logging.getLogger("onceward.outcomes")


class StoreHandle(Protocol):
    """A handle as `onceward.open` returns it."""

    @property
    def store(self) -> Store:
        """Return its store."""


class IdempotencyMiddleware:
    """Make requests with an idempotency key idempotent: a retry gets the recorded response."""

    def __init__(  # noqa: PLR0913 - all of it named, and optional
        self,
        app: AsgiApp,
        *,
        store: StoreHandle | Store,
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
        """Wrap `app`; `store` is a handle from `onceward.open`.

        `required` selects the requests that must have a key. `scope` separates keys of different
        routes; a constant shares them, with workers too. `fingerprint` returns what two requests
        with one key must share; None compares nothing.

        `caller` returns the verified principal of a request, and gives each principal separate
        keys. Without it, the same key with other credentials is rejected: credentials are the usual
        headers, those in `caller_headers`, and all cookies or those in `caller_cookies`.

        A response is replayed for `ttl_seconds`. `on_crash="rerun"` declares every request
        idempotent, as it is when every handler has its effects in
        `scope["onceward"].transaction()`.
        """
        if on_crash not in ("ambiguous", "rerun"):
            message = f"on_crash: must be ambiguous or rerun, not {on_crash!r:.60}"
            raise InvalidArgument(message, fix=ON_CRASH_FIX, field="on_crash")
        self._app = app
        self._outcomes = Outcomes(getattr(store, "store", None) or cast("Store", store))
        self._header = header
        self._methods = frozenset(method.upper() for method in methods)
        self._required = required if callable(required) else lambda _: bool(required)
        self._scope = scope if callable(scope) else lambda _: str(scope)
        self._fingerprint = fingerprint or (lambda _scope, _body: "")
        self._callers = Callers(caller, headers=caller_headers, cookies=caller_cookies)
        self._body_bytes_max = body_bytes_max
        self._options = MiddlewareOptions(
            ttl_seconds=ttl_seconds,
            on_crash=on_crash,
            lease_seconds=lease_seconds,
            response_bytes_max=response_bytes_max,
        )
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Pass on requests without a key, run new ones, replay known ones."""
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
            message = f"{self._header}: the header is missing; the request was not run"
            fix = "send a unique key, such as a random UUID, and the same key with each retry"
            raise InvalidArgument(message, fix=fix, field=self._header)
        return key

    async def _once(self, key: str, scope: AsgiScope, receive: Receive, send: Send) -> None:
        try:
            body = await read_body(scope, receive, self._body_bytes_max)
            if body is None:
                return  # The client has disconnected, and nothing has happened.
            claim_request = await self._claim_request(key, scope, body)
            claim = await self._claim(claim_request)
        except OncewardError as exc:
            await self._reject(exc, send)
            return
        if isinstance(claim, Fresh):
            await self._run(claim, body, scope, send)
        elif isinstance(claim, Replay):
            await Response.from_result(claim.result).send(send)
        else:
            await rejection_response(claim, claim_request).send(send)

    async def _claim_request(self, key: str, scope: AsgiScope, body: bytes) -> ClaimRequest:
        """Return the key to claim for a request."""
        name, caller = await self._callers.identify(scope, self._scope(scope))
        fingerprint = with_caller(self._fingerprint(scope, body), caller)
        return ClaimRequest(name, key, fingerprint, new_owner())

    async def _claim(self, claim_request: ClaimRequest) -> Claim:
        """Claim the key, and free it again if the request was cancelled."""
        outcomes = self._outcomes
        if outcomes.store.engine == "sqlite":  # Faster than a thread, and never waits.
            found = outcomes.find(claim_request)
            if found is not None:
                return found
        cancellation = DeferredCancellation()
        try:
            claim = await cancellation.run(self._claim_blocking, claim_request)
            if cancellation.is_requested and isinstance(claim, Fresh):
                await cancellation.run(record_best_effort, self._free_key_call(claim))
        finally:
            cancellation.raise_if_requested()
        return claim

    def _free_key_call(self, fresh: Fresh) -> Callable[[], object]:
        """Return the call that frees the key of a request that never began."""
        return partial(self._outcomes.fail, fresh.fence, _cancelled_before_start(), retryable=True)

    def _claim_blocking(self, claim_request: ClaimRequest) -> Claim:
        scope, key, fingerprint, owner = claim_request
        options = self._options
        claim = partial(
            self._outcomes.claim,
            scope,
            key,
            fingerprint=fingerprint,
            owner=owner,
            lease_seconds=options.lease_seconds,
            on_crash=options.on_crash,
        )
        try:
            return claim()
        except OutcomeUnknown:  # Granted or not, the same owner may claim again.
            return claim()

    async def _reject(self, exc: OncewardError, send: Send) -> None:
        if not isinstance(exc, (StoreError, StorageError)):
            await problem(exc).send(send)
            return
        if STATUS_OF_CODE[exc.code] != 503:
            raise exc  # Not the client's fault: the server responds with 500 and logs it.
        _log.warning("key not claimed", exc_info=exc)
        await problem(unavailable()).send(send)

    async def _run(self, fresh: Fresh, body: bytes, scope: AsgiScope, send: Send) -> None:
        """Run the application in a task that a disconnected client does not cancel."""
        options = self._options
        claim = RequestClaim(self._outcomes, fresh.fence, options.on_crash, options.lease_seconds)
        exchange = Exchange(self._outcomes, claim, options, body=body, send=send)
        task = asyncio.create_task(exchange.run(self._app, scope))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_note_orphan)
            # The task starts before this line, unless it was cancelled too: a loop that ends
            # cancels tasks that never ran.
            if not exchange.has_started:
                await run_to_completion(record_best_effort, self._free_key_call(fresh))
            raise


def _cancelled_before_start() -> Retryable:
    message = "the request was cancelled before it began; nothing was done"
    return Retryable(message, fix="send it again with the same key")


def _note_orphan(task: asyncio.Task[None]) -> None:
    """Log the error of a request whose server task was cancelled."""
    if not task.cancelled() and task.exception() is not None:
        _log.warning("request failed after its client had disconnected", exc_info=task.exception())
