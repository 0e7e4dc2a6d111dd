"""`onceward dispatch serve`: deliver messages to agents, and serve their conversations."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import sys
import threading
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.http_server import Announcement
from onceward.cli.http_server import serve as serve_app
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
from onceward.cli.stop_signals import until_stopped
from onceward.cli.store_option import StoreUrl
from onceward.errors import OncewardError
from onceward.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.applications import Starlette

    from onceward.client import Onceward
    from onceward.dispatch.conversations import Chats
    from onceward.dispatch.dispatcher import Dispatcher
    from onceward.stores import Store
    from onceward.workers.store_monitor import LazyStore

log = logging.getLogger("onceward.dispatch")
#: Agents are ended and their deliveries recorded; the next start handles what takes longer.
STOP_SECONDS: Final = 0.8
#: How long a start waits for a store before the page is served without it.
_OPEN_SECONDS: Final = 0.5
_AGAIN_SECONDS: Final = 1.0

_Agents = Annotated[
    int,
    typer.Option("--agents", min=1, max=1000, help="Maximum number of agents at the same time."),
]
_Poll = Annotated[
    float,
    typer.Option(
        "--poll",
        min=0.01,
        max=60,
        help="Seconds between polls for messages that other processes have stored.",
    ),
]
_Verbose = Annotated[
    bool, typer.Option("--verbose", help="Log everything to stderr. Default: warnings and errors.")
]


def serve(
    store: StoreUrl = None,
    agents: _Agents = 5,
    poll: _Poll = 0.25,
    host: Host = "127.0.0.1",
    port: Port = None,
    allow_external: AllowExternal = False,
    allow_host: AllowHost = None,
    require_token: RequireToken = False,
    public_url: PublicUrl = None,
    trusted_proxy: TrustedProxy = None,
    open_page: OpenPage = None,
    json_output: ServerJson = False,
    verbose: _Verbose = False,
) -> None:
    """Run the agents of all groups, and serve the pages of their conversations, until Ctrl-C.

    One process runs the agents of a store. Another one serves the same pages, and takes over when
    the first ends. Agents work and log in directories below `$ONCEWARD_HOME/dispatch`. A stop ends
    the agents; unanswered messages are delivered again by the next dispatcher.

    Example: `onceward dispatch serve --agents 2 --port 0 --no-open`
    """
    from onceward.client import open as open_handle
    from onceward.http.token_file import open_token
    from onceward.system import Ids

    address = check_listen_address(
        host,
        port,
        allow_host,
        external=allow_external,
        require_token=require_token,
        public_url=public_url,
        trusted_proxy=trusted_proxy,
    )
    _set_up_log(is_verbose=verbose)
    token = open_token()
    announcement = Announcement(
        address=address,
        token=token,
        session_id=Ids().new("chat"),
        sentence=f"Onceward {__version__}: conversations are at {{url}} - Ctrl-C stops it",
        page="/chat",
        open_page=open_page,
        json_output=json_output,
    )
    with (
        until_stopped(),
        listen(address) as listener,
        contextlib.closing(open_handle(store)) as ow,
        _dispatching(ow, agents, poll) as dispatcher,
    ):
        if not json_output:
            print(f"agents work and log below {home_of(ow.store)}", file=sys.stderr, flush=True)

        def build() -> Starlette:
            from onceward.console.app import build_app
            from onceward.dispatch.conversations import Chats

            return build_app(dispatch=Chats(ow, dispatcher))

        serve_app(address, listener, token, build, announce=announcement)


@contextlib.contextmanager
def _dispatching(ow: Onceward, agents: int, poll: float) -> Iterator[Dispatcher]:
    from onceward.dispatch.dispatcher import Dispatcher

    dispatcher = Dispatcher(ow, home=home_of(ow.store), agents_max=agents, poll_seconds=poll)
    dispatcher.start()
    try:
        yield dispatcher
    finally:
        dispatcher.stop(seconds=STOP_SECONDS)


@contextlib.contextmanager
def conversing(opened: LazyStore, *, may_run: bool = True) -> Iterator[Chats]:
    """Run a store's agents next to another server, or only show their conversations.

    A store that cannot be reached is retried in the background.
    """
    from onceward.client import Onceward
    from onceward.dispatch.conversations import Chats
    from onceward.dispatch.dispatcher import Dispatcher

    ow = Onceward(opened.store)
    dispatcher = Dispatcher(ow, home=home_of(ow.store))
    stopping = threading.Event()
    starting = threading.Thread(
        target=_start, args=(opened, dispatcher, stopping), name="onceward-chats", daemon=True
    )
    if may_run:
        starting.start()
        starting.join(_OPEN_SECONDS)
    try:
        yield Chats(ow, dispatcher)
    finally:
        stopping.set()
        opened.stop_waiting()
        dispatcher.stop(seconds=STOP_SECONDS)


def _start(opened: LazyStore, dispatcher: Dispatcher, stopping: threading.Event) -> None:
    """Open the store, retrying until that succeeds, and start the dispatcher."""
    while not stopping.is_set():
        try:
            opened()
        except OncewardError as exc:
            log.info("no conversations: %s", exc.message, extra={"event": "dispatch.trouble"})
            stopping.wait(_AGAIN_SECONDS)
        except Exception:  # the store was closed while it was waited for
            if not stopping.is_set():
                raise
        else:
            dispatcher.start()
            return


def home_of(store: Store) -> Path:
    """Return the directory where the agents of a store work and log; one per store."""
    from onceward.stores.store_urls import home

    return home() / "dispatch" / hashlib.sha256(store.url.encode()).hexdigest()[:12]


def _set_up_log(*, is_verbose: bool) -> None:
    from onceward.system.logs import set_up

    set_up(as_json=not sys.stderr.isatty(), is_verbose=is_verbose)
    if not is_verbose:
        logging.getLogger("onceward").setLevel(logging.WARNING)
