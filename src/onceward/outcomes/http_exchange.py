"""HTTP exchange: run one claimed request and record its response before the client gets it.

The response is held back until it is recorded: a client never knows more than the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from onceward.errors import (
    FenceLost,
    OncewardError,
    OutcomeUnknown,
    Retryable,
    StorageError,
    StoreError,
)
from onceward.errors.http_status import STATUS_OF_CODE
from onceward.outcomes.blocking_calls import DeferredCancellation
from onceward.outcomes.http_request import AsgiApp, AsgiMessage, AsgiScope, Send
from onceward.outcomes.http_response import Response, problem, unavailable
from onceward.outcomes.http_transaction import RequestClaim
from onceward.outcomes.models import OnCrash
from onceward.outcomes.outcomes import Outcomes

_log: Final = logging.getLogger("onceward.outcomes")
#: From this status on, a response reports a server error, not a decision.
SERVER_ERROR: Final = 500
#: Unauthorized, forbidden, proxy authentication: about the caller, not the work.
DENIED_STATUSES: Final = frozenset({401, 403, 407})


@dataclass(frozen=True, kw_only=True, slots=True)
class MiddlewareOptions:
    """The options of the middleware that concern responses."""

    #: How long a response is kept; None: never expires.
    ttl_seconds: float | None
    on_crash: OnCrash
    lease_seconds: float
    #: A longer body is neither sent nor stored.
    response_bytes_max: int


class ResponseTooLarge(OncewardError):
    """The response is too large to be stored, so it was not sent either."""

    code = "RESPONSE_TOO_LARGE"
    default_fix = "raise response_bytes_max, or respond with a URL to fetch the rest from"


class Exchange:
    """One request and its response."""

    def __init__(
        self,
        outcomes: Outcomes,
        claim: RequestClaim,
        options: MiddlewareOptions,
        *,
        body: bytes,
        send: Send,
    ) -> None:
        """Run a request whose body has arrived."""
        self._outcomes = outcomes
        self._claim = claim
        self._options = options
        self._request: AsgiMessage | None = {
            "type": "http.request",
            "body": body,
            "more_body": False,
        }
        self._send = send
        self.has_started = False
        self._start: AsgiMessage | None = None
        self._body = bytearray()
        self._is_too_large = self._is_complete = self._is_recorded = False
        self._unsent: Response | None = None
        self._ended = asyncio.Event()
        self._cancellation = DeferredCancellation()

    async def run(self, app: AsgiApp, scope: AsgiScope) -> None:
        """Run the application, even if the client disconnects."""
        self.has_started = True
        extensions = scope.get("extensions") or {}
        # Without extensions that respond with no bytes to record.
        kept = {name: each for name, each in extensions.items() if "http.response" not in name}
        seen = {**scope, "extensions": kept, "onceward": self._claim}
        self._claim.enter_request()
        try:
            await app(seen, self.receive, self.send)
        except Exception as exc:
            if self._is_recorded:
                await self._send_recorded()
                raise
            if not await self._fail(exc):
                raise
        except asyncio.CancelledError as exc:
            # By the end of the loop, or from within: how far the application came is unknown.
            if not self._is_recorded:
                await self._settle_failure(exc)
            raise
        else:
            await self._settle()
        finally:
            # Only errors that end the process arrive here with a transaction open.
            self._claim.close()
            self._claim.roll_back()
            self._ended.set()

    async def receive(self) -> AsgiMessage:
        """Return the body, then wait: a disconnected client does not stop the application."""
        request, self._request = self._request, None
        if request is not None:
            return request
        await self._ended.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: AsgiMessage) -> None:
        """Collect the response; the last part completes it."""
        if message["type"] == "http.response.start":
            self._start = message
        if message["type"] != "http.response.body" or self._is_complete:
            return
        self._is_complete = not message.get("more_body", False)
        self._body += message.get("body") or b""
        if len(self._body) > self._options.response_bytes_max:
            self._is_too_large = True
            self._body.clear()
        # A server error may be followed by the exception that caused it: wait for that.
        if self._is_complete and self._response().status < SERVER_ERROR:
            await self._record_and_send()

    def _response(self) -> Response:
        if self._is_too_large:
            limit = self._options.response_bytes_max
            message = f"the response has more than {limit} bytes, so it was neither stored nor sent"
            return problem(ResponseTooLarge(message))
        assert self._start is not None, "the application sent a body without a start"
        headers = [(bytes(name), bytes(value)) for name, value in self._start.get("headers", ())]
        return Response(status=self._start["status"], headers=headers, body=bytes(self._body))

    async def _settle(self) -> None:
        """Settle the key when the application has returned."""
        if self._is_recorded:
            await self._send_recorded()
        elif self._is_complete:
            await self._record_and_send()
        else:
            # The server reports it: the application returned without a response.
            await self._settle_failure(RuntimeError("the application sent no response"))
            self._cancellation.raise_if_requested()

    async def _record_and_send(self) -> None:
        """Record the response, then send it; a cancellation waits for the record."""
        response = self._response()
        try:
            await self._record(response)
        except FenceLost:
            response = problem(_claim_lost())
        except (StoreError, StorageError) as exc:
            _log.warning("response not recorded", exc_info=exc)
            response = problem(self._unrecorded(exc))
        self._is_recorded, self._unsent = True, response
        self._claim.close()
        self._ended.set()
        self._cancellation.raise_if_requested()
        await self._send_recorded()

    async def _send_recorded(self) -> None:
        """Send the recorded response, unless it has been sent."""
        response, self._unsent = self._unsent, None
        if response is not None:
            await response.send(self._send)

    async def _record(self, response: Response) -> None:
        claim, ttl = self._claim, self._options.ttl_seconds
        assert self._start is not None
        status = self._start["status"]
        if status in DENIED_STATUSES:
            await self._roll_back_and_release(RuntimeError(f"answered {status}"))
        elif claim.is_transactional and response.status >= SERVER_ERROR:
            await self._roll_back_and_free(RuntimeError(f"answered {response.status}"))
        elif claim.is_open:
            try:
                await self._cancellation.run(claim.commit, response.to_result(), ttl, kind="ending")
            except (StoreError, StorageError) as exc:
                # If it was committed after all, the fence is stale and this changes nothing.
                await self._roll_back_and_free(exc)
                raise
        else:
            result = response.to_result()
            finish = partial(self._outcomes.finish, claim.fence, result, ttl_seconds=ttl)
            await self._cancellation.run(finish)

    def _unrecorded(self, exc: OncewardError) -> OncewardError:
        if self._claim.is_transactional and not isinstance(exc, OutcomeUnknown):
            return unavailable()
        message = "the request was carried out, but that may not be recorded"
        fix = "check its effect; a retry with a new key repeats it, with the same key does not"
        if self._options.on_crash == "rerun":
            fix = "send it again with the same key; it may be carried out again"
        if self._claim.is_transactional:
            message = "the request may or may not have been carried out"
            fix = "send it again with the same key: then it is carried out once"
        return OutcomeUnknown(message, fix=fix)

    async def _fail(self, exc: Exception) -> bool:
        """Settle the key after an exception; return whether a problem response was sent."""
        await self._settle_failure(exc)
        self._cancellation.raise_if_requested()
        is_down = (
            isinstance(exc, (StoreError, StorageError))
            and STATUS_OF_CODE[exc.code] == 503
            and not isinstance(exc, OutcomeUnknown)
        )
        if self._is_complete:
            await self._response().send(self._send)  # The application's own error response.
        elif self._claim.is_transactional and (is_down or isinstance(exc, FenceLost)):
            await problem(unavailable() if is_down else _claim_lost()).send(self._send)
            return True
        return False

    async def _settle_failure(self, exc: BaseException) -> None:
        claim = self._claim
        is_rerunnable = isinstance(exc, Retryable) or self._options.on_crash == "rerun"
        if claim.is_transactional or is_rerunnable:
            await self._roll_back_and_free(exc)
        else:
            mark = partial(self._outcomes.mark_ambiguous, claim.fence, exc)
            await self._cancellation.run(record_best_effort, mark)

    async def _roll_back_and_release(self, exc: BaseException) -> None:
        """Roll back, and free the key for any caller: after a login the credentials differ."""
        await self._cancellation.run(self._claim.roll_back, kind="ending")
        release = partial(self._outcomes.release, self._claim.fence, exc)
        await self._cancellation.run(record_best_effort, release)

    async def _roll_back_and_free(self, exc: BaseException) -> None:
        """Roll back, and free the key: nothing has happened."""
        await self._cancellation.run(self._claim.roll_back, kind="ending")
        free = partial(self._outcomes.fail, self._claim.fence, exc, retryable=True)
        await self._cancellation.run(record_best_effort, free)


def record_best_effort(record: Callable[[], Any]) -> None:
    """Record, or log an error: the expired claim then means the same."""
    try:
        record()
    except FenceLost:
        pass  # Settled or reconciled already.
    except OncewardError as exc:
        _log.warning("end of a request not recorded", exc_info=exc)


def _claim_lost() -> FenceLost:
    return FenceLost(fix="send it again with the same key")
