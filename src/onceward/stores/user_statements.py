"""User statements: validate the SQL and the parameters that a user runs inside a transaction.

One call runs one statement, and only leaving its block ends the transaction. The text of each
statement is checked once, by the same rules on both engines.
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

#: First keywords of statements that begin, end or leave a transaction.
_CONTROL: Final = frozenset(
    {"abort", "attach", "begin", "commit", "detach", "end", "release", "rollback", "savepoint"}
    | {"start", "vacuum"}
)
#: Those of them that do not begin or end a transaction, but cannot run inside one.
_OUTSIDE: Final = frozenset({"attach", "detach", "vacuum"})
#: Pragmas with an argument that change nothing outside the transaction.
_PRAGMAS: Final = frozenset(
    {"application_id", "defer_foreign_keys", "foreign_key_check", "foreign_key_list"}
    | {"index_info", "index_list", "index_xinfo", "integrity_check", "quick_check"}
    | {"table_info", "table_list", "table_xinfo", "user_version"}
)
_PRAGMA: Final = re.compile(r"(?:\w+\s*\.\s*)?(\w+)\s*[(=]")
#: SQLite applies some pragmas when it only compiles them, so EXPLAIN is stripped.
_EXPLAIN: Final = re.compile(r"^explain\s+(?:query\s+plan\s+)?", re.IGNORECASE)
#: Both engines store integers of 64 bits.
_INTEGER_MIN: Final = -(2**63)
_INTEGER_MAX: Final = 2**63 - 1
#: The usual types of parameters; `isinstance(…, Mapping)` is slow.
_SEQUENCES: Final = (list, tuple)


@lru_cache(maxsize=1024)
def check_statement(sql: str, engine: Engine) -> None:
    """Raise SqlFailed for several statements, and for one that ends or outlives the transaction."""
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
        message = f"{first} is not allowed inside this transaction; it was not run"
        fix = "leave the `with` block to commit, raise to roll back"
        if first in _OUTSIDE:
            fix = f"run {first} on a connection of your own, outside of transactions"
        raise SqlFailed(message, fix=fix)
    # SQLite reports this itself, and only its parser knows where a trigger ends.
    if has_more and engine == "postgres":
        raise several_statements()
    if engine == "sqlite":
        _check_pragma(_EXPLAIN.sub("", body.lstrip(BLANK)))


def several_statements() -> SqlFailed:
    """Return the error for a text with more than one statement."""
    message = "the text has more than one statement, and one call runs one; none was run"
    fix = "call execute once for each statement; quote a function's body with $$ on PostgreSQL"
    return SqlFailed(message, fix=fix)


def _check_pragma(body: str) -> None:
    setting = body[len("pragma") :].strip()
    if not body.lower().startswith("pragma") or not {"=", "("}.intersection(setting):
        return
    found = _PRAGMA.match(setting)
    if found is None or found[1].lower() not in _PRAGMAS:
        message = (
            f"pragma {setting[:60]} changes the shared connection, not only this transaction; "
            "it was not run"
        )
        raise SqlFailed(message, fix="run it on a connection of your own")


def bound(params: Params) -> dict[str, Any] | tuple[Any, ...]:
    """Return the parameters for a driver; both engines accept integers of 64 bits."""
    values: dict[str, Any] | tuple[Any, ...]
    if type(params) not in _SEQUENCES and isinstance(params, Mapping):
        values = dict(params)
    else:
        values = tuple(params)
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, int) and not _INTEGER_MIN <= value <= _INTEGER_MAX:
            bits = value.bit_length()
            # Python writes no integer of more than 4,300 digits.
            shown = f"the integer {value}" if bits <= 200 else f"an integer of {bits} bits"
            message = f"{shown} does not fit into 64 bits"
            raise SqlFailed(message, fix="store it as text")
    return values
