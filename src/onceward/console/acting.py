"""Acting: everything that people change through the console, once for each key, and recorded.

Owns the order: may it be done here, was it done before, did it change since it was looked at, do
it, write down who did it. What is done is the areas' own. Knows no store's tables.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, cast

from fastapi import Response

from onceward.console import audit
from onceward.console.answers import json_answer
from onceward.console.house import House
from onceward.console.read_only import read_only
from onceward.crash import crash_point
from onceward.errors import Conflict, InvalidArgument, OncewardError, OutcomeUnknown
from onceward.handle import Onceward
from onceward.stores import Transaction

#: Keys of actions are kept apart from the user's.
SCOPE: Final = "onceward.console"
#: So long the same key gives the same answer.
KEEP_SECONDS: Final = 30 * 86_400.0
#: How long a second press waits for the first.
WAIT_SECONDS: Final = 10.0
REPLAYED_HEADER: Final = "Idempotent-Replayed"
Work = Callable[[Transaction], dict[str, Any]]
_log: Final = logging.getLogger("onceward.console")


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """What somebody asked for."""

    #: Such as `cursor.seek`.
    name: str
    #: What it is done to.
    target: str
    #: Carried out once under this; None is only fit for a dry run.
    key: str | None
    #: What was asked, as it came.
    body: Mapping[str, Any]
    #: Whether it is part of the transaction that records it; else it commits by itself, may be
    #: run again after a crash, and must be harmless to repeat.
    is_atomic: bool = True

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Return what tells two actions apart that came under one key."""
        return {"action": self.name, "target": self.target, "body": dict(self.body)}


class Acting:
    """The hands of one console."""

    def __init__(self, house: House) -> None:
        """Act upon this house."""
        self._house = house

    def do(self, action: Action, work: Work) -> Response:
        """Do it once, record it, and answer with what came of it and a receipt."""
        if self._house.is_read_only:
            raise read_only()
        if action.key is None:
            message = "Idempotency-Key: an action needs a key, so that pressing twice is harmless"
            raise InvalidArgument(message, fix="send the header, such as a new UUID")
        ow, performed = self._house.ow(), list[bool]()

        def perform(tx: Transaction) -> dict[str, Any]:
            result = work(tx)
            performed.append(True)
            crash_point("console.act.before_audit")
            self._record(tx, action, "done", result)
            return result

        try:
            result = self._once(ow, action, perform)
        except OncewardError as refused:
            # What may have happened is not called refused: the key is asked again, and tells.
            is_unknown = isinstance(refused, OutcomeUnknown) or (performed and not action.is_atomic)
            if not is_unknown:
                self._record_refusal(ow, action, refused)
            raise
        receipt = {"key": action.key, "action": action.name, "is_replay": not performed}
        headers = {} if performed else {REPLAYED_HEADER: "true"}
        return json_answer({**result, "dry_run": False, "receipt": receipt}, headers=headers)

    def think(self, work: Callable[[], dict[str, Any]]) -> Response:
        """Answer what an action would do; changes nothing, so everybody may."""
        return json_answer({**work(), "dry_run": True, "receipt": None})

    def _once(
        self, ow: Onceward, action: Action, perform: Callable[[Transaction], dict[str, Any]]
    ) -> dict[str, Any]:
        """Run it, or return what came of it before."""

        def apart() -> dict[str, Any]:
            # Its parts commit by themselves; the record is a commit of its own.
            return perform(cast("Transaction", _Apart(ow)))

        def atomic(tx: Transaction) -> dict[str, Any]:
            return perform(tx)

        decorate = ow.once(
            key=action.key,
            scope=SCOPE,
            fingerprint=lambda *_, **__: action.fingerprint,
            ttl=KEEP_SECONDS,
            retry_on=Exception,
            on_crash="ambiguous" if action.is_atomic else "rerun",
            wait=WAIT_SECONDS,
        )
        return decorate(atomic)() if action.is_atomic else decorate(apart)()  # type: ignore[call-arg]  # the decorator brings the transaction

    def _record(
        self, tx: Transaction, action: Action, outcome: audit.Ending, result: Mapping[str, Any]
    ) -> None:
        assert action.key is not None
        audit.add(
            tx,
            actor=self._house.actor,
            action=action.name,
            target=action.target,
            request_id=action.key,
            outcome=outcome,
            details=action.body,
            result=result,
            is_repeatable=not action.is_atomic and outcome == "done",
        )

    def _record_refusal(self, ow: Onceward, action: Action, error: OncewardError) -> None:
        with suppress(OncewardError):  # The refusal is what counts.
            ow.store.write_apart(lambda tx: self._record(tx, action, "refused", error.to_dict()))
        facts = {"action": action.name, "target": action.target, "code": error.code}
        text = "action refused"
        _log.info("%s: %s: %s", text, action.name, error, extra={"event": text, "facts": facts})


class _Apart:
    """Stands for a transaction where there is none: each statement is a commit of its own."""

    def __init__(self, ow: Onceward) -> None:
        self._ow = ow

    def query(self, name: str, /, **params: object) -> list[tuple[Any, ...]]:
        return self._ow.store.write_apart(lambda tx: tx.query(name, **params))


def check_seen(what: str, seen: str | None, now: str) -> None:
    """Refuse to act upon something that is not any more what somebody looked at."""
    if seen is not None and seen != now:
        message = f"{what} changed since you looked"
        raise Conflict(message, fix="look again, then decide", seen=seen, now=now)
