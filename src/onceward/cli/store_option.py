"""The `--store` option, and opening the store that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from onceward.client import Onceward

_DEFAULT: Final = (
    "Default: `$ONCEWARD_STORE`, else `onceward.db` in `$ONCEWARD_HOME` (`~/.onceward`)."
)
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="Store URL: `sqlite:///path` or `postgresql://…`. A missing directory, file or "
        f"table is created. {_DEFAULT}",
    ),
]
#: Of commands that only read, also where there is no store.
ExistingStoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        help=f"Store URL: `sqlite:///path` or `postgresql://…`; nothing is created. {_DEFAULT}",
    ),
]


def open_named_store(url: str | None) -> Onceward:
    """Open the store that `--store` names, or the default one; imports the library only then."""
    from onceward.client import open as open_handle

    return open_handle(url)
