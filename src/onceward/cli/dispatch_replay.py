"""`onceward dispatch replay`: deliver messages to the agent again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from onceward.cli.change_plan import Yes, print_change
from onceward.cli.dispatch_format import line, time, visible
from onceward.cli.dispatch_groups import GroupName
from onceward.cli.output import JsonFlag, time_argument
from onceward.cli.store_option import StoreUrl
from onceward.errors import BatchInFlight, Conflict, InvalidArgument
from onceward.system import timestamp

if TYPE_CHECKING:
    from onceward.dispatch.models import GroupMessage
    from onceward.dispatch.operator_actions import GroupReplay
    from onceward.stores import Store

#: How many of the messages are shown.
SHOWN_MAX: Final = 5
_NOT_YET: Final = (
    "wait until its agent has processed a message; `onceward dispatch status` shows its state"
)


def replay(
    group: GroupName,
    since: Annotated[
        str,
        typer.Option(
            help="Required. First message: its number from `dispatch tail`, or its arrival time "
            "as ISO 8601."
        ),
    ],
    reason: Annotated[
        str | None, typer.Option(help="Required with --yes. The reason, stored in the history.")
    ] = None,
    actor: Annotated[
        str | None,
        typer.Option(help="The operator, stored in the history. Default: your user and host name."),
    ] = None,
    yes: Yes = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Deliver a group's messages to its agent again, which answers them again.

    All processed messages from --since on are repeated, by the dispatcher; earlier replies stay. If
    none of them triggers the agent, they wait for a message that does. Exit 2 if no message from
    there on was processed; with --yes, exit 1 while the agent works.

    Example: `onceward dispatch replay team --since 12 --reason "a wrong price" --yes`
    """
    from onceward.client import open as open_handle
    from onceward.cursors.cursors import current_operator
    from onceward.dispatch.inbox import Inbox
    from onceward.dispatch.operator_actions import Operators

    if yes and not (reason or "").strip():
        message = "reason: is missing, and a replay is recorded with one; nothing was replayed"
        fix = "pass --reason, or omit --yes to see the plan"
        raise InvalidArgument(message, fix=fix, field="reason")
    with open_handle(store) as ow:
        operators = Operators(ow.store)
        processed = operators.status_of(group).processed
        first = _first(ow.store, group, since)
        if first > processed:
            message = (
                f"since: {group} has processed no message from {first} on; nothing was replayed"
            )
            tail = f"`onceward dispatch tail {group}` shows these messages"
            fix = f"pass 1 to {processed}; {tail}" if processed else _NOT_YET
            raise InvalidArgument(message, fix=fix, field="since")
        said = {"reason": reason or "", "actor": actor or current_operator()}
        try:
            done = operators.replay(group, first, **said, is_dry_run=not yes)
        except BatchInFlight as exc:
            message = f"the agent of {group} is processing a message; nothing was changed"
            pause = f"onceward dispatch groups set {group} --pause"
            fix = f"try again when it has answered; `{pause}` keeps new messages from it"
            raise Conflict(message, fix=fix, group=group) from exc
        shown = Inbox(ow.store).between(group, first - 1, done.from_position, SHOWN_MAX)
    lines = _lines(done, shown, applied=yes)
    print_change(lines, applied=yes, json_output=json_output, **_plain(done, shown))


def _first(store: Store, group: str, since: str) -> int:
    """Return the number of the first message to replay."""
    if since.isascii() and since.isdigit():
        return int(since[:18])
    moment = time_argument(
        "since",
        since,
        problem="is neither a number nor a time",
        fix=f"take a number from `onceward dispatch tail {group}`, or write 2026-01-31T12:00:00Z",
    )
    rows = store.read("dispatch_message_since", group=group, since=timestamp(moment))
    if not rows:
        message = (
            f"since: no message of {group} arrived at {timestamp(moment)} or later; "
            "nothing was replayed"
        )
        fix = f"pass an earlier time, or a number that `onceward dispatch tail {group}` shows"
        raise InvalidArgument(message, fix=fix, field="since")
    return int(rows[0][0])


def _lines(done: GroupReplay, shown: list[GroupMessage], *, applied: bool) -> list[str]:
    count = "1 message" if done.messages == 1 else f"{done.messages} messages"
    lines = [f"{'repeats' if applied else 'would repeat'} {count} of {done.group}"]
    for each in shown:
        said = f"{visible(each.sender)}: {line(each.text)}"
        lines.append(f"{each.seq:>6}  {time(each.received_at)}  {said}")
    if done.messages > len(shown):
        lines.append(f"        and {done.messages - len(shown)} more")
    if not done.is_called:
        lines.append(
            "none of them triggers the agent, so they stay pending as context for one that does"
        )
    return lines


def _plain(done: GroupReplay, shown: list[GroupMessage]) -> dict[str, Any]:
    return {
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
