"""`onceward dispatch status`: the state of every group, and the dispatcher that serves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from onceward.cli.dispatch_format import line, print_table, span, time, visible
from onceward.cli.dispatch_groups import OneGroup
from onceward.cli.output import JsonFlag, print_json
from onceward.cli.store_option import StoreUrl
from onceward.errors import CursorMissing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onceward.client import Onceward
    from onceward.cursors.models import HistoryEntry
    from onceward.dispatch.models import DeliveryRecord, GroupStatus

#: How many deliveries and moves of one group are shown.
SHOWN_MAX: Final = 10
NO_DISPATCHER: Final = "none; start one: onceward dispatch serve"


def status(
    group: OneGroup = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Show the dispatcher and its groups: state, position, messages at work, backlog, dead letters.

    Messages are numbered over all groups. `processed` is the number of a group's last delivered
    message, `in flight` are the numbers at work. `pending`, `unsent` and `dead` are counts, and
    `retry at` is a time. For one group, its latest deliveries and replays follow. Exit 1 if there
    is no such group; otherwise exit 0, whatever the state is.

    Example: `onceward dispatch status`
    """
    from onceward.client import open as open_handle
    from onceward.dispatch.models import DUAL
    from onceward.dispatch.operator_actions import Operators
    from onceward.dispatch.views import plain_move

    with open_handle(store) as ow:
        operators = Operators(ow.store)
        found = [operators.status_of(group)] if group else operators.status()
        arrived, read = operators.positions()
        dead = ow.dead.count_by_group()
        lately = operators.deliveries(group, SHOWN_MAX) if group else []
        moves = ow.cursors.history(f"{DUAL}/{group}", SHOWN_MAX) if group else ()
        owner = holder(ow)
    if json_output:
        board = {"holder": owner, "arrived": arrived, "read": read, "items": _plain(found, dead)}
        lately_json = [plain_delivery(each) for each in lately]
        history = [plain_move(each) for each in moves]
        print_json({**board, "deliveries": lately_json, "history": history} if group else board)
        return
    print(f"dispatcher  {visible(owner) if owner else NO_DISPATCHER}")
    print(f"arrivals    up to {arrived}, read up to {read}")
    if group:
        _print_one(found[0], dead.get(group, 0))
        _print_lately(lately)
        _print_moves(moves)
    else:
        _print_all(found, dead)


def holder(ow: Onceward) -> str | None:
    """Return the process that holds the dispatcher lease of a store, if one does."""
    from onceward.dispatch.models import LEASE

    try:
        found = ow.cursors.show(LEASE)
    except CursorMissing:
        return None
    return found.lease_owner if found.is_held else None


def plain_delivery(record: DeliveryRecord) -> dict[str, Any]:
    """Return a delivery as JSON has it."""
    return {
        "id": record.id,
        "group": record.group,
        "state": str(record.state),
        "attempt": record.attempt,
        "firstSeq": record.first_seq,
        "lastSeq": record.last_seq,
        "error": record.error,
        "startedAt": record.started_at,
        "endedAt": record.ended_at,
    }


def _plain(found: list[GroupStatus], dead: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return groups as HTTP has them."""
    from onceward.dispatch.conversations import DispatchStatus
    from onceward.dispatch.views import status_body

    board = DispatchStatus(is_held=False, arrived=0, read=0, groups=tuple(found), dead=dead)
    items: list[dict[str, Any]] = status_body(board)["items"]
    return items


def _state(found: GroupStatus) -> str:
    group = found.group
    if found.in_flight is not None:
        return "at work"
    if group.is_paused:
        return "paused"
    if found.is_called:
        return "retry" if group.wait_seconds > 0 else "waiting"
    return "context" if found.pending else "quiet"


def _flight(record: DeliveryRecord | None) -> str | None:
    if record is None:
        return None
    attempt = "" if record.attempt == 1 else f", attempt {record.attempt}"
    return f"{span(record.first_seq, record.last_seq)}{attempt}"


def _retry_at(found: GroupStatus) -> str | None:
    return time(found.group.retry_at) if found.group.wait_seconds > 0 else None


def _print_all(found: list[GroupStatus], dead: Mapping[str, int]) -> None:
    titles = ("group", "state", "processed", "pending", "in flight", "retry at", "unsent", "dead")
    rows = [
        (
            each.group.name,
            _state(each),
            each.processed,
            each.pending,
            _flight(each.in_flight),
            _retry_at(each),
            each.unsent,
            dead.get(each.group.name, 0),
        )
        for each in found
    ]
    if rows:
        print_table(titles, rows)
    else:
        print("no groups yet; see `onceward dispatch groups add --help`")
    for each in found:
        if each.group.last_error and each.is_called:
            print(f"{each.group.name} failed: {line(each.group.last_error, 200)}")


def _print_one(found: GroupStatus, dead: int) -> None:
    facts = {
        "group": found.group.name,
        "state": _state(found),
        "processed": found.processed,
        "pending": found.pending,
        "in flight": _flight(found.in_flight),
        "attempts": found.group.attempts,
        "retry at": _retry_at(found),
        "last error": line(found.group.last_error, 200) if found.group.last_error else None,
        "unsent": found.unsent,
        "dead": dead,
    }
    for fact, value in facts.items():
        print(f"{fact:<11} {'-' if value is None else value}")


def _print_lately(lately: list[DeliveryRecord]) -> None:
    titles = ("handed to the agent", "messages", "attempt", "state", "error")
    rows = [
        (
            time(each.started_at),
            span(each.first_seq, each.last_seq),
            each.attempt,
            each.state,
            line(each.error) if each.error else None,
        )
        for each in lately
    ]
    if rows:
        print_table(titles, rows)


def _print_moves(moves: Sequence[HistoryEntry]) -> None:
    titles = ("cursor moved", "from", "to", "who", "why")
    rows = [
        (time(each.happened_at), each.from_position, each.to_position, each.actor, each.reason)
        for each in moves
    ]
    if rows:
        print_table(titles, rows)
