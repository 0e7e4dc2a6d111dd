"""Actions: execute or preview an operator's change, once per key, and record it.

The order is: check permission, replay an earlier result, check that the target is unchanged, apply
the change, record who made it. The module of each area defines the change itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, Final, cast

from fastapi import Response

from onceward.client import Onceward
from onceward.console import audit
from onceward.console.context import ConsoleContext
from onceward.console.read_only import read_only
from onceward.console.responses import ActionResult, Receipt, json_answer
from onceward.errors import Conflict, InvalidArgument, OncewardError, OutcomeUnknown
from onceward.keys.encoding import encoded, read_json
from onceward.stores import Transaction
from onceward.system.crash_points import crash_point

#: The scope of action keys, separate from the user's scopes.
SCOPE: Final = "onceward.console"
#: How long a repeated key returns the recorded result.
KEEP_SECONDS: Final = 30 * 86_400.0
#: How long a concurrent request with the same key waits for the first one.
WAIT_SECONDS: Final = 10.0
REPLAYED_HEADER: Final = "Idempotent-Replayed"
Work = Callable[[Transaction], ActionResult]
_ADDED: Final = {each.name for each in fields(ActionResult)}
_log: Final = logging.getLogger("onceward.console")


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorAction:
    """A change that an operator asked for."""

    #: Such as `cursor.seek`.
    name: str
    #: The target, such as a cursor's name.
    target: str
    #: The idempotency key; None is enough for a dry run.
    key: str | None
    #: The body of the request.
    body: Mapping[str, Any]
    #: Whether the change commits together with its record. If not, it commits by itself, may run
    #: again after a crash, and must be idempotent.
    is_atomic: bool = True

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Return a digest of the action, to reject a different action under the same key."""
        return {"action": self.name, "target": self.target, "body": dict(self.body)}


class ActionExecutor:
    """Executes and previews the actions of one console."""

    def __init__(self, context: ConsoleContext) -> None:
        """Use the store of `context`."""
        self._context = context

    def execute(self, action: OperatorAction, work: Work) -> Response:
        """Execute an action once per key, record it, and answer with its result and a receipt."""
        if self._context.is_read_only:
            raise read_only()
        if action.key is None:
            message = "Idempotency-Key: the header is missing; the action was not run"
            fix = "send a new UUID for each action, and the same one when you retry it"
            raise InvalidArgument(message, fix=fix, field="Idempotency-Key")
        ow, performed = self._context.ow(), list[bool]()

        def perform(tx: Transaction) -> dict[str, Any]:
            result = _recorded(work(tx))
            performed.append(True)
            crash_point("console.action.before_audit")
            self._record(tx, action, "done", result)
            return result

        try:
            result = self._once(ow, action, perform)
        except OncewardError as refused:
            # Do not record a refusal if the action may have happened; a retry returns the outcome.
            is_unknown = isinstance(refused, OutcomeUnknown) or (performed and not action.is_atomic)
            if not is_unknown:
                self._record_refusal(ow, action, refused)
            raise
        receipt = Receipt(key=action.key, action=action.name, is_replay=not performed)
        headers = {} if performed else {REPLAYED_HEADER: "true"}
        return json_answer({**result, "dry_run": False, "receipt": receipt}, headers=headers)

    def preview(self, work: Callable[[], ActionResult]) -> Response:
        """Return what an action would change. Read-only, so no permission is needed."""
        return json_answer({**_recorded(work()), "dry_run": True, "receipt": None})

    def _once(
        self, ow: Onceward, action: OperatorAction, perform: Callable[[Transaction], dict[str, Any]]
    ) -> dict[str, Any]:
        """Run the action, or return its recorded result."""

        def autocommitted() -> dict[str, Any]:
            # Each statement commits by itself, and so does the record.
            return perform(cast("Transaction", _AutocommitTransaction(ow)))

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
        return decorate(atomic)() if action.is_atomic else decorate(autocommitted)()  # type: ignore[call-arg]  # the decorator brings the transaction

    def _record(
        self,
        tx: Transaction,
        action: OperatorAction,
        outcome: audit.Ending,
        result: Mapping[str, Any],
    ) -> None:
        assert action.key is not None
        audit.add(
            tx,
            actor=self._context.actor,
            action=action.name,
            target=action.target,
            request_id=action.key,
            outcome=outcome,
            details=action.body,
            result=result,
            is_repeatable=not action.is_atomic and outcome == "done",
        )

    def _record_refusal(self, ow: Onceward, action: OperatorAction, error: OncewardError) -> None:
        with suppress(OncewardError):  # The caller needs the refusal, not this error.
            ow.store.run_in_own_transaction(
                lambda tx: self._record(tx, action, "refused", error.to_dict())
            )
        facts = {"action": action.name, "target": action.target, "code": error.code}
        text = "action refused"
        _log.info("%s: %s: %s", text, action.name, error, extra={"event": text, "facts": facts})


class _AutocommitTransaction:
    """The interface of a transaction, but each statement commits by itself."""

    def __init__(self, ow: Onceward) -> None:
        self._ow = ow

    def query(self, name: str, /, **params: object) -> list[tuple[Any, ...]]:
        return self._ow.store.run_in_own_transaction(lambda tx: tx.query(name, **params))


def _recorded(result: ActionResult) -> dict[str, Any]:
    """Return a result as it is recorded under its key: JSON, without what each answer adds."""
    found: dict[str, Any] = read_json(encoded(result))
    return {name: value for name, value in found.items() if name not in _ADDED}


def check_seen(what: str, seen: str | None, now: str) -> None:
    """Raise Conflict if the target changed since the operator saw it."""
    if seen is not None and seen != now:
        message = f"{what} changed since you loaded it; nothing was changed by this request"
        raise Conflict(message, fix="reload it, then decide", seen=seen, now=now)
