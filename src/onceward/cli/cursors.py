"""`onceward cursors`: list, pause, resume and move cursors, and show their history."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.app_loading import load_app
from onceward.cli.change_plan import Yes, print_change
from onceward.cli.output import JsonFlag, group, print_json
from onceward.cli.store_option import StoreUrl, open_named_store
from onceward.cli.text_tables import print_table, shown
from onceward.errors import InvalidArgument

if TYPE_CHECKING:
    from onceward.client import Onceward
    from onceward.cursors import CursorState, Move
    from onceward.cursors.models import CountBetween
    from onceward.workers import App
    from onceward.workers.lag_records import LagMeasurement

app = group("List, pause, resume and move cursors, and show their history.")

_Name = Annotated[str, typer.Argument(help="The cursor's name.")]
_Reason = Annotated[str, typer.Option(help="The reason, stored in the history.")]
_Actor = Annotated[
    str | None,
    typer.Option(help="The operator, stored in the history. Default: your user and host name."),
]
_App = Annotated[
    str | None,
    typer.Option(
        "--app",
        help="Import this app, as `module:name`: its source counts messages, and its store is the "
        "default of --store.",
    ),
]


@app.command("list")
def list_cursors(
    pattern: Annotated[str, typer.Argument(help="Name pattern, such as `lead_*`.")] = "*",
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """List cursors: position, state, lease holder, lag, rate, errors and takeovers.

    State: `held` (leased by the holder), `expired` (the holder has not renewed its lease), `free`
    or `paused`. Lag is messages/seconds and rate is messages per minute, as last measured by a
    worker. Errors count failures since the last success.

    Internal cursors begin with `~`; a pattern that begins with `~` lists them. If none matches, the
    table is empty; exit 0.

    Example: `onceward cursors list 'lead_*'`
    """
    from onceward.workers.lag_records import LagRecords
    from onceward.workers.views import cursor_view, state_name

    with open_named_store(store) as ow:
        found = ow.cursors.list(pattern)
        measures = LagRecords(ow).of(state.name for state in found)
    if json_output:
        print_json({"cursors": [cursor_view(state, measures.get(state.name)) for state in found]})
        return
    print_table(
        ("cursor", "position", "state", "holder", "lag", "rate", "errors", "takeovers"),
        (
            (
                state.name,
                state.position,
                state_name(state),
                state.lease_owner,
                _lag(measures.get(state.name)),
                _rate(measures.get(state.name)),
                state.error_count,
                state.steal_count,
            )
            for state in found
        ),
    )


@app.command()
def show(name: _Name, store: StoreUrl = None, json_output: JsonFlag = False) -> None:
    """Show one cursor: position, lease, errors and lag; exit 1 if there is none.

    The lag is the one that a worker measured last; without a measurement it is omitted.

    Example: `onceward cursors show lead_intake_v1`
    """
    from onceward.workers.lag_records import LagRecords
    from onceward.workers.views import cursor_view, lag_view

    with open_named_store(store) as ow:
        state, measure = ow.cursors.show(name), LagRecords(ow).of([name]).get(name)
    if json_output:
        print_json(cursor_view(state, measure))
        return
    _print_state(state, json_output=False)
    lag = lag_view(measure)
    for field, value in (asdict(lag) if lag else {}).items():
        print(f"{field:<18} {shown(value)}")


@app.command()
def pause(
    name: _Name,
    reason: _Reason = "",
    actor: _Actor = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Pause a cursor until it is resumed: workers start no new work; a running batch finishes.

    A cursor that is paused already stays as it is, without another entry in its history; exit 0.
    Exit 1 if there is no such cursor.

    Example: `onceward cursors pause lead_intake_v1 --reason "billing is down"`
    """
    with open_named_store(store) as ow:
        _print_state(ow.cursors.pause(name, reason, actor), json_output=json_output)


@app.command()
def resume(
    name: _Name,
    reason: _Reason = "",
    actor: _Actor = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Resume a paused cursor: workers go on from its position.

    Idempotent: a cursor that is not paused stays as it is. Exit 1 if there is none of this name.

    Example: `onceward cursors resume lead_intake_v1`
    """
    with open_named_store(store) as ow:
        _print_state(ow.cursors.resume(name, reason, actor), json_output=json_output)


@app.command()
def seek(
    name: _Name,
    reason: Annotated[str, typer.Option(help="Required. The reason, stored in the history.")],
    position: Annotated[
        str | None, typer.Argument(help="Resume after this position (exclusive). Not with --start.")
    ] = None,
    start: Annotated[bool, typer.Option("--start", help="Resume from the first message.")] = False,
    actor: _Actor = None,
    target: _App = None,
    yes: Yes = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Move a cursor: messages are repeated or skipped, and its holder loses the lease.

    Pass POSITION or --start. Without --app, POSITION is not checked, repeated and skipped messages
    are not counted, and parked messages stay, except with --start. Parked messages that are read
    again are then processed twice. `onceward cursors undo` moves the cursor back. Exit 1 if there
    is no such cursor.

    Example: `onceward cursors seek lead_intake_v1 1200 --reason "bad deploy" --yes`
    """
    if start == (position is not None):
        which = "both POSITION and --start were passed" if start else "is missing"
        fix = "pass POSITION, or --start for the first message"
        message = f"position: {which}; nothing was changed"
        raise InvalidArgument(message, fix=fix, field="position")
    from onceward.workers.source_protocol import check_target

    found = load_app(target) if target else None
    with _opened_with(found, store) as ow:
        count = _count(found, name)
        check_target(found.source_of(name) if found else None, position)
        move = ow.cursors.seek(
            name, position, reason, actor or _who(), dry_run=not yes, count=count
        )
    _print_move(move, json_output=json_output)


@app.command()
def undo(
    name: _Name,
    reason: _Reason = "",
    actor: _Actor = None,
    target: _App = None,
    yes: Yes = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Move a cursor back to its position before the last seek; repeat it for earlier seeks.

    Its holder loses the lease. Parked messages (failed ones, and those that wait for a failed one
    of their key) that the seek discarded are restored, unless they were read since. Without --app,
    that is unknown: some may then be processed twice. Exit 1 if there is no such cursor, or no seek
    to undo.

    Example: `onceward cursors undo lead_intake_v1 --yes`
    """
    found = load_app(target) if target else None
    with _opened_with(found, store) as ow:
        count = _count(found, name)
        move = ow.cursors.undo(name, actor or _who(), reason, dry_run=not yes, count=count)
    _print_move(move, json_output=json_output)


@app.command()
def history(
    name: _Name,
    limit: Annotated[int, typer.Option(help="Maximum number of entries.")] = 20,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """List the seeks, undos, pauses, resumes and takeovers of a cursor, newest first.

    `steal` is a takeover: another worker got the cursor after the lease expired. Migrations and
    rollbacks of the position are listed, too. Exit 1 if there is no cursor of this name.

    Example: `onceward cursors history lead_intake_v1 --limit 5`
    """
    with open_named_store(store) as ow:
        ow.cursors.show(name)
        entries = ow.cursors.history(name, limit)
    if json_output:
        print_json({"history": [asdict(entry) for entry in entries]})
        return
    print_table(
        ("when", "action", "from", "to", "actor", "reason"),
        (
            (
                entry.happened_at,
                entry.kind,
                entry.from_position,
                entry.to_position,
                entry.actor,
                entry.reason,
            )
            for entry in entries
        ),
    )


def _opened_with(found: App | None, store: str | None) -> Onceward:
    """Return the store of `--store`, else the app's own."""
    return found.ow if found is not None and store is None else open_named_store(store)


def _count(found: App | None, cursor: str) -> CountBetween | None:
    """Return the count function of a cursor's source, if `--app` names its app."""
    if found is None:
        return None
    from onceward.workers.source_protocol import Countable

    source = found.source_of(cursor)
    if source is None:
        message = f"no consumer of the app reads the cursor {cursor!r}; nothing was changed"
        fix = (
            "pass the app that reads it; or omit --app and pass its store with --store: "
            "messages are then not counted"
        )
        raise InvalidArgument(message, fix=fix, field="app")
    return source.count if isinstance(source, Countable) else None


def _who() -> str:
    from onceward.cursors.cursors import current_operator

    return current_operator()


def _lag(measure: LagMeasurement | None) -> str | None:
    """Return messages and seconds, as far as they are known."""
    if measure is None or measure.lag_seconds is None:
        return None
    messages = "?" if measure.messages is None else measure.messages
    return f"{messages}/{measure.lag_seconds:.0f}s" if messages else "0"


def _rate(measure: LagMeasurement | None) -> str | None:
    rate = measure.rate_per_minute if measure else None
    return None if rate is None else f"{rate:.0f}"


def _print_state(state: CursorState, *, json_output: bool) -> None:
    if json_output:
        print_json(asdict(state))
        return
    from onceward.workers.views import state_name

    for field, value in {"state": state_name(state), **asdict(state)}.items():
        print(f"{field:<18} {shown(value)}")


def _print_move(move: Move, *, json_output: bool) -> None:
    lines = [
        f"{'would move' if move.is_dry_run else 'moved'} {shown(move.cursor)}",
        f"from        {_position(move.from_position)}",
        f"to          {_position(move.to_position)}",
        f"repeated    {_number(move.repeated)}",
        f"skipped     {_number(move.skipped)}",
        f"discarded   {_discarded(move.discarded)}",
        f"restored    {move.restored}",
        f"interrupts  {shown(move.interrupts or 'no worker')}",
    ]
    values = asdict(move)
    print_change(lines, applied=not move.is_dry_run, json_output=json_output, **values)


def _position(position: str | None) -> str:
    return "the start" if position is None else shown(position)


def _number(count: int | None) -> str:
    return "unknown: only its source can count" if count is None else str(count)


def _discarded(count: int | None) -> str:
    stay = "unknown: only its source can count; parked messages stay"
    return stay if count is None else str(count)
