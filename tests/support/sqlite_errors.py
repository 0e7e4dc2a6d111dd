"""SQLite errors: exceptions as `sqlite3` raises them, for tests in which SQLite fails."""

from __future__ import annotations

import sqlite3


def sqlite_error(code: int, message: str) -> sqlite3.OperationalError:
    """Return an error with this result code."""
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    return error
