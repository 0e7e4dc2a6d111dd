"""`onceward work prepare`: show the statements that make tables readable, and apply them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.apps import load_app
from onceward.cli.output import JsonFlag, print_json
from onceward.cli.tables import visible
from onceward.errors import SourceRefused

if TYPE_CHECKING:
    from onceward.workers.source import Preparable


@dataclass(kw_only=True, slots=True)
class _Checked:
    """A source that was looked at, and what was done about it."""

    consumer: str
    #: Why it is refused; None when it can be read.
    problem: str | None = None
    fix: str | None = None
    #: What is still to be run.
    statements: list[str] = field(default_factory=list)
    applied: list[str] = field(default_factory=list)


def prepare(
    target: Annotated[str, typer.Argument(help="Where the app is: `module:name`.")],
    apply: Annotated[
        bool, typer.Option("--apply", help="Run the statements. Default: dry run.")
    ] = False,
    json_output: JsonFlag = False,
) -> None:
    """Show the SQL that the tables of an app lack to be read without loss, and apply it.

    Prints each statement before it is run. A statement that could lose something is never run.
    Each is a transaction of its own: after an interruption, run the command again. An index is
    built while writers wait; for a large PostgreSQL table, run the printed statement with
    CONCURRENTLY yourself. Exit code 1 when a source is still refused.

    Example: `onceward work prepare shop:app --apply`
    """
    from onceward.workers.source import Preparable

    found = load_app(target)
    with found.ow:
        checked = []
        for consumer in found.consumers:
            if isinstance(consumer.source, Preparable):
                one = _Checked(consumer=consumer.name)
                _check(consumer.source, one, is_applied=apply, is_told=not json_output)
                checked.append(one)
    if json_output:
        print_json({"dry_run": not apply, "sources": [asdict(one) for one in checked]})
    elif not apply and any(one.statements for one in checked):
        print("nothing was changed; pass --apply to run these statements")
    if any(one.problem for one in checked):
        raise typer.Exit(1)


def _check(source: Preparable, one: _Checked, *, is_applied: bool, is_told: bool) -> None:
    """Look at a source, and apply what it asks for until it asks for nothing new."""
    tell = print if is_told else _silent
    while (error := _refusal(source)) is not None:
        one.problem, one.fix, one.statements = error.message, error.fix, list(error.statements)
        name = visible(one.consumer)
        if not error.statements:
            tell(f"{name} cannot be prepared by this command: {visible(error.message)}")
            tell(f"  {visible(error.fix)}")
            return
        tell(f"{name} is refused: {visible(error.message)}")
        for statement in error.statements:
            tell(f"  {visible(statement)};")
        if not is_applied or set(error.statements) <= set(one.applied):
            return
        for statement in error.statements:
            source.apply(statement)
            one.applied.append(statement)
        tell(f"  applied {len(error.statements)}")
    one.problem, one.fix, one.statements = None, None, []
    tell(f"{visible(one.consumer)} is ready")


def _refusal(source: Preparable) -> SourceRefused | None:
    try:
        source.check()
    except SourceRefused as exc:
        return exc
    return None


def _silent(_: str) -> None:
    """Print nothing: JSON comes at the end."""
