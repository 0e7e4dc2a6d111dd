"""`onceward outcomes`: which work has an outcome, and what to do where a crash left it open."""

from __future__ import annotations

import getpass
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from onceward.cli.db import StoreUrl
from onceward.cli.output import JsonFlag, group, json_argument, print_json
from onceward.cli.tables import print_table, visible
from onceward.errors import InvalidArgument

if TYPE_CHECKING:
    from onceward.handle import Onceward
    from onceward.outcomes import Record

app = group("List outcomes, decide what a crash left open, forget and prune.")

#: How much of a result is shown to people.
RESULT_SHOWN_CHARS: Final = 2_000

_Scope = Annotated[str, typer.Argument(help="The scope, such as the function's full name.")]
_Key = Annotated[str, typer.Argument(help="The key of the work.")]
_Actor = Annotated[str | None, typer.Option(help="Who decides; you, unless told otherwise.")]
_Reason = Annotated[str, typer.Option(help="Why; it is kept with the outcome.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and stop.")]


@app.command(name="list")
def list_outcomes(
    state: Annotated[
        str | None,
        typer.Option(
            help="Only those that are running, done, failed, ambiguous, abandoned, free or expired."
        ),
    ] = None,
    scope: Annotated[str | None, typer.Option(help="Only those of this scope.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many.")] = 100,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """List outcomes as they stand now, the newest key first.

    Example: `onceward outcomes list --state ambiguous --store sqlite:///work.db`
    """
    from onceward.outcomes.views import plain

    with _opened(store) as ow:
        listed = ow.outcomes.list(state=state, scope=scope, limit=limit)
    if json_output:
        print_json({"outcomes": [plain(record) for record in listed]})
        return
    _print_table(listed)


@app.command()
def show(scope: _Scope, key: _Key, store: StoreUrl = None, json_output: JsonFlag = False) -> None:
    """Show everything known of one key, and of the steps inside its work.

    Example: `onceward outcomes show shop.charge charge#7`
    """
    from onceward.outcomes.verdicts import found
    from onceward.outcomes.views import plain

    with _opened(store) as ow:
        record = found(ow.outcomes, scope, key)
        steps = ow.outcomes.effects(scope, key)
    if json_output:
        print_json({**plain(record), "effects": [plain(step) for step in steps]})
        return
    for field, value in plain(record).items():
        print(f"{field:<12} {_shown(value)}")
    for step in steps:
        print(f"step         {_shown(step.name)}: {step.state}")


@app.command()
def reconcile(
    scope: _Scope,
    key: _Key,
    reason: _Reason,
    done: Annotated[
        str | None,
        typer.Option(help="It did happen, with this result: JSON, `@file`, or `-` for stdin."),
    ] = None,
    not_done: Annotated[
        bool, typer.Option("--not-done", help="It did not happen; the next caller runs it.")
    ] = False,
    effect: Annotated[
        str | None, typer.Option(help="Decide about this step inside the work instead.")
    ] = None,
    actor: _Actor = None,
    dry_run: _DryRun = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Decide about work that was begun and then fell silent: it was done, or it was not.

    Example: `onceward outcomes reconcile shop.charge charge#7 --not-done --reason "no payment"`
    """
    from onceward.outcomes.verdicts import check_open, told

    if (done is None) is not not_done:
        message = "done: say either --done with the result, or --not-done"
        raise InvalidArgument(message, fix="find out whether it happened first", field="done")
    verdict: dict[str, Any] = {"not_done": True} if done is None else {}
    if done is not None:
        verdict["done"] = json_argument("done", done)
    with _opened(store) as ow:
        if dry_run:
            check_open(ow.outcomes, scope, key, effect)
        else:
            who = actor or getpass.getuser()
            ow.outcomes.reconcile(scope, key, **verdict, effect=effect, actor=who, reason=reason)
    said = told(scope, key, effect, is_done=not not_done)
    _answer(said, dry_run=dry_run, json_output=json_output)


@app.command()
def forget(
    scope: _Scope,
    key: _Key,
    reason: _Reason,
    actor: _Actor = None,
    dry_run: _DryRun = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Erase an outcome, so that the next caller runs the work again, whatever happened before.

    Example: `onceward outcomes forget shop.charge charge#7 --reason "a test" --dry-run`
    """
    from onceward.outcomes.verdicts import check_idle, found

    with _opened(store) as ow:
        record = found(ow.outcomes, scope, key)
        if dry_run:
            check_idle(record)
        else:
            ow.outcomes.forget(scope, key, actor=actor or getpass.getuser(), reason=reason)
    message = f"{scope} {key}: was {record.state}; the next caller runs it"
    _answer(message, dry_run=dry_run, json_output=json_output)


@app.command()
def prune(
    batch: Annotated[int, typer.Option(help="Rows in one commit, 1 to 5000.")] = 500,
    dry_run: _DryRun = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Erase results that have run out, and tombstones thirty days after; those keys are new again.

    Example: `onceward outcomes prune --dry-run`
    """
    with _opened(store) as ow:
        pruned = ow.outcomes.prunable() if dry_run else ow.outcomes.prune(batch=batch)
    if json_output:
        print_json({"dry_run": dry_run, **asdict(pruned)})
        return
    would = "would be " if dry_run else ""
    print(f"{pruned.expired} results {would}erased, {pruned.removed} tombstones {would}removed")


def _opened(store: str | None) -> Onceward:
    from onceward.handle import open as open_handle

    return open_handle(store)


def _answer(message: str, *, dry_run: bool, json_output: bool) -> None:
    if json_output:
        print_json({"dry_run": dry_run, "message": message})
    else:
        print(_shown(f"{'dry run: ' if dry_run else ''}{message}"))


def _shown(value: object) -> str:
    """Return a value that cannot play tricks with the terminal, and does not fill it."""
    is_plain = value is None or isinstance(value, (str, int))
    text = "-" if value is None else str(value) if is_plain else json.dumps(value)
    shown = visible(text)
    return shown if len(shown) <= RESULT_SHOWN_CHARS else f"{shown[:RESULT_SHOWN_CHARS]}…"


def _print_table(records: list[Record]) -> None:
    rows = ((each.state, each.scope, each.key, each.updated_at, each.owner) for each in records)
    titles = ("state", "scope", "key", "changed", "owner")
    print_table(titles, ([_shown(str(value)) for value in row] for row in rows))
