"""Placeholders: SQL written once, with `?` or `:name`, for drivers that want something else.

Reads SQL as tokens, so that question marks, colons and percent signs inside strings, comments,
casts and operators stay what they are. `??` is a literal `?`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_TOKEN: Final = re.compile(
    r"""
      (?P<kept> [eE]'(?:[^'\\]|\\.|'')*'          # a string with backslash escapes
              | '(?:[^']|'')*'                    # a string
              | "(?:[^"]|"")*"                    # a quoted name
              | (?P<dollar>\$(?:[A-Za-z_]\w*)?\$) .*? (?P=dollar)
              | --[^\n]*
              | /\*.*?\*/
              | ::                                # a cast
              | @\? | \?\|(?!\|) | \?&            # jsonb operators
      )
    | (?P<escaped> \?\?)
    | (?P<mark> \?)
    | :(?P<name> [A-Za-z_]\w*)
    | (?P<percent> %)
    """,
    re.VERBOSE | re.DOTALL,
)


@lru_cache(maxsize=1024)
def for_psycopg(sql: str) -> str:
    """Return the statement with `%s` for `?` and `%(name)s` for `:name`."""
    return _TOKEN.sub(_psycopg_token, sql)


def _psycopg_token(found: re.Match[str]) -> str:
    if found["kept"]:
        return found["kept"].replace("%", "%%")
    if found["escaped"]:
        return "?"
    if found["mark"]:
        return "%s"
    return f"%({found['name']})s" if found["name"] else "%%"


@lru_cache(maxsize=1024)
def for_sqlite(sql: str) -> str:
    """Return the statement for SQLite, which knows both forms; only `??` changes."""
    return _TOKEN.sub(lambda found: "?" if found["escaped"] else found[0], sql)
