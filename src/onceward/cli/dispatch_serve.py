"""`onceward dispatch serve`: hand messages to agents, and serve their conversations."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import sys
import threading
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.db import StoreUrl
from onceward.cli.places import (
    AllowExternal,
    AllowHost,
    Host,
    OpenPage,
    Port,
    PublicUrl,
    RequireToken,
    ServerJson,
    TrustedProxy,
    check_place,
    listen,
)
from onceward.cli.serving import Announcement
from onceward.cli.serving import serve as serve_app
from onceward.cli.stopping import until_stopped
from onceward.errors import OncewardError
from onceward.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.applications import Starlette

    from onceward.dispatch.chats import Chats
    from onceward.dispatch.dispatcher import Dispatcher
    from onceward.handle import Onceward
    from onceward.stores import Store
    from onceward.workers.watching import Opened

log = logging.getLogger("onceward.dispatch")
#: Agents are ended at once, and the store is told; what takes longer is found at the next start.
STOP_SECONDS: Final = 0.8
#: How long a start waits for a store before the page is served without it.
_OPEN_SECONDS: Final = 0.5
_AGAIN_SECONDS: Final = 1.0

_Agents = Annotated[
    int, typer.Option("--agents", min=1, max=1000, help="So many agents at the same time.")
]
_Poll = Annotated[
    float,
    typer.Option(
        "--poll",
        min=0.01,
        max=60,
        help="Seconds after which messages of other processes are noticed.",
    ),
]
_Verbose = Annotated[bool, typer.Option("--verbose", help="Log more to standard error.")]


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
    """Run the agents of all groups, and serve their conversations, until Ctrl-C.

    One process runs the agents of a store. A second one serves the pages alike, and takes over when
    the first is gone.

    Example: `onceward dispatch serve --agents 2 --port 0 --no-open`
    """
    from onceward.access.token_file import open_token
    from onceward.handle import open as open_handle
    from onceward.seams import Ids

    place = check_place(
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
        place=place,
        token=token,
        session_id=Ids().new("chat"),
        sentence=f"Onceward {__version__}: conversations are at {{url}} - Ctrl-C stops it",
        page="/chat",
        open_page=open_page,
        json_output=json_output,
    )
    with (
        until_stopped(),
        listen(place) as listener,
        contextlib.closing(open_handle(store)) as ow,
        _dispatching(ow, agents, poll) as dispatcher,
    ):
        if not json_output:
            print(f"agents work and log below {home_of(ow.store)}", file=sys.stderr, flush=True)

        def build() -> Starlette:
            from onceward.console.app import build_app
            from onceward.dispatch.chats import Chats

            return build_app(dispatch=Chats(ow, dispatcher))

        serve_app(place, listener, token, build, announce=announcement)


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
def conversing(opened: Opened, *, may_run: bool = True) -> Iterator[Chats]:
    """Run the agents of a store beside something else that is served, or only show what they say.

    A store that cannot be reached is asked again and again, and keeps nobody from anything.
    """
    from onceward.dispatch.chats import Chats
    from onceward.dispatch.dispatcher import Dispatcher
    from onceward.handle import Onceward

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
        opened.give_up()
        dispatcher.stop(seconds=STOP_SECONDS)


def _start(opened: Opened, dispatcher: Dispatcher, stopping: threading.Event) -> None:
    """Bring the store up to date, again until that succeeds, and start."""
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
    """Return where agents of a store work and log; no two stores share that."""
    from onceward.stores.opening import home

    return home() / "dispatch" / hashlib.sha256(store.url.encode()).hexdigest()[:12]


def _set_up_log(*, is_verbose: bool) -> None:
    from onceward.logs import set_up

    set_up(as_json=not sys.stderr.isatty(), is_verbose=is_verbose)
    if not is_verbose:
        logging.getLogger("onceward").setLevel(logging.WARNING)
