"""Statements: which SQL a user may run inside a transaction, and which values it may bind.

One call runs one statement, and the transaction is ended by leaving its block. Both are read from
the text, once for each text: the same rules hold on both engines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from onceward.errors import SqlFailed
from onceward.stores.base import Params
from onceward.stores.placeholders import BLANK, tokens
from onceward.stores.queries import Engine

#: First words of statements that begin, end or leave a transaction.
_CONTROL: Final = frozenset(
    {"abort", "attach", "begin", "commit", "detach", "end", "release", "rollback", "savepoint"}
    | {"start", "vacuum"}
)
#: Pragmas that take an argument and change nothing beyond the transaction.
_PRAGMAS: Final = frozenset(
    {"application_id", "defer_foreign_keys", "foreign_key_check", "foreign_key_list"}
    | {"index_info", "index_list", "index_xinfo", "integrity_check", "quick_check"}
    | {"table_info", "table_list", "table_xinfo", "user_version"}
)
_PRAGMA: Final = re.compile(r"(?:\w+\s*\.\s*)?(\w+)\s*[(=]")
#: SQLite changes some settings when it only compiles a pragma.
_EXPLAIN: Final = re.compile(r"^explain\s+(?:query\s+plan\s+)?", re.IGNORECASE)
#: Both engines store integers of 64 bits.
_INTEGER_MIN: Final = -(2**63)
_INTEGER_MAX: Final = 2**63 - 1
#: Most parameters come in these; whether others are a mapping is slow to ask.
_SEQUENCES: Final = (list, tuple)


@lru_cache(maxsize=1024)
def check_statement(sql: str, engine: Engine) -> None:
    """Refuse several statements, and one that would end the transaction or outlive it."""
    words: list[str] = []
    body = ""
    is_over = has_more = False
    for kind, text in tokens(sql, engine):
        if kind == "semicolon":
            is_over = bool(body)
        elif kind != "comment" and text.strip(BLANK):
            has_more |= is_over
            body += text
            if kind == "word":
                words.append(text.strip(BLANK).lower())
        else:
            body += " " if body else ""
    first = words[0] if words else ""
    if first in _CONTROL or words[:2] == ["prepare", "transaction"]:
        message = f"{first} belongs to the transaction itself"
        raise SqlFailed(message, fix="leave the `with` block to commit, raise to roll back")
    # SQLite tells by itself, and only SQLite knows where a trigger ends.
    if has_more and engine == "postgres":
        raise several_statements()
    if engine == "sqlite":
        _check_pragma(_EXPLAIN.sub("", body.lstrip(BLANK)))


def several_statements() -> SqlFailed:
    """Return the error for a text that holds more than one statement."""
    message = "one call runs one statement"
    fix = "call execute once for each statement; quote a function's body with $$ on PostgreSQL"
    return SqlFailed(message, fix=fix)


def _check_pragma(body: str) -> None:
    setting = body[len("pragma") :].strip()
    if not body.lower().startswith("pragma") or not {"=", "("}.intersection(setting):
        return
    found = _PRAGMA.match(setting)
    if found is None or found[1].lower() not in _PRAGMAS:
        message = f"pragma {setting[:60]} changes the shared connection, not only this transaction"
        raise SqlFailed(message, fix="use a connection of your own for it")


def bound(params: Params) -> dict[str, Any] | tuple[Any, ...]:
    """Return the parameters for a driver; the same integers are taken on both engines."""
    values: dict[str, Any] | tuple[Any, ...]
    if type(params) not in _SEQUENCES and isinstance(params, Mapping):
        values = dict(params)
    else:
        values = tuple(params)
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, int) and not _INTEGER_MIN <= value <= _INTEGER_MAX:
            message = f"the integer {value} does not fit into 64 bits"
            raise SqlFailed(message, fix="store it as text")
    return values
