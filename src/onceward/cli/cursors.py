"""`onceward cursors`: look at cursors, pause them, move them, and see what was done to them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.apps import load_app
from onceward.cli.db import StoreUrl
from onceward.cli.output import JsonFlag, group, print_json
from onceward.cli.tables import print_table, shown
from onceward.errors import InvalidArgument

if TYPE_CHECKING:
    from onceward.cursors import CursorState, Move
    from onceward.cursors.models import CountBetween
    from onceward.handle import Onceward
    from onceward.workers import App
    from onceward.workers.measures import Measure

app = group("Look at cursors, pause them, move them, and see what was done to them.")

_Name = Annotated[str, typer.Argument(help="The cursor's name.")]
_Reason = Annotated[str, typer.Option(help="Why; it is kept in the history.")]
_Actor = Annotated[str | None, typer.Option(help="Who does it; you on this host if left out.")]
_App = Annotated[
    str | None,
    typer.Option("--app", help="Count with the source of this app: `module:name`."),
]
_Yes = Annotated[
    bool, typer.Option("--yes", help="Do it; without this it is only thought through.")
]


@app.command("list")
def list_cursors(
    pattern: Annotated[str, typer.Argument(help="Names such as `distribution_niche_*`.")] = "*",
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """List cursors: where they are, who holds them, how far behind they are, what is wrong.

    The lag is in messages and in seconds, the rate in messages a minute, as a worker last measured
    them. Names that begin with `~` are Onceward's own, and listed by a pattern that does so too.

    Example: `onceward cursors list 'lead_*'`
    """
    from onceward.workers.measures import Measures
    from onceward.workers.views import plain, state_word

    with _opened(store) as ow:
        found = ow.cursors.list(pattern)
        measures = Measures(ow).of(state.name for state in found)
    if json_output:
        print_json({"cursors": [plain(state, measures.get(state.name)) for state in found]})
        return
    print_table(
        ("cursor", "position", "state", "holder", "lag", "rate", "errors", "steals"),
        (
            (
                state.name,
                state.position,
                state_word(state),
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
    """Show everything about one cursor.

    Example: `onceward cursors show lead_intake_v1`
    """
    from onceward.workers.measures import Measures
    from onceward.workers.views import measured, plain

    with _opened(store) as ow:
        state, measure = ow.cursors.show(name), Measures(ow).of([name]).get(name)
    if json_output:
        print_json(plain(state, measure))
        return
    _print_state(state, json_output=False)
    for field, value in (measured(measure) or {}).items():
        print(f"{field:<18} {shown(value)}")


@app.command()
def pause(
    name: _Name,
    reason: _Reason = "",
    actor: _Actor = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Let nobody begin new work on a cursor; a batch that runs may finish.

    Example: `onceward cursors pause lead_intake_v1 --reason "billing is down"`
    """
    with _opened(store) as ow:
        _print_state(ow.cursors.pause(name, reason, actor), json_output=json_output)


@app.command()
def resume(
    name: _Name,
    reason: _Reason = "",
    actor: _Actor = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Let work on a paused cursor go on.

    Example: `onceward cursors resume lead_intake_v1`
    """
    with _opened(store) as ow:
        _print_state(ow.cursors.resume(name, reason, actor), json_output=json_output)


@app.command()
def seek(
    name: _Name,
    reason: Annotated[str, typer.Option(help="Why; it is kept in the history.")],
    position: Annotated[
        str | None, typer.Argument(help="Work goes on behind this position.")
    ] = None,
    start: Annotated[bool, typer.Option("--start", help="Move before the first message.")] = False,
    actor: _Actor = None,
    target: _App = None,
    yes: _Yes = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Move a cursor by hand; whoever holds it is stopped. A dry run unless you say --yes.

    Example: `onceward cursors seek lead_intake_v1 1200 --reason "bad deploy" --yes`
    """
    if start == (position is not None):
        message = "position: name one, or say --start, and not both"
        raise InvalidArgument(message, fix="pass POSITION or --start", field="position")
    from onceward.workers.source import check_target

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
    yes: _Yes = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Move a cursor to where it was before its last seek. A dry run unless you say --yes.

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
    limit: Annotated[int, typer.Option(help="At most this many, the newest first.")] = 20,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """List what was done to a cursor, by whom and why, newest first.

    Example: `onceward cursors history lead_intake_v1 --limit 5`
    """
    with _opened(store) as ow:
        ow.cursors.show(name)
        entries = ow.cursors.history(name, limit)
    if json_output:
        print_json({"history": [asdict(entry) for entry in entries]})
        return
    print_table(
        ("when", "what", "from", "to", "who", "why"),
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


def _opened(store: str | None) -> Onceward:
    from onceward.handle import open as open_handle

    return open_handle(store)


def _opened_with(found: App | None, store: str | None) -> Onceward:
    """Return the store that is named, else the app's own."""
    return found.ow if found is not None and store is None else _opened(store)


def _count(found: App | None, cursor: str) -> CountBetween | None:
    """Return how the source of a cursor counts, if somebody said which app has it."""
    if found is None:
        return None
    from onceward.workers.source import Countable

    source = found.source_of(cursor)
    if source is None:
        message = f"no consumer of the app has a cursor {cursor!r}"
        raise InvalidArgument(message, fix="name the app that reads it, or none", field="app")
    return source.count if isinstance(source, Countable) else None


def _who() -> str:
    from onceward.cursors.cursors import operator

    return operator()


def _lag(measure: Measure | None) -> str | None:
    """Return messages and seconds, as far as they are known."""
    if measure is None or measure.lag_seconds is None:
        return None
    messages = "?" if measure.messages is None else measure.messages
    return f"{messages}/{measure.lag_seconds:.0f}s" if messages else "0"


def _rate(measure: Measure | None) -> str | None:
    rate = measure.rate_per_minute if measure else None
    return None if rate is None else f"{rate:.0f}"


def _print_state(state: CursorState, *, json_output: bool) -> None:
    if json_output:
        print_json(asdict(state))
        return
    from onceward.workers.views import state_word

    for field, value in {"state": state_word(state), **asdict(state)}.items():
        print(f"{field:<18} {shown(value)}")


def _print_move(move: Move, *, json_output: bool) -> None:
    if json_output:
        print_json({"dry_run": move.is_dry_run, **asdict(move)})
        return
    print(f"{'would move' if move.is_dry_run else 'moved'} {shown(move.cursor)}")
    print(f"from        {_position(move.from_position)}")
    print(f"to          {_position(move.to_position)}")
    print(f"repeated    {_number(move.repeated)}")
    print(f"skipped     {_number(move.skipped)}")
    print(f"forgotten   {_forgotten(move.forgotten)}")
    print(f"restored    {move.restored}")
    print(f"interrupts  {shown(move.interrupts or 'nobody')}")
    if move.is_dry_run:
        print("nothing was changed; say --yes to do it")


def _position(position: str | None) -> str:
    return "the start" if position is None else shown(position)


def _number(count: int | None) -> str:
    return "unknown: only its source can count" if count is None else str(count)


def _forgotten(count: int | None) -> str:
    stay = "unknown: only its source can count; what is parked stays"
    return stay if count is None else str(count)
