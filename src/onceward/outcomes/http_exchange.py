"""Exchange: one request that runs under a claim, from the application's start to the answer given.

The answer is held back until it is recorded: a client never knows more than the store.
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
from onceward.outcomes.http_request import AsgiApp, AsgiScope, Message, Send
from onceward.outcomes.http_response import Response, problem, unavailable
from onceward.outcomes.http_transaction import RequestClaim
from onceward.outcomes.models import OnCrash
from onceward.outcomes.outcomes import Outcomes
from onceward.outcomes.threads import Cancellation

_log: Final = logging.getLogger("onceward.outcomes")
#: From here on an answer says that something broke, not what was decided.
BROKEN: Final = 500
#: Not authenticated, not allowed, not authenticated at a proxy: about the caller, not the work.
DENIED: Final = frozenset({401, 403, 407})


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What the middleware was told about answers."""

    #: How long an answer is kept; None for ever.
    ttl_seconds: float | None
    on_crash: OnCrash
    lease_seconds: float
    #: A longer body is not given, and not kept.
    response_bytes_max: int


class ResponseTooLarge(OncewardError):
    """The answer is too long to be kept, so it is not given either."""

    code = "RESPONSE_TOO_LARGE"
    default_fix = "raise response_bytes_max, or answer with an address to fetch the rest from"


class Exchange:
    """One request and its answer."""

    def __init__(
        self, outcomes: Outcomes, claim: RequestClaim, rules: Rules, *, body: bytes, send: Send
    ) -> None:
        """Run a request whose body has arrived."""
        self._outcomes = outcomes
        self._claim = claim
        self._rules = rules
        self._request: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._send = send
        self.has_begun = False
        self._start: Message | None = None
        self._body = bytearray()
        self._is_too_large = self._is_complete = self._is_given = False
        self._unsent: Response | None = None
        self._over = asyncio.Event()
        self._cancellation = Cancellation()

    async def run(self, app: AsgiApp, scope: AsgiScope) -> None:
        """Let the application answer, whatever becomes of the client."""
        self.has_begun = True
        extensions = scope.get("extensions") or {}
        # Ways to answer that leave no bytes to record.
        kept = {name: each for name, each in extensions.items() if "http.response" not in name}
        seen = {**scope, "extensions": kept, "onceward": self._claim}
        self._claim.enter_request()
        try:
            await app(seen, self.receive, self.send)
        except Exception as exc:
            if self._is_given:
                await self._deliver()
                raise
            if not await self._fail(exc):
                raise
        except asyncio.CancelledError as exc:
            # With the whole loop, or from within: how far the application came, nobody knows.
            if not self._is_given:
                await self._settle_failure(exc)
            raise
        else:
            await self._end()
        finally:
            # Only what ends the process comes here with a transaction open.
            self._claim.close()
            self._claim.roll_back()
            self._over.set()

    async def receive(self) -> Message:
        """Give the body, and then silence: that the client went away is no reason to stop."""
        request, self._request = self._request, None
        if request is not None:
            return request
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take the answer piece by piece; the last piece makes it count."""
        if message["type"] == "http.response.start":
            self._start = message
        if message["type"] != "http.response.body" or self._is_complete:
            return
        self._is_complete = not message.get("more_body", False)
        self._body += message.get("body") or b""
        if len(self._body) > self._rules.response_bytes_max:
            self._is_too_large = True
            self._body.clear()
        # A server error may be followed by the exception behind it: wait for that.
        if self._is_complete and self._answer().status < BROKEN:
            await self._give()

    def _answer(self) -> Response:
        if self._is_too_large:
            limit = self._rules.response_bytes_max
            return problem(ResponseTooLarge(f"the answer has more than {limit} bytes"))
        assert self._start is not None, "the application sent a body without a start"
        headers = [(bytes(name), bytes(value)) for name, value in self._start.get("headers", ())]
        return Response(status=self._start["status"], headers=headers, body=bytes(self._body))

    async def _end(self) -> None:
        """Settle what the application left when it returned."""
        if self._is_given:
            await self._deliver()
        elif self._is_complete:
            await self._give()
        else:
            # The server says the rest: the application returned without an answer.
            await self._settle_failure(RuntimeError("the application gave no answer"))
            self._cancellation.go_on()

    async def _give(self) -> None:
        """Record the answer, then give it; a cancellation has to wait for the record."""
        answer = self._answer()
        try:
            await self._record(answer)
        except FenceLost:
            answer = problem(_overtaken())
        except (StoreError, StorageError) as exc:
            _log.warning("an answer was not recorded", exc_info=exc)
            answer = problem(self._unrecorded(exc))
        self._is_given, self._unsent = True, answer
        self._claim.close()
        self._over.set()
        self._cancellation.go_on()
        await self._deliver()

    async def _deliver(self) -> None:
        """Send what was recorded, unless it has been sent."""
        answer, self._unsent = self._unsent, None
        if answer is not None:
            await answer.send(self._send)

    async def _record(self, answer: Response) -> None:
        claim, ttl = self._claim, self._rules.ttl_seconds
        assert self._start is not None
        status = self._start["status"]
        if status in DENIED:
            await self._release(RuntimeError(f"answered {status}"))
        elif claim.is_transactional and answer.status >= BROKEN:
            await self._undo(RuntimeError(f"answered {answer.status}"))
        elif claim.is_open:
            try:
                await self._cancellation.after(claim.commit, answer.to_result(), ttl, kind="ending")
            except (StoreError, StorageError) as exc:
                # If it was committed after all, the fence is void and this changes nothing.
                await self._undo(exc)
                raise
        else:
            result = answer.to_result()
            finish = partial(self._outcomes.finish, claim.fence, result, ttl_seconds=ttl)
            await self._cancellation.after(finish)

    def _unrecorded(self, exc: OncewardError) -> OncewardError:
        if self._claim.is_transactional and not isinstance(exc, OutcomeUnknown):
            return unavailable()
        message = "the request was carried out, but that could not be recorded"
        if self._claim.is_transactional:
            message = "the request may or may not have been carried out"
        return OutcomeUnknown(message, fix="send it again with the same key to find out")

    async def _fail(self, exc: Exception) -> bool:
        """Settle what an exception left open; say whether an answer was given in its place."""
        await self._settle_failure(exc)
        self._cancellation.go_on()
        is_down = isinstance(exc, (StoreError, StorageError)) and exc.code == "UNAVAILABLE"
        if self._is_complete:
            await self._answer().send(self._send)  # The application's own words for it.
        elif self._claim.is_transactional and (is_down or isinstance(exc, FenceLost)):
            await problem(unavailable() if is_down else _overtaken()).send(self._send)
            return True
        return False

    async def _settle_failure(self, exc: BaseException) -> None:
        claim = self._claim
        is_harmless = isinstance(exc, Retryable) or self._rules.on_crash == "rerun"
        if claim.is_transactional or is_harmless:
            await self._undo(exc)
        else:
            doubt = partial(self._outcomes.doubt, claim.fence, exc)
            await self._cancellation.after(tried, doubt)

    async def _release(self, exc: BaseException) -> None:
        """Roll back, and free the key for any caller: logging in makes another caller of one."""
        await self._cancellation.after(self._claim.roll_back, kind="ending")
        release = partial(self._outcomes.release, self._claim.fence, exc)
        await self._cancellation.after(tried, release)

    async def _undo(self, exc: BaseException) -> None:
        """Roll back, and free the key: nothing has happened."""
        await self._cancellation.after(self._claim.roll_back, kind="ending")
        free = partial(self._outcomes.fail, self._claim.fence, exc, retryable=True)
        await self._cancellation.after(tried, free)


def tried(record: Callable[[], Any]) -> None:
    """Record without fail; when that fails, the claim runs out and says the same."""
    try:
        record()
    except FenceLost:
        pass  # Somebody has decided already.
    except OncewardError as exc:
        _log.warning("the end of a request was not recorded", exc_info=exc)


def _overtaken() -> FenceLost:
    return FenceLost(fix="send it again with the same key")
