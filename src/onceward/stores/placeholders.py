"""Placeholders: translate `?` and `:name` to the placeholders of each driver.

Tokenizes SQL, so that question marks, colons and percent signs inside strings, comments, casts and
operators are left alone. `??` is a literal `?`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from onceward.stores.queries import Engine

#: Both engines read any character beyond ASCII as part of a name.
_NAME_START: Final = r"[A-Za-z_\u0080-\U0010ffff]"
_NAME: Final = rf"{_NAME_START}[A-Za-z0-9_$\u0080-\U0010ffff]*"
_ESCAPED: Final = r"'(?:[^'\\]|\\.|'')*'"
_TOKEN: Final = rf"""
      (?P<comment> --[^LINE_ENDS]* | /\*)         # `tokens` finds the end of a block comment
    | (?P<kept> [eE]{_ESCAPED}                    # a string with backslash escapes, and more of it
                (?: (?: \s | --[^\r\n]* )* {_ESCAPED} )*
              | '(?:[^']|'')*'                    # a string
              | "(?:[^"]|"")*"                    # a quoted name
              | (?P<dollar>\$(?:{_NAME_START}(?:{_NAME_START}|[0-9])*)?\$) .*? (?P=dollar)
              | ::                                # a cast
              | @\? | \?\|(?!\|) | \?&            # jsonb operators
      )
    | (?P<word> {_NAME})
    | (?P<semicolon> ;)
    | (?P<escaped> \?\?)
    | (?P<mark> \?)
    | (?P<name> :[A-Za-z_]\w*)
    """
#: A line comment ends at a carriage return on PostgreSQL, but not on SQLite.
_TOKENS: Final = {
    engine: re.compile(_TOKEN.replace("LINE_ENDS", ends), re.VERBOSE | re.DOTALL)
    for engine, ends in (("sqlite", r"\n"), ("postgres", r"\r\n"))
}
#: A byte order mark is white space to SQLite.
BLANK: Final = " \t\n\r\f\v\ufeff"
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")


def tokens(sql: str, engine: Engine) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) for each token; kinds are the groups above, "" is any other text."""
    place = 0
    while (found := _TOKENS[engine].search(sql, place)) is not None:
        if found.start() > place:
            yield "", sql[place : found.start()]
        place = found.end()
        if found[0] == "/*":
            place = _comment_end(sql, place, is_nested=engine == "postgres")
        yield found.lastgroup or "", sql[found.start() : place]
    if place < len(sql):
        yield "", sql[place:]


def _comment_end(sql: str, place: int, *, is_nested: bool) -> int:
    """Return where a block comment ends; on PostgreSQL comments contain comments."""
    depth = 1
    for edge in _COMMENT_EDGE.finditer(sql, place):
        if edge[0] == "*/":
            depth -= 1
        elif is_nested:
            depth += 1
        if depth == 0:
            return edge.end()
    return len(sql)


@lru_cache(maxsize=1024)
def for_psycopg(sql: str) -> str:
    """Return the statement with `%s` for `?` and `%(name)s` for `:name`."""
    return "".join(_psycopg_token(kind, text) for kind, text in tokens(sql, "postgres"))


def _psycopg_token(kind: str, text: str) -> str:
    if kind == "escaped":
        return "?"
    if kind == "mark":
        return "%s"
    return f"%({text[1:]})s" if kind == "name" else text.replace("%", "%%")


@lru_cache(maxsize=1024)
def for_sqlite(sql: str) -> str:
    """Return the statement for SQLite, which has both placeholders; only `??` changes.

    Leading and trailing comments and semicolons are removed: not every driver ignores them.
    """
    found = list(tokens(sql, "sqlite"))
    while found and _is_empty(*found[-1]):
        found.pop()
    while found and _is_empty(*found[0]):
        found.pop(0)
    return "".join("?" if kind == "escaped" else text for kind, text in found)


def _is_empty(kind: str, text: str) -> bool:
    return kind in ("comment", "semicolon") or not text.strip(BLANK)
