"""`onceward dispatch dead`: messages that agents failed at too often, and what to do with them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.db import StoreUrl
from onceward.cli.dispatch_looks import entry, line, print_table, span, time
from onceward.cli.dispatch_status import plain_delivery
from onceward.cli.output import JsonFlag, group, print_json
from onceward.errors import InvalidArgument

if TYPE_CHECKING:
    from onceward.dispatch.models import DeliveryRecord
    from onceward.dispatch.operators import Operators
    from onceward.handle import Onceward

app = group("List, show, redrive and drop messages that agents failed at.")

_Letter = Annotated[int, typer.Argument(help="The number of a dead letter.")]


@app.command("list")
def list_letters(
    name: Annotated[str | None, typer.Option("--group", help="Only those of this group.")] = None,
    after: Annotated[int, typer.Option(help="Only those behind this number.", min=0)] = 0,
    limit: Annotated[int, typer.Option(help="At most this many.", min=1, max=1_000)] = 100,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """List dead letters that nobody decided about, the oldest first.

    Example: `onceward dispatch dead list`
    """
    with _opened(store) as ow:
        found = []
        for each in _all(_operators(ow), after):
            if name in (None, each.group):
                found.append(each)
            if len(found) == limit:
                break
    if json_output:
        print_json({"items": [plain_delivery(each) for each in found]})
    elif not found:
        print("no dead letters")
    else:
        rows = (
            (
                each.id,
                time(each.ended_at),
                each.group,
                span(each.first_seq, each.last_seq),
                each.attempt,
                line(each.error or ""),
            )
            for each in found
        )
        print_table(("id", "died", "group", "messages", "tries", "error"), rows)


@app.command()
def show(letter: _Letter, store: StoreUrl = None, json_output: JsonFlag = False) -> None:
    """Show a dead letter: what failed, how often, and the messages.

    Example: `onceward dispatch dead show 7`
    """
    from onceward.dispatch.views import plain_item

    with _opened(store) as ow:
        record, messages = _operators(ow).letter(letter)
    if json_output:
        print_json({**plain_delivery(record), "messages": [plain_item(each) for each in messages]})
        return
    print(f"letter    {record.id}, {record.state}")
    print(f"group     {record.group}")
    print(f"tries     {record.attempt}, the last one {time(record.started_at)}")
    print(f"died      {time(record.ended_at)}")
    print(f"error     {line(record.error or '', 1_000)}")
    print("messages:" if messages else "its messages have arrived anew, under other numbers")
    for each in messages:
        print(entry(each))


@app.command()
def redrive(
    letters: Annotated[list[int], typer.Argument(help="The numbers of dead letters.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen, and stop.")
    ] = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Let the messages of dead letters arrive anew, and call the agent; harmless to repeat.

    Example: `onceward dispatch dead redrive 7`
    """
    with _opened(store) as ow:
        operators = _operators(ow)
        # All of them first: a wrong number among them changes nothing.
        found = {number: operators.letter(number) for number in letters}
        open_ = [number for number, (record, _) in found.items() if str(record.state) == "dead"]
        if dry_run:
            _tell(json_output, f"would redrive {_numbers(open_)}", wouldRedrive=open_)
            return
        done = [number for number in open_ if operators.redrive(number)]
    skipped = [number for number in found if number not in done]
    said = f"redriven {_numbers(done)}"
    if skipped:
        said += f"; left alone, since not dead any more: {_numbers(skipped)}"
    _tell(json_output, said, redriven=done, skipped=skipped)


@app.command()
def drop(
    letter: _Letter,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Give the messages of a dead letter up for good; it stays to be read.

    Example: `onceward dispatch dead drop 7 --yes`
    """
    with _opened(store) as ow:
        operators = _operators(ow)
        record, messages = operators.letter(letter)
        if not yes:
            if json_output or not sys.stdin.isatty():
                message = "yes: this gives messages up, so it wants a yes"
                fix = "look with `onceward dispatch dead show`, then pass --yes"
                raise InvalidArgument(message, fix=fix, field="yes")
            question = f"Give up {len(messages)} messages of {record.group} for good?"
            typer.confirm(question, abort=True)
        is_done = operators.drop(letter)
    said = f"dropped {letter}" if is_done else f"left alone: {letter} is not dead any more"
    _tell(json_output, said, dropped=[letter] if is_done else [])


def _opened(store: str | None) -> Onceward:
    from onceward.handle import open as open_handle

    return open_handle(store)


def _operators(ow: Onceward) -> Operators:
    from onceward.dispatch.operators import Operators

    return Operators(ow.store)


def _all(operators: Operators, after: int) -> Iterator[DeliveryRecord]:
    while found := operators.letters(after, 1_000):
        yield from found
        after = found[-1].id


def _numbers(ids: list[int]) -> str:
    return ", ".join(map(str, ids)) or "nothing"


def _tell(json_output: bool, text: str, **values: object) -> None:
    if json_output:
        print_json(values)
    else:
        print(text)
