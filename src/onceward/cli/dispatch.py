"""`onceward dispatch`: deliver chat messages to agents; send, follow and replay them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli import dispatch_groups
from onceward.cli.dispatch_format import entry
from onceward.cli.dispatch_groups import GroupName
from onceward.cli.dispatch_replay import replay
from onceward.cli.dispatch_serve import serve
from onceward.cli.dispatch_status import holder, status
from onceward.cli.output import JsonFlag, print_json, time_argument, user_name, warn
from onceward.cli.output import group as command_group
from onceward.cli.store_option import StoreUrl
from onceward.errors import OncewardError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceward.client import Onceward
    from onceward.dispatch.conversations import ChatPage, Chats
    from onceward.dispatch.models import Received

#: How often `tail --follow` polls for new items.
POLL_SECONDS: Final = 0.2
HISTORY: Final = 20

app = command_group("Deliver chat messages to agents: groups, messages, replies and replays.")
app.command()(serve)
app.add_typer(dispatch_groups.app, name="groups")


@app.command()
def send(
    group: GroupName,
    text: Annotated[
        str, typer.Argument(help="The message, up to 128 KiB; `-` reads standard input.")
    ],
    message_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="Idempotency key: the same message again changes nothing; another text, sender or "
            "timestamp edits it. An agent that got it before does not get the edit. "
            "Default: random.",
        ),
    ] = None,
    sender: Annotated[str | None, typer.Option(help="The sender. Default: your user name.")] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            help="Time when it was sent, as ISO 8601; does not affect the order. Default: none."
        ),
    ] = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Send a message to a group and print its id; it is in the store when this returns.

    A dispatcher delivers it to the group's agent, if the group's trigger matches; else it waits for
    a message that does. Without a dispatcher it waits, too; exit 0. Exit 1 if there is no such
    group. Printed with the id: `new`, `known` or `edited`, and the message's number.

    Example: `onceward dispatch send team "good morning" --id mail-1`
    """
    from onceward.client import open as open_handle
    from onceward.system import Ids

    if timestamp is not None:
        time_argument("timestamp", timestamp)
    said = sys.stdin.read().removesuffix("\n") if text == "-" else text
    given = message_id or Ids().new("msg")
    with open_handle(store) as ow:
        received = receive(ow, group, given, sender or user_name(), said, timestamp)
        is_alone = holder(ow) is None
    if json_output:
        print_json({"id": given, "seq": received.seq, "fate": received.fate})
    else:
        print(f"{given}  {received.fate}, number {received.seq}")
        if is_alone:
            warn("no dispatcher runs; the message waits. Start one: onceward dispatch serve")


@app.command()
def tail(
    group: GroupName,
    since: Annotated[
        int | None,
        typer.Option(
            help="Print all items after this value, which an earlier call printed on stderr. "
            "Default: see --last.",
            min=0,
        ),
    ] = None,
    last: Annotated[
        int,
        typer.Option(help="Without --since: how many of the last items to print.", min=1, max=200),
    ] = HISTORY,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Keep printing new items until Ctrl-C. Default: stop at the last one."
        ),
    ] = False,
    store: StoreUrl = None,
    json_output: Annotated[
        bool,
        typer.Option(
            "--json", help="Print each page as a line of JSON with `items`, `nextCursor`."
        ),
    ] = False,
) -> None:
    """Print the messages and replies of a group; the value for --since goes to stderr.

    Each item begins with its number, which `onceward dispatch replay` takes; replies of the agent
    have `»` before their text. An edited message is printed again under its old number, so --since
    takes only the value on stderr. Exit 1 if there is no such group.

    Example: `onceward dispatch tail team --follow`
    """
    from onceward.client import open as open_handle
    from onceward.dispatch.views import plain_item

    place: int | None = None
    try:
        with open_handle(store) as ow:
            for page in _pages(conversations(ow), group, since, last, is_following=follow):
                if json_output:
                    items = [plain_item(each) for each in page.items]
                    print_json({"items": items, "nextCursor": str(page.next_place)})
                for item in () if json_output else page.items:
                    print(entry(item), flush=True)
                place = page.next_place
    finally:  # Ctrl-C ends --follow.
        if place is not None and not json_output:
            print(f"next: --since {place}", file=sys.stderr)


app.command()(status)
app.command()(replay)


def conversations(ow: Onceward) -> Chats:
    """Return the conversations of a store for reading; starts no dispatcher."""
    from onceward.cli.dispatch_serve import home_of
    from onceward.dispatch.conversations import Chats
    from onceward.dispatch.dispatcher import Dispatcher

    return Chats(ow, Dispatcher(ow, home=home_of(ow.store)))


def receive(
    ow: Onceward, group: str, message_id: str, sender: str, text: str, timestamp: str | None = None
) -> Received:
    """Store a message; if the outcome is unknown, the error names the id to retry with."""
    from onceward.dispatch.inbox import Inbox
    from onceward.dispatch.models import NewMessage
    from onceward.errors import OutcomeUnknown
    from onceward.retries.call_retry import retrying

    message = NewMessage(group=group, id=message_id, sender=sender, text=text, timestamp=timestamp)
    # Idempotent: the id identifies the message.
    keep = retrying(on=(OutcomeUnknown,))(Inbox(ow.store).receive)
    try:
        return keep(message)
    except OncewardError as exc:
        if exc.retryable or isinstance(exc, OutcomeUnknown):
            exc.fix = exc.context["fix"] = f"send it again with --id {message_id}"
        raise


def _pages(
    chats: Chats, group: str, since: int | None, last: int, *, is_following: bool
) -> Iterator[ChatPage]:
    """Yield a conversation in pages: up to now, or endlessly."""
    from onceward.system import SystemClock

    page = chats.last(group, last) if since is None else chats.page(group, since)
    yield page
    clock = SystemClock()
    while True:
        page = chats.page(group, page.next_place)
        if page.items:
            yield page
        elif is_following:
            clock.sleep(POLL_SECONDS)
        else:
            return
