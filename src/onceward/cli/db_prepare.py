"""`onceward db prepare`: print or run the SQL that makes an app's tables readable."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.app_loading import load_app
from onceward.cli.change_plan import NOT_APPLIED, Yes
from onceward.cli.output import JsonFlag, print_json
from onceward.cli.text_tables import visible
from onceward.errors import SourceRefused

if TYPE_CHECKING:
    from onceward.workers.source_protocol import Preparable


@dataclass(kw_only=True, slots=True)
class _Checked:
    """A source, its error, and the statements that were run."""

    consumer: str
    #: The error of the source; None when it can be read.
    problem: str | None = None
    fix: str | None = None
    #: The statements that are still to be run.
    statements: list[str] = field(default_factory=list)
    applied: list[str] = field(default_factory=list)


def prepare(
    target: Annotated[str, typer.Argument(help="The app, as `module:name`.")],
    yes: Yes = False,
    json_output: JsonFlag = False,
) -> None:
    """Run the SQL that an app's tables need, so that consumers read them without loss.

    Prints each statement; none can lose data. Each runs in its own transaction: after an
    interruption, repeat the command. Building an index blocks writers; for a large PostgreSQL
    table, run the printed statement with CONCURRENTLY yourself. Exit 1 if a source remains that
    this command cannot prepare. Exit 0 if only --yes is missing, or nothing is to be done.

    Example: `onceward db prepare shop:app --yes`
    """
    from onceward.workers.source_protocol import Preparable

    found = load_app(target)
    with found.ow:
        checked = []
        for consumer in found.consumers:
            if isinstance(consumer.source, Preparable):
                one = _Checked(consumer=consumer.name)
                _check(consumer.source, one, is_applied=yes, is_verbose=not json_output)
                checked.append(one)
    if json_output:
        print_json({"applied": yes, "sources": [asdict(one) for one in checked]})
    elif not checked:
        print("nothing to prepare: no consumer reads a table")
    elif not yes and any(one.statements for one in checked):
        print(NOT_APPLIED)
    if any(one.problem and (yes or not one.statements) for one in checked):
        raise typer.Exit(1)


def _check(source: Preparable, one: _Checked, *, is_applied: bool, is_verbose: bool) -> None:
    """Check a source, and run the statements it needs until none are missing."""
    write = print if is_verbose else _discard
    while (error := _refusal(source)) is not None:
        one.problem, one.fix, one.statements = error.message, error.fix, list(error.statements)
        name = visible(one.consumer)
        if not error.statements:
            write(f"{name} cannot be prepared by this command: {visible(error.message)}")
            write(f"  {visible(error.fix)}")
            return
        write(f"{name} is refused: {visible(error.message)}")
        for statement in error.statements:
            write(f"  {visible(statement)};")
        if not is_applied or set(error.statements) <= set(one.applied):
            return
        for statement in error.statements:
            source.apply(statement)
            one.applied.append(statement)
        write(f"  applied {len(error.statements)}")
    one.problem, one.fix, one.statements = None, None, []
    write(f"{visible(one.consumer)} is ready")


def _refusal(source: Preparable) -> SourceRefused | None:
    try:
        source.check()
    except SourceRefused as exc:
        return exc
    return None


def _discard(_: str) -> None:
    """Print no text, because JSON is printed at the end."""
