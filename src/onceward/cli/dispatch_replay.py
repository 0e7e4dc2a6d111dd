"""`onceward dispatch replay`: hand messages out again that were handed out before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from onceward.cli.db import StoreUrl
from onceward.cli.dispatch_groups import GroupName
from onceward.cli.dispatch_looks import line, time, visible
from onceward.cli.output import JsonFlag, print_json, time_argument
from onceward.errors import BatchInFlight, Conflict, InvalidArgument
from onceward.seams import timestamp

if TYPE_CHECKING:
    from onceward.dispatch.models import Message
    from onceward.dispatch.operators import Replay
    from onceward.stores import Store

#: How many of the messages are shown.
SHOWN_MAX: Final = 5


def replay(
    group: GroupName,
    since: Annotated[
        str, typer.Option(help="The number of the first message, or when it came, as ISO 8601.")
    ],
    reason: Annotated[str | None, typer.Option(help="Why; it is kept in the history.")] = None,
    actor: Annotated[
        str | None, typer.Option(help="Who does it; you on this host if left out.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be repeated, and stop.")
    ] = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Hand a group's messages to its agent again, from one on; it will answer them again.

    Refused while the agent works, and when nothing was processed behind that message.

    Example: `onceward dispatch replay team --since 12 --dry-run`
    """
    from onceward.cursors.cursors import operator
    from onceward.dispatch.arrivals import Arrivals
    from onceward.dispatch.operators import Operators
    from onceward.handle import open as open_handle

    if not dry_run and not (reason or "").strip():
        message = "reason: answering again wants a reason, which is kept"
        fix = "pass --reason, or look first with --dry-run"
        raise InvalidArgument(message, fix=fix, field="reason")
    with open_handle(store) as ow:
        operators = Operators(ow.store)
        processed = operators.status_of(group).processed
        first = _first(ow.store, group, since)
        if first > processed:
            message = (
                f"since: {group} has processed nothing from {first} on, so nothing is repeated"
            )
            raise InvalidArgument(message, fix="see `onceward dispatch tail`", field="since")
        said = {"reason": reason or "", "actor": actor or operator()}
        try:
            done = operators.replay(group, first, **said, is_dry_run=dry_run)
        except BatchInFlight as exc:
            message = f"the agent of {group} is at work; nothing was changed"
            fix = f"wait, or stop it: onceward dispatch groups set {group} --pause"
            raise Conflict(message, fix=fix, group=group) from exc
        shown = Arrivals(ow.store).between(group, first - 1, done.from_position, SHOWN_MAX)
    if json_output:
        print_json(_plain(done, shown, is_dry_run=dry_run))
    else:
        _print(done, shown, is_dry_run=dry_run)


def _first(store: Store, group: str, since: str) -> int:
    """Return the number of the first message that is meant."""
    if since.isascii() and since.isdigit():
        return int(since[:18])
    moment = time_argument(
        "since",
        since,
        problem="is neither a number nor a time",
        fix="take a number from `onceward dispatch tail`, or write 2026-01-31T12:00:00Z",
    )
    rows = store.read("dispatch_message_since", group=group, since=timestamp(moment))
    if not rows:
        message = f"since: no message of {group} came at {timestamp(moment)} or later"
        raise InvalidArgument(message, fix="see `onceward dispatch tail`", field="since")
    return int(rows[0][0])


def _print(done: Replay, shown: list[Message], *, is_dry_run: bool) -> None:
    count = "1 message" if done.messages == 1 else f"{done.messages} messages"
    print(f"{'would repeat' if is_dry_run else 'repeats'} {count} of {done.group}")
    for each in shown:
        print(f"{each.seq:>6}  {time(each.received_at)}  {visible(each.sender)}: {line(each.text)}")
    if done.messages > len(shown):
        print(f"        and {done.messages - len(shown)} more")
    if not done.is_called:
        print("none of them calls the agent, so they wait as context for what does")
    if is_dry_run:
        print("nothing was changed; leave --dry-run out and pass --reason to do it")


def _plain(done: Replay, shown: list[Message], *, is_dry_run: bool) -> dict[str, Any]:
    return {
        "dryRun": is_dry_run,
        "group": done.group,
        "from": done.from_position,
        "to": done.to_position,
        "messages": done.messages,
        "isCalled": done.is_called,
        "first": [
            {"seq": each.seq, "id": each.id, "sender": each.sender, "line": line(each.text)}
            for each in shown
        ],
    }
