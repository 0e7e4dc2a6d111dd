"""`onceward outcomes`: list outcomes of idempotent calls; reconcile, forget and prune them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from onceward.cli.change_plan import Yes, print_change
from onceward.cli.output import JsonFlag, group, json_argument, print_json, user_name
from onceward.cli.store_option import StoreUrl, open_named_store
from onceward.cli.text_tables import print_table, visible
from onceward.errors import InvalidArgument

if TYPE_CHECKING:
    from onceward.outcomes import OutcomeRecord

app = group("List outcomes of idempotent calls; reconcile, forget and prune them.")

#: How much of a result is shown to people.
RESULT_SHOWN_CHARS: Final = 2_000

_Scope = Annotated[str, typer.Argument(help="The scope, such as the function's full name.")]
_Key = Annotated[str, typer.Argument(help="The idempotency key.")]
_Actor = Annotated[
    str | None, typer.Option(help="The operator, stored with the outcome. Default: your user name.")
]
_Reason = Annotated[str, typer.Option(help="Required. The reason, stored with the outcome.")]


@app.command(name="list")
def list_outcomes(
    state: Annotated[
        str | None,
        typer.Option(
            help="Only this state: running, done, failed, ambiguous, abandoned, free or expired. "
            "Default: all."
        ),
    ] = None,
    scope: Annotated[str | None, typer.Option(help="Only this scope.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of outcomes.")] = 100,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """List outcomes of idempotent calls, newest first by the first use of their key.

    `done` and `failed` are final: later calls get the same result or error. `ambiguous`: started,
    and whether it happened is unknown: its lease ended without a result, or its error left it open;
    to be reconciled. `abandoned`: its lease ended without a result, of a function with
    `on_crash="rerun"`, so the next call runs it.

    `free`: it failed with a retryable error, was decided as not done, was forgotten, or expired
    more than 30 days ago; the next call runs it. `expired`: its result has expired, and calls with
    the key are rejected. If none matches, the table is empty; exit 0.

    Example: `onceward outcomes list --state ambiguous --store sqlite:///work.db`
    """
    from onceward.outcomes.views import record_json

    with open_named_store(store) as ow:
        listed = ow.outcomes.list(state=state, scope=scope, limit=limit)
    if json_output:
        print_json({"outcomes": [record_json(record) for record in listed]})
        return
    _print_table(listed)


@app.command()
def show(scope: _Scope, key: _Key, store: StoreUrl = None, json_output: JsonFlag = False) -> None:
    """Show the outcome of one key, and the steps of its call; exit 1 if there is none.

    Example: `onceward outcomes show shop.charge charge#7`
    """
    from onceward.outcomes.reconcile import get_record
    from onceward.outcomes.views import record_json

    with open_named_store(store) as ow:
        record = get_record(ow.outcomes, scope, key)
        steps = ow.outcomes.effects(scope, key)
    if json_output:
        print_json({**record_json(record), "effects": [record_json(step) for step in steps]})
        return
    for field, value in record_json(record).items():
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
        typer.Option(
            help="The work happened; later calls get this result: JSON, `@file`, or `-` for stdin. "
            "Not with --not-done."
        ),
    ] = None,
    not_done: Annotated[
        bool, typer.Option("--not-done", help="The work did not happen; the next call runs it.")
    ] = False,
    effect: Annotated[
        str | None,
        typer.Option(
            help="Decide only this step; the outcome of the call stays. Default: the whole call."
        ),
    ] = None,
    actor: _Actor = None,
    yes: Yes = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Decide an ambiguous outcome: it happened, or it did not. Pass --done or --not-done.

    With --effect, it decides one step of the call. A step that is `intended` was started and
    reported no result: after a crash it may have happened. Exit 1 if there is no such outcome or
    step, or if there is nothing to decide, also without --yes.

    Example: `onceward outcomes reconcile shop.charge charge#7 --not-done --reason "not paid" --yes`
    """
    from onceward.outcomes.reconcile import check_reconcilable, describe_decision

    if (done is None) is not not_done:
        what = (
            "--done and --not-done were both" if not_done else "neither --done nor --not-done was"
        )
        message = f"done: {what} passed; nothing was changed"
        fix = (
            "find out whether it happened, then pass --done with the result as JSON, or --not-done"
        )
        raise InvalidArgument(message, fix=fix, field="done")
    verdict: dict[str, Any] = {"not_done": True} if done is None else {}
    if done is not None:
        verdict["done"] = json_argument("done", done)
    with open_named_store(store) as ow:
        check_reconcilable(ow.outcomes, scope, key, effect)
        if yes:
            who = actor or user_name()
            ow.outcomes.reconcile(scope, key, **verdict, effect=effect, actor=who, reason=reason)
    said = describe_decision(scope, key, effect, is_done=not not_done)
    line = _shown(said if yes else f"would record: {said}")
    print_change([line], applied=yes, json_output=json_output, message=said)


@app.command()
def forget(
    scope: _Scope,
    key: _Key,
    reason: _Reason,
    actor: _Actor = None,
    yes: Yes = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Erase an outcome: the next call with its key runs again, whatever happened before.

    Its steps are erased, too; their effects are not undone, so they may happen twice. The key stays
    listed as `free`, with the reason and the actor. Exit 1 if there is no such outcome, or while a
    call with this key runs, also without --yes.

    Example: `onceward outcomes forget shop.charge charge#7 --reason "a test" --yes`
    """
    from onceward.outcomes.reconcile import check_forgettable, get_record

    with open_named_store(store) as ow:
        record = get_record(ow.outcomes, scope, key)
        if not yes:
            check_forgettable(record)
        else:
            ow.outcomes.forget(scope, key, actor=actor or user_name(), reason=reason)
    what = f"was {record.state}" if yes else f"is {record.state}, would be forgotten"
    message = f"{scope} {key}: {what}; the next caller runs it"
    print_change([_shown(message)], applied=yes, json_output=json_output, message=message)


@app.command()
def prune(
    batch: Annotated[int, typer.Option(help="Rows per commit, 1 to 5000.")] = 500,
    yes: Yes = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Erase expired results, and tombstones older than thirty days.

    A result expires after the `ttl` of its function; without one, never. A tombstone is what
    remains of an expired result. For thirty days, calls with its key are rejected; after that the
    next call runs. Pruning only frees space, and no other command does it: run it regularly.

    Example: `onceward outcomes prune --yes`
    """
    with open_named_store(store) as ow:
        pruned = ow.outcomes.prune(batch=batch) if yes else ow.outcomes.prunable()
    would = "" if yes else "would be "
    line = f"{pruned.expired} results {would}erased, {pruned.removed} tombstones {would}removed"
    print_change([line], applied=yes, json_output=json_output, **asdict(pruned))


def _shown(value: object) -> str:
    """Return a value as short printable text."""
    is_plain = value is None or isinstance(value, (str, int))
    text = "-" if value is None else str(value) if is_plain else json.dumps(value)
    shown = visible(text)
    return shown if len(shown) <= RESULT_SHOWN_CHARS else f"{shown[:RESULT_SHOWN_CHARS]}…"


def _print_table(records: list[OutcomeRecord]) -> None:
    rows = ((each.state, each.scope, each.key, each.updated_at, each.owner) for each in records)
    titles = ("state", "scope", "key", "changed", "owner")
    print_table(titles, ([_shown(str(value)) for value in row] for row in rows))
