"""The `--store` option, and opening the store that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from onceward.client import Onceward

StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="Store URL: `sqlite:///path` or `postgresql://…`. Default: `$ONCEWARD_STORE`, else "
        "`onceward.db` in `$ONCEWARD_HOME` (`~/.onceward`).",
    ),
]


def open_named_store(url: str | None) -> Onceward:
    """Open the store that `--store` names, or the default one; imports the library only then."""
    from onceward.client import open as open_handle

    return open_handle(url)
