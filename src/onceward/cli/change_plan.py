"""Plan before change: a command that repeats, discards or overwrites work needs `--yes`.

Without it the command prints its plan with numbers, changes nothing and ends with exit code 0. What
only creates, reads, pauses or resumes needs no `--yes`. `--force` is another flag: it overrides a
refusal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import typer

from onceward.cli.output import print_json

Yes = Annotated[
    bool, typer.Option("--yes", help="Apply the change. Default: print the plan, change nothing.")
]
#: The last line of every plan.
NOT_APPLIED: Final = "nothing was changed; pass --yes to apply"


def print_change(
    lines: Iterable[str], *, applied: bool, json_output: bool, **values: object
) -> None:
    """Print what a command changed, or its plan; as JSON the values and whether it was applied."""
    if json_output:
        print_json({"applied": applied, **values})
        return
    for line in lines:
        print(line)
    if not applied:
        print(NOT_APPLIED)
