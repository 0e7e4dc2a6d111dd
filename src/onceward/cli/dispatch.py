"""`onceward dispatch`: chat messages to agents: serve them, send some, see what became of them."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli import dispatch_dead, dispatch_groups
from onceward.cli.db import StoreUrl
from onceward.cli.dispatch_groups import GroupName
from onceward.cli.dispatch_looks import entry
from onceward.cli.dispatch_replay import replay
from onceward.cli.dispatch_serve import serve
from onceward.cli.dispatch_status import holder, status
from onceward.cli.output import JsonFlag, print_json, time_argument, warn
from onceward.cli.output import group as command_group
from onceward.errors import OncewardError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceward.dispatch.chats import ChatPage, Chats
    from onceward.dispatch.models import Received
    from onceward.handle import Onceward

#: How soon `tail --follow` and `onceward chat` show what was said.
LOOK_SECONDS: Final = 0.2
HISTORY: Final = 20

app = command_group(
    "Hand chat messages to agents: groups, messages, replies, dead letters, replays."
)
app.command()(serve)
app.add_typer(dispatch_groups.app, name="groups")


@app.command()
def send(
    group: GroupName,
    text: Annotated[str, typer.Argument(help="What to say; `-` reads it from standard input.")],
    message_id: Annotated[
        str | None,
        typer.Option("--id", help="A repeat with the same id is the same message; else a new one."),
    ] = None,
    sender: Annotated[
        str | None, typer.Option(help="Who says it; you, unless told otherwise.")
    ] = None,
    timestamp: Annotated[
        str | None, typer.Option(help="When it was said, as ISO 8601; it decides no order.")
    ] = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Send a message, and print its id; on disk when this returns, answered by who serves.

    Example: `onceward dispatch send team "good morning" --id mail-1`
    """
    from onceward.handle import open as open_handle
    from onceward.seams import Ids

    if timestamp is not None:
        time_argument("timestamp", timestamp)
    said = sys.stdin.read().removesuffix("\n") if text == "-" else text
    given = message_id or Ids().new("msg")
    with open_handle(store) as ow:
        received = receive(ow, group, given, sender or me(), said, timestamp)
        is_alone = holder(ow) is None
    if json_output:
        print_json({"id": given, "seq": received.seq, "fate": received.fate})
    else:
        print(f"{given}  {received.fate}, number {received.seq}")
        if is_alone:
            warn("nobody hands messages to agents now; `onceward dispatch serve` does")


@app.command()
def tail(
    group: GroupName,
    since: Annotated[
        int | None, typer.Option(help="Only what was said behind this number.", min=0)
    ] = None,
    last: Annotated[
        int, typer.Option(help="Without --since: so many from the end.", min=1, max=200)
    ] = HISTORY,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what is said next.")] = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Print a conversation; the number to go on from goes to stderr. With --json a page a line.

    Example: `onceward dispatch tail team --follow`
    """
    from onceward.dispatch.views import plain_item
    from onceward.handle import open as open_handle

    with open_handle(store) as ow:
        chats = conversations(ow)
        place = 0
        for page in _pages(chats, group, since, last, is_following=follow):
            place = page.next_place
            if json_output:
                items = [plain_item(each) for each in page.items]
                print_json({"items": items, "nextCursor": str(page.next_place)})
            for item in () if json_output else page.items:
                print(entry(item), flush=True)
    if not json_output:
        print(f"next: --since {place}", file=sys.stderr)


app.command()(status)
app.command()(replay)
app.add_typer(dispatch_dead.app, name="dead")


def conversations(ow: Onceward) -> Chats:
    """Return the conversations of a store, to be read; nobody is started."""
    from onceward.cli.dispatch_serve import home_of
    from onceward.dispatch.chats import Chats
    from onceward.dispatch.dispatcher import Dispatcher

    return Chats(ow, Dispatcher(ow, home=home_of(ow.store)))


def receive(
    ow: Onceward, group: str, message_id: str, sender: str, text: str, timestamp: str | None = None
) -> Received:
    """Keep a message; when nobody knows whether that worked, the error names the id."""
    from onceward.dispatch.arrivals import Arrivals
    from onceward.dispatch.models import NewMessage
    from onceward.errors import OutcomeUnknown
    from onceward.retries.client import retrying

    message = NewMessage(group=group, id=message_id, sender=sender, text=text, timestamp=timestamp)
    # Harmless to repeat: the id says that it is the same.
    keep = retrying(on=(OutcomeUnknown,))(Arrivals(ow.store).receive)
    try:
        return keep(message)
    except OncewardError as exc:
        if exc.retryable or isinstance(exc, OutcomeUnknown):
            exc.fix = exc.context["fix"] = f"send it again with --id {message_id}"
        raise


def me() -> str:
    """Return who sits at the terminal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A user without a name, as in some containers.
        return "somebody"


def _pages(
    chats: Chats, group: str, since: int | None, last: int, *, is_following: bool
) -> Iterator[ChatPage]:
    """Yield a conversation in parts: up to now, or for ever."""
    from onceward.seams import SystemClock

    page = chats.last(group, last) if since is None else chats.page(group, since)
    yield page
    clock = SystemClock()
    while True:
        page = chats.page(group, page.next_place)
        if page.items:
            yield page
        elif is_following:
            clock.sleep(LOOK_SECONDS)
        else:
            return
