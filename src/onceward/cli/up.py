"""`onceward up`: serve the console, the Lab and the conversations of a store."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.app_loading import load_app
from onceward.cli.dispatch_serve import conversing
from onceward.cli.http_server import Announcement, serve
from onceward.cli.lab_server import AllowRoot, allowed_roots, open_lab
from onceward.cli.listen_address import (
    AllowExternal,
    AllowHost,
    Host,
    OpenPage,
    Port,
    PublicUrl,
    RequireToken,
    ServerJson,
    TrustedProxy,
    check_listen_address,
    listen,
)
from onceward.cli.output import ConfigFile
from onceward.cli.stop_signals import until_stopped
from onceward.cli.store_option import StoreUrl
from onceward.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from starlette.applications import Starlette

    from onceward.demo import DemoWorld
    from onceward.lab.lab import Lab
    from onceward.workers import App

_Workspace = Annotated[
    list[Path] | None,
    typer.Option(
        "--workspace",
        help="Show the runs of this workspace, besides those in which you have started runs. "
        "Repeatable.",
    ),
]
_Apps = Annotated[
    list[str] | None,
    typer.Option(
        "--app",
        help="Import this app, as `module:name`, to count the messages that a seek repeats or "
        "skips; its consumers are not run. Repeatable.",
    ),
]
_ReadOnly = Annotated[
    bool,
    typer.Option(
        "--read-only",
        help="Reject every change, run no agents, alerts or pruning, and do not create the store.",
    ),
]
_Demo = Annotated[
    bool,
    typer.Option(
        "--demo",
        help="Run a demo in a temporary directory: workers crash on purpose, others take over. "
        "Only with a database without Onceward's tables. Default of --store: a temporary file.",
    ),
]


def up(
    *,
    host: Host = "127.0.0.1",
    port: Port = None,
    allow_external: AllowExternal = False,
    allow_host: AllowHost = None,
    require_token: RequireToken = False,
    public_url: PublicUrl = None,
    trusted_proxy: TrustedProxy = None,
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

    It also runs the agents of the store's chat groups, evaluates alert rules and prunes old
    history, except with --read-only. While another process runs the agents, this one waits to take
    over. Except for the workers of --demo, it runs no consumers: `onceward worker` does. Exit 0
    after Ctrl-C.

    Example: `onceward up --demo`
    """
    from onceward.http.token_file import open_token

    address = check_listen_address(
        host,
        port,
        allow_host,
        external=allow_external,
        require_token=require_token,
        public_url=public_url,
        trusted_proxy=trusted_proxy,
    )
    roots = allowed_roots(allow_root)
    apps = tuple(load_app(each) for each in target or ())
    with until_stopped(), _run_demo(store) if demo else contextlib.nullcontext() as world:
        if world is not None:
            store, roots = world.store_url, world.lab_roots
            apps, workspace = (*apps, *world.apps), [*(workspace or ()), *world.workspaces]
        wanted = _ConsoleOptions(
            apps=apps,
            workspaces=tuple(workspace or ()),
            is_read_only=read_only,
        )
        with _built(store, config, roots, wanted) as (lab, build), listen(address) as listener:
            token = open_token()
            announcement = Announcement(
                address=address,
                token=token,
                session_id=lab.session.session_id,
                sentence=f"Onceward {__version__} is at {{url}} - Ctrl-C stops it",
                open_page=open_page,
                json_output=json_output,
            )
            serve(address, listener, token, build, announce=announcement)


@dataclass(frozen=True, kw_only=True, slots=True)
class _ConsoleOptions:
    """The options of the console: what it shows, and whether it may change that."""

    apps: tuple[App, ...]
    workspaces: tuple[Path, ...]
    is_read_only: bool


@contextlib.contextmanager
def _built(
    store: str | None, config: str | None, roots: Sequence[Path], wanted: _ConsoleOptions
) -> Iterator[tuple[Lab, Callable[[], Starlette]]]:
    """Monitor a store and run its agents; yields the Lab and the application's builder."""
    from onceward.workers.alert_rules import read_rules
    from onceward.workers.retention import read_retention
    from onceward.workers.store_monitor import monitoring, opened_lazily

    rules, retention = tuple(read_rules(config)), read_retention(config)
    may_change = not wanted.is_read_only
    lab = open_lab(roots)  # First, because without a usable directory nothing else may start.
    with (
        opened_lazily(store, may_change=may_change) as opened,
        monitoring(opened, rules if may_change else None, retention) as metrics,
        conversing(opened, may_run=may_change) as chats,
    ):

        def build() -> Starlette:
            from onceward.console.app import build_app
            from onceward.console.context import ConsoleContext
            from onceward.console.workspaces import Workspaces
            from onceward.cursors.cursors import current_operator

            context = ConsoleContext(
                ow=opened,
                store_url=opened.store.url,
                version=__version__,
                actor=current_operator(),
                lab=lab,
                chats=chats,
                apps=wanted.apps,
                rules=rules,
                workspaces=Workspaces(list(wanted.workspaces)),
                is_read_only=wanted.is_read_only,
            )
            return build_app(metrics=metrics, lab=lab, dispatch=chats, context=context)

        yield lab, build


@contextlib.contextmanager
def _run_demo(store: str | None) -> Iterator[DemoWorld]:
    """Run the demo in a temporary directory."""
    from onceward.demo import endless_demo_running

    with tempfile.TemporaryDirectory(
        prefix="onceward-demo-", ignore_cleanup_errors=True
    ) as directory:
        home = Path(directory)
        with endless_demo_running(home, store or f"sqlite:///{home}/onceward.db") as world:
            yield world
