"""`onceward up`: serve everything that Onceward has to show on this machine."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from onceward.cli.db import StoreUrl
from onceward.cli.dispatch_serve import conversing
from onceward.cli.lab import AllowRoot, allowed_roots, open_lab
from onceward.cli.output import ConfigFile
from onceward.cli.serving import (
    AllowExternal,
    AllowHost,
    Announcement,
    Host,
    OpenPage,
    Port,
    ServerJson,
    check_place,
    listen,
    serve,
    until_stopped,
)
from onceward.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.applications import Starlette


def up(
    *,
    host: Host = "127.0.0.1",
    port: Port = None,
    allow_external: AllowExternal = False,
    allow_host: AllowHost = None,
    allow_root: AllowRoot = None,
    open_page: OpenPage = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
    json_output: ServerJson = False,
) -> None:
    """Serve the console and the Lab until Ctrl-C; of a store conversations, metrics and alerts.

    Agents of the store's groups are run by one process: by this one, unless another does.

    Example: `onceward up --port 0 --no-open`
    """
    place = check_place(host, port, allow_host, external=allow_external)
    roots = allowed_roots(allow_root)
    with (
        until_stopped(),
        _watching(store, config) as metrics,
        listen(place) as listener,
    ):
        lab = open_lab(roots)
        token = lab.session.token
        announcement = Announcement(
            place=place,
            token=token,
            session_id=lab.session.session_id,
            sentence=f"Onceward {__version__} is at {{url}} - Ctrl-C stops it",
            open_page=open_page,
            json_output=json_output,
        )

        with conversing(store, token) as chats:

            def build() -> Starlette:
                from onceward.console import build_app

                return build_app(metrics=metrics, lab=lab, dispatch=chats, external=allow_external)

            serve(place, listener, token, build, announce=announcement)


@contextlib.contextmanager
def _watching(store: str | None, config: str | None) -> Iterator[Callable[[], bytes]]:
    """Evaluate the alerts of a store while the server runs; gives what makes its metrics."""
    from onceward.workers.alert_rules import read_rules
    from onceward.workers.watching import watching

    with watching(store, read_rules(config)) as metrics:
        yield metrics
