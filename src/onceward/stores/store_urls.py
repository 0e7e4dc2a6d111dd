"""Store URLs: resolve a URL or the environment to a store, and open it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from onceward.errors import InvalidArgument
from onceward.stores.base import Store
from onceward.system import Clock

#: Environment variable with the URL of the store, used when no URL is given.
STORE_VARIABLE: Final = "ONCEWARD_STORE"
#: Environment variable with the directory of Onceward's own state.
HOME_VARIABLE: Final = "ONCEWARD_HOME"
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{0,19}", re.IGNORECASE)
_URL_FIX: Final = (
    "correct it where it was given, in the call, --store or $ONCEWARD_STORE: sqlite:///work.db "
    "(three slashes, four for an absolute path) or postgresql://…"
)


def home() -> Path:
    """Return the directory that holds Onceward's own state."""
    return Path(os.environ.get(HOME_VARIABLE) or Path.home() / ".onceward")


def open_store(
    url: str | None = None, *, clock: Clock | None = None, strict: bool = False
) -> Store:
    """Open the store at `sqlite:///path` or `postgresql://…`; its driver is imported on demand."""
    wanted = url or os.environ.get(STORE_VARIABLE) or f"sqlite:///{home() / 'onceward.db'}"
    scheme, mark, rest = wanted.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from onceward.stores.sqlite.store import SqliteStore  # noqa: PLC0415 - see above

        # As in SQLAlchemy: three slashes and a relative path, four and an absolute one.
        return SqliteStore(Path(rest[1:]).expanduser(), clock=clock, strict=strict)
    if scheme in ("postgresql", "postgres"):
        return _postgres(wanted)
    # Everything else in it may be a password.
    found = ""
    if scheme == "sqlite" and mark:
        found = ": sqlite needs a path after three slashes"
    elif mark and _SCHEME.fullmatch(scheme):
        found = f": its scheme is {scheme!r}"
    message = f"url: is not a store URL{found}; it must be sqlite:///PATH or postgresql://…"
    raise InvalidArgument(message, fix=_URL_FIX, field="url")


def _postgres(url: str) -> Store:
    """Return a PostgreSQL store; its driver is an optional dependency."""
    try:
        from onceward.stores.postgres.store import PostgresStore  # noqa: PLC0415 - see above
    except ImportError as exc:
        if (exc.name or "").partition(".")[0] == "onceward":
            raise
        message = f"url: the driver for postgresql:// does not load: {exc}"
        fix = "pip install 'onceward[postgres]', or choose sqlite:///…"
        raise InvalidArgument(message, fix=fix, field="url") from exc
    return PostgresStore(url)
