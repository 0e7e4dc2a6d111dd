"""`onceward up`: serve everything that Onceward has to show on this machine."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.apps import load_app
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
    from collections.abc import Iterator

    from starlette.applications import Starlette

    from onceward.demo import DemoWorld
    from onceward.workers import App

_Workspace = Annotated[
    list[Path] | None,
    typer.Option(
        "--workspace",
        help="Show the runs of this directory, too. Repeatable. Those begun here are known.",
    ),
]
_Apps = Annotated[
    list[str] | None,
    typer.Option(
        "--app",
        help="Count with the sources of this app, `module:name`, what a seek repeats. Repeatable.",
    ),
]
_ReadOnly = Annotated[
    bool, typer.Option("--read-only", help="Show everything in the console, and change nothing.")
]
_Demo = Annotated[
    bool,
    typer.Option("--demo", help="Show a living story in a temporary home: crashes, take-overs."),
]


def up(
    *,
    host: Host = "127.0.0.1",
    port: Port = None,
    allow_external: AllowExternal = False,
    allow_host: AllowHost = None,
    allow_root: AllowRoot = None,
    open_page: OpenPage = None,
    store: StoreUrl = None,
    workspace: _Workspace = None,
    target: _Apps = None,
    read_only: _ReadOnly = False,
    demo: _Demo = False,
    config: ConfigFile = None,
    json_output: ServerJson = False,
) -> None:
    """Serve the console until Ctrl-C: cursors, workers, runs, keys, memory, Lab, conversations.

    Agents of the store's groups are run by one process: by this one, unless another does.

    Example: `onceward up --demo`
    """
    from onceward.workers.alert_rules import read_rules
    from onceward.workers.watching import opening, watching

    place = check_place(host, port, allow_host, external=allow_external)
    roots = allowed_roots(allow_root)
    apps = tuple(load_app(each) for each in target or ())
    rules = read_rules(config)
    with (
        until_stopped(),
        _story(store) if demo else contextlib.nullcontext() as world,
        opening(world.store_url if world else store) as opened,
        watching(opened, rules) as metrics,
        listen(place) as listener,
    ):
        lab = open_lab(world.lab_roots if world else roots)
        token = lab.session.token
        announcement = Announcement(
            place=place,
            token=token,
            session_id=lab.session.session_id,
            sentence=f"Onceward {__version__} is at {{url}} - Ctrl-C stops it",
            open_page=open_page,
            json_output=json_output,
        )
        with conversing(opened, token) as chats:

            def build() -> Starlette:
                from onceward.console.app import build_app
                from onceward.console.house import House
                from onceward.console.workspaces import Workspaces
                from onceward.cursors.cursors import operator

                house = House(
                    ow=opened,
                    store_url=opened.store.url,
                    version=__version__,
                    actor=operator(),
                    token=token,
                    lab=lab,
                    chats=chats,
                    apps=_apps(apps, world),
                    rules=tuple(rules),
                    workspaces=Workspaces(
                        [*(workspace or ()), *(world.workspaces if world else ())]
                    ),
                    is_read_only=read_only,
                    external=allow_external,
                )
                return build_app(
                    metrics=metrics, lab=lab, dispatch=chats, external=allow_external, house=house
                )

            serve(place, listener, token, build, announce=announcement)


@contextlib.contextmanager
def _story(store: str | None) -> Iterator[DemoWorld]:
    """Let the demo live in a home of its own, which is gone at the end."""
    from onceward.demo import living

    with tempfile.TemporaryDirectory(prefix="onceward-demo-") as directory:
        home = Path(directory)
        with living(home, store or f"sqlite:///{home}/onceward.db") as world:
            yield world


def _apps(apps: tuple[App, ...], world: DemoWorld | None) -> tuple[App, ...]:
    return (*apps, *(world.apps if world else ()))
