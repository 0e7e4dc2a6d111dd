"""Audit: who did what in the console, and what came of it; a row for each action, kept for good."""

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

#: More of what was asked or answered is not kept.
TEXT_BYTES_MAX: Final = 16 * 1024
Ending = Literal["done", "refused"]


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """One action, as it is kept."""

    id: int
    happened_at: str
    actor: str
    #: Which door it came through.
    via: str
    #: Such as `cursor.seek`.
    action: str
    #: What it was done to.
    target: str
    #: The key under which it is carried out once.
    request_id: str | None
    outcome: Ending
    #: What was asked for.
    details: Any
    #: What came of it, or the error that refused it.
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
    """Record an action; `is_repeatable` if not in the transaction that does it, so maybe again."""
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
    """Return actions before a number, the newest first."""
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
    """Return what knows the secrets of this process's environment."""
    return Redactor.from_environment(os.environ)
