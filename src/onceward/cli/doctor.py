"""`onceward doctor`: check the system, the installation and the store."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.output import JsonFlag, print_json
from onceward.cli.store_option import ExistingStoreUrl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onceward.doctor import Check

_Deep = Annotated[
    bool,
    typer.Option(
        "--deep", help="Also check every page of an SQLite store; may take long. Default: skip it."
    ),
]


def doctor(
    store: ExistingStoreUrl = None, deep: _Deep = False, json_output: JsonFlag = False
) -> None:
    """Check the system, the installation and the store; print what fails, why, and the fix.

    `note` is something optional: a missing part, a hint, or what was not checked; `warn` is a
    guarantee that may not hold, `fail` one that does not hold; exit 1 only on `fail`. Changes
    nothing, and creates no store.

    Example: `onceward doctor --store postgresql://localhost/work`
    """
    from onceward.doctor import examine_installation, examine_machine, examine_url

    found = [*examine_machine(), *examine_installation(), *examine_url(store, is_deep=deep)]
    failed = any(check.status == "fail" for check in found)
    if json_output:
        print_json({"ok": not failed, "checks": [asdict(check) for check in found]})
    else:
        _print_checks(found)
    if failed:
        raise typer.Exit(1)


def _print_checks(found: Sequence[Check]) -> None:
    """Print one line per check, with reason and fix unless it passed."""
    width = max(len(check.name) for check in found)
    for check in found:
        print(f"{check.status:<4}  {check.name:<{width}}  {check.detail}")
        if check.status != "ok":
            for label, text in (("why", check.why), ("fix", check.fix)):
                if text:
                    print(f"{'':<{width + 8}}{label}: {text}")
    print(_verdict([check.status for check in found]))


def _verdict(statuses: Sequence[str]) -> str:
    """Return the last line: whether all guarantees hold here."""
    failed, warned = statuses.count("fail"), statuses.count("warn")
    if failed:
        return f"not fit: {failed} of {len(statuses)} checks failed"
    if warned:
        return f"fit, with {warned} {'warning' if warned == 1 else 'warnings'}"
    return "fit"
