"""`onceward work reconcile`: what is only half done, and the command that settles each of it."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.db import StoreUrl
from onceward.cli.output import JsonFlag, print_json
from onceward.cli.tables import visible

if TYPE_CHECKING:
    from onceward.handle import Onceward
    from onceward.workers import App
    from onceward.workers.reconcile import Finding

#: A URL that holds a password is not repeated.
_SECRET: Final = re.compile(r"://[^/@]*:[^/@]*@|password", re.IGNORECASE)


def reconcile(
    target: Annotated[
        str | None,
        typer.Option("--app", help="Ask the sources of this app too: `module:name`."),
    ] = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """List work that is only half done, since when, and what settles it; exit 1 if there is any.

    Looks and changes nothing. Outcomes and steps in doubt, messages that hold a cursor, are parked
    or dead, cursors that are paused, stuck, abandoned or behind, and, with --app, versions that do
    not fit.

    Example: `onceward work reconcile --app shop:app --store sqlite:///work.db`
    """
    from onceward.workers.reconcile import SOME_APP, report

    ow, app = _opened(target, store)
    with ow:
        found = report(ow, app, target=target or SOME_APP)
        url = ow.store.url if target else store
    findings = [_with_store(finding, url) for finding in found]
    if json_output:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        _print(findings)
    if findings:
        raise typer.Exit(1)


def _opened(target: str | None, store: str | None) -> tuple[Onceward, App | None]:
    """Open the store that is named, or the app's own."""
    from onceward.handle import open as open_handle

    if target is None:
        return open_handle(store), None
    from onceward.cli.apps import load_app

    app = load_app(target)
    return (app.ow if store is None else open_handle(store)), app


def _with_store(finding: Finding, store: str | None) -> Finding:
    """Let commands name the store that was looked at; an app that works knows its own."""
    if store is None or _SECRET.search(store):
        return finding
    named = f"--store {shlex.quote(store)}"
    settle = tuple(
        each if each.startswith("onceward work ") else f"{each} {named}" for each in finding.settle
    )
    return replace(finding, settle=settle)


def _print(findings: list[Finding]) -> None:
    for finding in findings:
        print(visible(f"{finding.kind}: {finding.subject}"))
        print(visible(f"  what    {finding.what}"))
        print(visible(f"  since   {finding.since or 'nobody knows'}"))
        for number, command in enumerate(finding.settle):
            print(visible(f"  {'or' if number else 'settle':<6}  {command}"))
    count = len(findings)
    print(f"{count} finding{'s' if count > 1 else ''}" if count else "nothing is half done")
