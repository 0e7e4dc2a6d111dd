"""Store URLs: resolve a URL or the environment to a store, and open it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from onceward.errors import InvalidArgument
from onceward.stores.base import Store
from onceward.system import Clock

#: Environment variable with the URL of the store, used when no URL is given.
STORE_VARIABLE: Final = "ONCEWARD_STORE"
#: Environment variable with the directory of Onceward's own state.
HOME_VARIABLE: Final = "ONCEWARD_HOME"


def home() -> Path:
    """Return the directory that holds Onceward's own state."""
    return Path(os.environ.get(HOME_VARIABLE) or Path.home() / ".onceward")


def open_store(
    url: str | None = None, *, clock: Clock | None = None, strict: bool = False
) -> Store:
    """Open the store at `sqlite:///path` or `postgresql://…`; its driver is imported on demand."""
    wanted = url or os.environ.get(STORE_VARIABLE) or f"sqlite:///{home() / 'onceward.db'}"
    scheme, _, rest = wanted.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from onceward.stores.sqlite.store import SqliteStore  # noqa: PLC0415 - see above

        # As in SQLAlchemy: three slashes and a relative path, four and an absolute one.
        return SqliteStore(Path(rest[1:]).expanduser(), clock=clock, strict=strict)
    if scheme in ("postgresql", "postgres"):
        return _postgres(wanted)
    # The rest of the URL may contain a password.
    message = f"url: must begin with sqlite:/// or postgresql://, not with {scheme[:20]!r}"
    raise InvalidArgument(message, fix="pass sqlite:///work.db or postgresql://…", field="url")


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
