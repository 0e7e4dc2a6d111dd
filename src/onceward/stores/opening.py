"""Opening: from a URL to a store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from onceward.errors import InvalidArgument
from onceward.seams import Clock
from onceward.stores.base import Store

#: Names the store when no URL is given.
STORE_VARIABLE: Final = "ONCEWARD_STORE"
#: The directory that holds Onceward's own state.
HOME_VARIABLE: Final = "ONCEWARD_HOME"


def home() -> Path:
    """Return the directory that holds Onceward's own state."""
    return Path(os.environ.get(HOME_VARIABLE) or Path.home() / ".onceward")


def open_store(
    url: str | None = None, *, clock: Clock | None = None, strict: bool = False
) -> Store:
    """Return the store behind `sqlite:///path` or `postgresql://…`; drivers load when needed."""
    wanted = url or os.environ.get(STORE_VARIABLE) or f"sqlite:///{home() / 'onceward.db'}"
    scheme, _, rest = wanted.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from onceward.stores.sqlite.store import SqliteStore  # noqa: PLC0415 - see above

        # As everywhere: three slashes and a relative path, four and an absolute one.
        return SqliteStore(Path(rest[1:]).expanduser(), clock=clock, strict=strict)
    if scheme in ("postgresql", "postgres"):
        return _postgres(wanted)
    # The rest of it may hold a password.
    message = f"url: a store begins with sqlite:/// or postgresql://, not with {scheme[:20]!r}"
    raise InvalidArgument(message, fix="pass sqlite:///work.db or postgresql://…", field="url")


def _postgres(url: str) -> Store:
    """Return a store of an engine whose driver not everybody installs."""
    try:
        from onceward.stores.postgres.store import PostgresStore  # noqa: PLC0415 - see above
    except ImportError as exc:
        if (exc.name or "").partition(".")[0] == "onceward":
            raise
        message = f"url: the driver for postgresql:// does not load: {exc}"
        fix = "pip install 'onceward[postgres]', or choose sqlite:///…"
        raise InvalidArgument(message, fix=fix, field="url") from exc
    return PostgresStore(url)
