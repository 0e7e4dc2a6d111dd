"""`onceward dead`: list, show, redrive and drop the dead letters of workers and chat."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from onceward.cli.change_plan import Yes, print_change
from onceward.cli.dead_format import numbers, plan_lines, print_detail, print_table, settled_text
from onceward.cli.output import JsonFlag, group, print_json, time_argument, user_name
from onceward.cli.store_option import StoreUrl, open_named_store
from onceward.errors import Conflict, DeadLetterMissing, InvalidArgument

if TYPE_CHECKING:
    from onceward.client import Onceward
    from onceward.dispatch import GroupMessage
    from onceward.retries import DeadFilter, DeadLetter

app = group("List, show, redrive and drop dead letters of workers and chat.")

_Letter = Annotated[int, typer.Argument(help="The number of a dead letter.")]
_Letters = Annotated[
    list[int] | None, typer.Argument(help="The numbers of dead letters. Not with a filter.")
]
_Cursor = Annotated[str | None, typer.Option(help="Only letters of this cursor.")]
_Key = Annotated[str | None, typer.Option(help="Only letters with this key.")]
_Group = Annotated[str | None, typer.Option(help="Only chat letters of this group.")]
_Error = Annotated[
    str | None, typer.Option(help="Only letters whose error contains this text, in any case.")
]
_Source = Annotated[
    Literal["worker", "chat"] | None, typer.Option(help="Only letters of workers, or of chat.")
]
_Since = Annotated[
    str | None,
    typer.Option(
        help="Only letters that became dead at this time or later (ISO 8601; UTC without a zone)."
    ),
]
_State = Annotated[
    Literal["dead", "redriven", "dropped", "all"], typer.Option(help="Only letters in this state.")
]
_Limit = Annotated[
    int,
    typer.Option(help="Maximum number of letters that the filter selects, up to 10000."),
]
_Actor = Annotated[
    str | None, typer.Option(help="The operator, stored with the letter. Default: your user name.")
]


@app.command(name="list")
def list_letters(
    cursor: _Cursor = None,
    key: _Key = None,
    group: _Group = None,
    error: _Error = None,
    source: _Source = None,
    since: _Since = None,
    state: _State = "dead",
    limit: _Limit = 100,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """List dead letters: messages that failed and are no longer retried. Newest first.

    A worker's letter is one message, a chat letter the messages of one delivery. Prints `no dead
    letters` if none matches; exit 0.

    Example: `onceward dead list --cursor lead_intake_v1 --store sqlite:///work.db`
    """
    from onceward.retries.views import plain

    with open_named_store(store) as ow:
        found = ow.dead.list(
            cursor=cursor,
            key=key,
            group=group,
            error=error,
            source=source,
            since=None if since is None else time_argument("since", since),
            state=None if state == "all" else state,
            limit=limit,
        )
    if json_output:
        print_json({"items": [plain(letter) for letter in found]})
    else:
        print_table(found)


@app.command()
def show(
    letter: _Letter,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write only the message's bytes; of a chat letter, none.")
    ] = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Show one dead letter: its messages, the error, and its latest attempts; exit 1 if none.

    Example: `onceward dead show 7 --store sqlite:///work.db`
    """
    from onceward.dispatch.views import plain_item
    from onceward.retries.views import plain

    with open_named_store(store) as ow:
        found = ow.dead.show(letter)
        messages = _messages(ow, found)
    if raw:
        sys.stdout.buffer.write(found.raw)
        sys.stdout.buffer.flush()
    elif json_output:
        chat = {"messages": [plain_item(each) for each in messages]}
        print_json({**plain(found), **(chat if found.source == "chat" else {})})
    else:
        print_detail(found, messages)


@app.command()
def redrive(
    ids: _Letters = None,
    cursor: _Cursor = None,
    key: _Key = None,
    group: _Group = None,
    error: _Error = None,
    source: _Source = None,
    since: _Since = None,
    limit: _Limit = 1_000,
    reason: Annotated[str, typer.Option(help="The reason, stored with the letter.")] = "",
    actor: _Actor = None,
    yes: Yes = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Requeue dead letters, oldest first: pass numbers, or at least one filter.

    A worker's message comes before those of its key that still wait; later ones may have been
    processed meanwhile. Chat messages come after all later ones. Attempts count from 0 again.

    Letters that are not dead are skipped; with --yes, exit 1 if all are. Exit 1 if a number does
    not exist: then nothing is changed. Exit 0 if a filter finds none.

    Example: `onceward dead redrive --cursor lead_intake_v1 --yes`
    """
    wanted = _filter(ids, cursor, key, group, error, source, since, limit)
    with open_named_store(store) as ow:
        chosen = ids or ow.dead.matching(wanted)
        if not yes:
            _print_plan(ow, "redrive", chosen, json_output=json_output)
            return
        done = ow.dead.redrive(chosen, actor=actor or user_name(), reason=reason)
        _print_done(ow, "redriven", done.ids, done.skipped, json_output=json_output)


@app.command()
def drop(
    reason: Annotated[str, typer.Option(help="Required. The reason, stored with the letter.")],
    ids: _Letters = None,
    cursor: _Cursor = None,
    key: _Key = None,
    group: _Group = None,
    error: _Error = None,
    source: _Source = None,
    since: _Since = None,
    limit: _Limit = 1_000,
    actor: _Actor = None,
    yes: Yes = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Discard dead letters: pass numbers, or at least one filter.

    They are not retried, and cannot be redriven later. They stay readable for 30 days by default.
    Letters that are not dead are skipped; with --yes, exit 1 if all are. Exit 1 if a number does
    not exist: then nothing is changed. Exit 0 if a filter finds none.

    Example: `onceward dead drop 7 --reason "a test message" --yes`
    """
    wanted = _filter(ids, cursor, key, group, error, source, since, limit)
    with open_named_store(store) as ow:
        chosen = ids or ow.dead.matching(wanted)
        if not yes:
            _print_plan(ow, "drop", chosen, json_output=json_output)
            return
        done = ow.dead.drop_all(chosen, reason=reason, actor=actor or user_name())
        _print_done(ow, "dropped", done.ids, done.skipped, json_output=json_output)


def _filter(
    ids: list[int] | None,
    cursor: str | None,
    key: str | None,
    group: str | None,
    error: str | None,
    source: Literal["worker", "chat"] | None,
    since: str | None,
    limit: int,
) -> DeadFilter:
    from onceward.retries import DeadFilter

    filters = (cursor, key, group, error, source, since)
    if bool(ids) == any(each is not None for each in filters):
        what = "both numbers and a filter were passed" if ids else "no number or filter was passed"
        message = f"ids: {what}; nothing was changed"
        fix = "pass numbers, or --cursor, --key, --group, --error, --source or --since"
        raise InvalidArgument(message, fix=fix, field="ids")
    moment = None if since is None else time_argument("since", since)
    return DeadFilter(
        cursor=cursor, key=key, group=group, error=error, source=source, since=moment, limit=limit
    )


def _messages(ow: Onceward, letter: DeadLetter) -> list[GroupMessage]:
    """Return the messages of a chat letter; none of a worker's letter."""
    from onceward.dispatch import Operators

    return Operators(ow.store).messages_of(letter)


def _print_plan(
    ow: Onceward, action: str, chosen: list[int] | tuple[int, ...], *, json_output: bool
) -> None:
    """Print what a command with --yes would change."""
    found = ow.dead.get_many(chosen)
    missing = sorted(set(chosen) - {each.id for each in found})
    if missing:
        message = f"there is no dead letter {missing[0]}; nothing was changed"
        raise DeadLetterMissing(message, id=missing[0])
    dead = [each for each in found if each.state == "dead"]
    settled = [each for each in found if each.state != "dead"]
    messages = {int(each.id): len(_messages(ow, each)) for each in dead if each.source == "chat"}
    values = {
        "action": action,
        "ids": [each.id for each in dead],
        "skipped": [each.id for each in settled],
        "messages": sum(messages.get(each.id, 1) for each in dead),
    }
    lines = plan_lines(action, dead, settled, messages)
    print_change(lines, applied=False, json_output=json_output, **values)


def _print_done(
    ow: Onceward,
    verb: str,
    ids: tuple[int, ...],
    skipped: tuple[int, ...],
    *,
    json_output: bool,
) -> None:
    """Print what was changed; Conflict when another operator had decided about all letters."""
    settled = ow.dead.get_many(skipped) if skipped else []
    if settled and not ids:
        fix = f"see `onceward dead show {settled[0].id}`"
        message = f"{settled_text(settled)}; nothing was changed"
        raise Conflict(message, fix=fix, ids=list(skipped))
    rest = f"; not changed: {settled_text(settled)}" if settled else ""
    values = {verb: list(ids), "skipped": list(skipped)}
    print_change([f"{verb} {numbers(ids)}{rest}"], applied=True, json_output=json_output, **values)
