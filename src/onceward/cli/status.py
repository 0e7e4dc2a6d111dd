"""`onceward status`: unfinished work in a store, and the commands that settle it."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.output import JsonFlag, print_json
from onceward.cli.store_option import StoreUrl, open_named_store
from onceward.cli.text_tables import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceward.client import Onceward
    from onceward.dispatch.models import GroupStatus
    from onceward.workers import App
    from onceward.workers.unfinished_work import UnfinishedItem, UnfinishedKind

#: Matches URLs with a password, which are not printed.
_SECRET: Final = re.compile(r"://[^/@]*:[^/@]*@|password", re.IGNORECASE)


def status(
    target: Annotated[
        str | None,
        typer.Option(
            "--app",
            help="Query the sources of this app, as `module:name`; "
            "its store is then the default of --store.",
        ),
    ] = None,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Report unfinished work, since when, and the command that settles it; exit 1 if any.

    It settles nothing. Reported are ambiguous outcomes and steps, outcomes past their lease,
    messages that block a cursor, parked messages, dead letters, and cursors that are paused or
    stuck. Work in progress is not: a lag is reported only without a worker, unsent replies only
    without a dispatcher, and pending deliveries only without a dispatcher, in a paused group, or
    after a failure.

    With --app, so are positions that a source rejects, or that another version of a consumer wrote
    and no migration converts. A store that did not exist is created; without --app it has no
    findings: exit 0.

    Example: `onceward status --app shop:app --store sqlite:///work.db`
    """
    from onceward.workers.unfinished_work import SOME_APP, find_unfinished

    ow, app = _open(target, store)
    with ow:
        found = [*find_unfinished(ow, app, target=target or SOME_APP), *conversation_findings(ow)]
        url = ow.store.url if target else store
    findings = [_with_store(finding, url) for finding in found]
    if json_output:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        _print(findings)
    if findings:
        raise typer.Exit(1)


def _open(target: str | None, store: str | None) -> tuple[Onceward, App | None]:
    """Open the store of `--store`, or the app's own."""
    if target is None:
        return open_named_store(store), None
    from onceward.cli.app_loading import load_app

    app = load_app(target)
    return (app.ow if store is None else open_named_store(store)), app


# --- conversations --------------------------------------------------------------------------------


def conversation_findings(ow: Onceward) -> Iterator[UnfinishedItem]:
    """Yield messages and replies of dispatch groups that no running dispatcher handles."""
    from onceward.cli.dispatch_status import holder
    from onceward.dispatch.operator_actions import Operators

    groups = Operators(ow.store).status()
    is_served = holder(ow) is not None if groups else False
    for group in groups:
        yield from _pending(group, is_served=is_served)


def _pending(status: GroupStatus, *, is_served: bool) -> Iterator[UnfinishedItem]:
    """Yield findings for messages that wait for an agent, and replies that wait for a channel."""
    group, running = status.group, status.in_flight
    serve = "onceward dispatch serve"
    if running is not None and not is_served:
        what = f"delivery {running.id} is running, and no dispatcher serves this store"
        yield _finding("pending delivery", group.name, what, running.started_at, serve)
    elif status.is_called and running is None and (group.is_paused or not is_served):
        resume = f"onceward dispatch groups set {shlex.quote(group.name)} --resume"
        why = "the group is paused" if group.is_paused else "no dispatcher serves this store"
        what = f"{status.pending} messages wait, and {why}"
        yield _finding(
            "pending delivery", group.name, what, None, resume if group.is_paused else serve
        )
    elif group.attempts and running is None:
        what = f"failed {group.attempts} times; retried when due: {group.last_error or ''}"
        show = f"onceward dispatch status {shlex.quote(group.name)}"
        yield _finding("pending delivery", group.name, what, None, show)
    if status.unsent and not is_served:
        what = f"{status.unsent} replies are not sent, and no dispatcher serves this store"
        yield _finding("unsent replies", group.name, what, None, serve)


def _finding(
    kind: UnfinishedKind, group: str, what: str, since: str | None, *settle: str
) -> UnfinishedItem:
    from onceward.workers.unfinished_work import UnfinishedItem

    return UnfinishedItem(
        kind=kind, subject=group, what=what.rstrip(": "), since=since, settle=settle
    )


# --- output ---------------------------------------------------------------------------------------


def _with_store(finding: UnfinishedItem, store: str | None) -> UnfinishedItem:
    """Add `--store` to the commands of a finding, except to a worker's: its app names a store."""
    if store is None or _SECRET.search(store):
        return finding
    option = f"--store {shlex.quote(store)}"
    settle = tuple(
        each if each.startswith("onceward worker ") else f"{each} {option}"
        for each in finding.settle
    )
    return replace(finding, settle=settle)


def _print(findings: list[UnfinishedItem]) -> None:
    for finding in findings:
        print(visible(f"{finding.kind}: {finding.subject}"))
        print(visible(f"  what    {finding.what}"))
        print(visible(f"  since   {finding.since or 'unknown'}"))
        for number, command in enumerate(finding.settle):
            print(visible(f"  {'or' if number else 'settle':<6}  {command}"))
    count = len(findings)
    print(f"{count} finding{'s' if count > 1 else ''}" if count else "no unfinished work")
