"""`onceward doctor`: whether this machine is fit to keep promises."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.db import StoreUrl
from onceward.cli.output import JsonFlag, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onceward.doctor import Check

_Deep = Annotated[
    bool, typer.Option("--deep", help="Let the engine check all of the store; may take long.")
]


def doctor(store: StoreUrl = None, deep: _Deep = False, json_output: JsonFlag = False) -> None:
    """Check machine, installation and store; say what is missing, why it matters, and the fix.

    `note` is something optional that is not there, `warn` a promise that may not hold, `fail` one
    that does not: then the exit code is 1. Nothing is changed, and a store that is not there yet is
    not made.

    Example: `onceward doctor --store postgresql://localhost/work`
    """
    from onceward.doctor import examine_installation, examine_machine, examine_url

    found = [*examine_machine(), *examine_installation(), *examine_url(store, is_deep=deep)]
    failed = any(check.status == "fail" for check in found)
    if json_output:
        print_json({"ok": not failed, "checks": [asdict(check) for check in found]})
    else:
        _tell(found)
    if failed:
        raise typer.Exit(1)


def _tell(found: Sequence[Check]) -> None:
    """Print a line for each; why it matters, and what to do, only where there is something."""
    width = max(len(check.name) for check in found)
    for check in found:
        print(f"{check.status:<4}  {check.name:<{width}}  {check.detail}")
        if check.status != "ok":
            for word, said in (("why", check.why), ("fix", check.fix)):
                if said:
                    print(f"{'':<{width + 8}}{word}: {said}")
    print(_verdict([check.status for check in found]))


def _verdict(statuses: Sequence[str]) -> str:
    """Return the last line: whether promises can be kept here."""
    failed, warned = statuses.count("fail"), statuses.count("warn")
    if failed:
        return f"not fit: {failed} of {len(statuses)} checks failed"
    if warned:
        return f"fit, with {warned} {'warning' if warned == 1 else 'warnings'}"
    return "fit"
