"""Connection URL: parse the URL of a PostgreSQL store; errors repeat none of its secrets."""

from __future__ import annotations

import re
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from onceward.errors import InvalidArgument

#: The part of an error of libpq before it quotes anything, in any language.
_UNQUOTED: Final = re.compile(r"[\w -]*")
_FIX: Final = (
    "pass postgresql://user:password@host:5432/name?option=value, with libpq's options; "
    "percent-encode special characters of the user and the password"
)


def parse_url(url: str) -> dict[str, Any]:
    """Return the options of a URL; raise InvalidArgument if it is not valid."""
    try:
        return conninfo_to_dict(url)
    except psycopg.ProgrammingError as exc:
        # Libpq quotes what it cannot read, which may be a password, unless it is an option's name.
        said = str(exc)
        unquoted = _UNQUOTED.match(said)
        problem = unquoted[0].strip() if unquoted else ""
        name = next((each for each in _option_names(url) if f'"{each}"' in said), None)
        shown = f"{problem}…" if name is None else f"{problem}: {name!r:.60}"
        message = f"url: is not a valid PostgreSQL URL: {shown}"
        # Without its cause, which quotes the same.
        raise InvalidArgument(message, fix=_FIX, field="url") from None


def _option_names(url: str) -> list[str]:
    """Return the names of the options after the last `@`, so that none is a part of a password."""
    options = url.rpartition("@")[2].partition("?")[2]
    return [each.partition("=")[0] for each in options.split("&") if "=" in each]
