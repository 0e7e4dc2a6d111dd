"""Audit: record each operator action of the console with its actor and outcome, permanently."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import orjson

from onceward.keys.encoding import encoded
from onceward.stores import Row, Store, Transaction
from onceward.system.redaction import Redactor

#: Longer request and result values are cut to this size.
TEXT_BYTES_MAX: Final = 16 * 1024
Ending = Literal["done", "refused"]


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """One recorded action."""

    id: int
    happened_at: str
    actor: str
    #: The interface the action came through, such as the console.
    via: str
    #: Such as `cursor.seek`.
    action: str
    #: The target of the action.
    target: str
    #: The idempotency key of the action.
    request_id: str | None
    outcome: Ending
    #: The request's arguments.
    details: Any
    #: The result, or the error that rejected the action.
    result: Any


def add(  # noqa: PLR0913 - one argument a column, all by name
    tx: Transaction,
    *,
    actor: str,
    action: str,
    target: str,
    request_id: str,
    outcome: Ending,
    details: Mapping[str, Any],
    result: Mapping[str, Any],
    is_repeatable: bool = False,
) -> None:
    """Record an action; `is_repeatable` if its own transaction may run, and record, it again."""
    tx.query(
        "audit_add",
        actor=actor,
        via="console",
        action=action,
        target=target,
        request_id=request_id,
        outcome=outcome,
        details=_cut_value(details),
        result=_cut_value(result),
        is_repeatable=is_repeatable,
    )


def page(store: Store, *, before: int, limit: int) -> list[AuditEntry]:
    """Return the actions before a row number, newest first."""
    return [_entry(row) for row in store.read("audit_page", before=before, limit=limit)]


def _entry(row: Row) -> AuditEntry:
    *columns, details, result = row
    names = list(AuditEntry.__dataclass_fields__)[:-2]
    kept = dict(zip(names, columns, strict=True))
    return AuditEntry(**kept, details=orjson.loads(details), result=orjson.loads(result))


def _cut_value(value: Mapping[str, Any]) -> str:
    text = encoded(_redactor().value(dict(value)))
    if len(text) > TEXT_BYTES_MAX:
        text = encoded({"cut": text[:TEXT_BYTES_MAX].decode(errors="ignore"), "bytes": len(text)})
    return text.decode().replace("\\u0000", "\\ufffd")


@lru_cache(maxsize=1)
def _redactor() -> Redactor:
    """Return a redactor for the secrets in this process's environment."""
    return Redactor.from_environment(os.environ)
